//! Values that only count for some responses: of views, and of missing pages.

use std::fmt;

use http::header::REFERER;
use http::{HeaderValue, Method, Uri};

use super::groups::Groups;
use super::host::InternalHost;
use super::text::Text;
use super::value::Value;
use super::{query, referrer};
use crate::closure::Closure;
use crate::identity::RequestHead;
use crate::request::path::{is_plain, normalise};
use crate::rules::{Match, Rules};

/// A value that depends on the response.
pub(super) enum Late {
    /// The path of a view, unless it is private.
    Address(Box<Private>),
    /// The site or app that a view comes from.
    Group {
        internal: Vec<InternalHost>,
        groups: Box<Groups>,
    },
    Missing(Missing),
}

/// When a value counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum When {
    View,
    Missing,
}

/// The requests whose addresses are not kept.
#[derive(Default)]
pub(super) struct Private {
    /// Excludes the paths.
    pub(super) paths: Option<Rules>,
    pub(super) closure: Option<Box<IsPrivate>>,
}

/// The part of a missing page to be counted.
#[derive(Clone, Copy, Debug)]
pub(super) enum Missing {
    Path,
    /// The path and the referring host, separated by a space, which a path can't contain.
    Link,
}

type IsPrivate = Closure<dyn Fn(&RequestHead<'_>) -> bool + Send + Sync>;

/// The part of a request that is needed when the response is known. Copies share the bytes of the request.
pub(crate) struct LateHead {
    uri: Uri,
    referrer: Option<HeaderValue>,
    /// True if the address of the request must not be kept.
    is_private: bool,
}

/// Maximum length of a path in bytes. Longer paths count as `(other)`.
const MAX_PATH_BYTES: usize = 120;

impl Late {
    pub(super) const fn when(&self) -> When {
        match self {
            Self::Address(_) | Self::Group { .. } => When::View,
            Self::Missing(_) => When::Missing,
        }
    }

    /// Returns text that does not need to be validated if it is equal to a known value, or an empty text for a live request
    /// without a value. `None` if there is no such short way to the value.
    pub(super) fn plain<'a>(&'a self, head: &RequestHead<'a>) -> Option<&'a [u8]> {
        match self {
            Self::Address(private) => {
                let path = head.uri.path();
                let is_short = path.len() <= MAX_PATH_BYTES && is_plain(path);
                (is_short && private.closure.is_none() && !private.excludes(path)).then_some(path.as_bytes())
            }
            Self::Group { internal, groups } => {
                let referrer = head.headers.get(REFERER).map_or(&[][..], |referrer| referrer.as_bytes());
                let is_tagged = head.uri.query().is_some_and(query::has_source);
                if referrer.is_empty() && !is_tagged {
                    return Some(&[]);
                }
                let host = referrer::plain_host(referrer, &[])?;
                if referrer::is_internal(host, internal) {
                    return Some(&[]);
                }
                (!is_tagged).then(|| groups.recent(host).map_or(host, |group| group.name().as_bytes()))
            }
            Self::Missing(_) => None,
        }
    }

    /// Returns `true` if the address of a request must not be kept because of the closure.
    pub(super) fn is_private(&self, head: &RequestHead<'_>) -> bool {
        let Self::Address(private) = self else { return false };
        let Some(closure) = &private.closure else { return false };
        // A panic must not reveal an address.
        closure.call(|is_private| is_private(head)).unwrap_or(true)
    }

    pub(super) fn value<'a>(&self, head: &'a LateHead, text: &'a mut Text) -> Value<'a> {
        let referrer = head.referrer.as_ref().map_or(&[][..], HeaderValue::as_bytes);
        match self {
            Self::Address(private) => private.address(head, text),
            Self::Group { internal, groups } => {
                referrer::group(referrer, head.uri.query(), internal, groups, text)
            }
            Self::Missing(part) => head.missing(*part, referrer, text),
        }
    }
}

impl Private {
    fn address<'a>(&self, head: &'a LateHead, text: &'a mut Text) -> Value<'a> {
        if head.is_private || self.excludes(head.uri.path()) {
            return Value::Other;
        }
        head.missing(Missing::Path, &[], text)
    }

    fn excludes(&self, path: &str) -> bool {
        let Some(paths) = &self.paths else { return false };
        // In rules, `/reset/7/` is not the same as `/reset/7`, but it is as private.
        [path, path.trim_end_matches('/')]
            .iter()
            .any(|path| matches!(paths.by_path(&Method::GET, path), Some(Match::Excluded(_))))
    }
}

impl LateHead {
    pub(super) fn of(head: &RequestHead<'_>, is_private: bool) -> Self {
        Self { uri: head.uri.clone(), referrer: head.headers.get(REFERER).cloned(), is_private }
    }

    fn missing<'a>(&'a self, part: Missing, referrer: &[u8], text: &'a mut Text) -> Value<'a> {
        // The same page in several spellings is one page, as in rules.
        let Ok(path) = normalise(self.uri.path()) else { return Value::Other };
        if path.len() > MAX_PATH_BYTES {
            return Value::Other;
        }
        if let Missing::Path = part {
            return text.extend(path.bytes()).map_or(Value::Other, Value::Text);
        }
        let mut host_text = Text::new();
        match referrer::host(referrer, &mut host_text) {
            Value::Text(host) => {
                let link = path.bytes().chain([b' ']).chain(host.bytes());
                text.extend(link).map_or(Value::Other, Value::Text)
            }
            Value::None => Value::None,
            Value::Other => Value::Other,
        }
    }
}

// Logs must not contain a referrer or a query.
impl fmt::Debug for LateHead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LateHead").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    #[test]
    fn a_missing_page_has_a_path_and_a_link_has_a_host() {
        let long = format!("/{}", "a".repeat(MAX_PATH_BYTES));
        for (uri, referrer, path, link) in [
            (
                "/old%20page?id=7",
                Some("https://www.news.example/a?b"),
                Value::Text("/old%20page"),
                Value::Text("/old%20page news.example"),
            ),
            ("/caf\u{e9}", None, Value::Text("/caf%C3%A9"), Value::None),
            ("/caf%c3%a9", None, Value::Text("/caf%C3%A9"), Value::None),
            ("//a/./b/..;x=1/%63;jsessionid=7?d", None, Value::Text("/a/c"), Value::None),
            (
                "http://example.org/a",
                Some("http://blog.example"),
                Value::Text("/a"),
                Value::Text("/a blog.example"),
            ),
            ("/a", None, Value::Text("/a"), Value::None),
            ("/a", Some("https://192.0.2.1/"), Value::Text("/a"), Value::Other),
            (&long, Some("https://a.example/"), Value::Other, Value::Other),
            ("*", None, Value::Other, Value::Other),
        ] {
            let request = Request::options(uri);
            let request = match referrer {
                Some(referrer) => request.header(REFERER, referrer),
                None => request,
            };
            let request = request.body(()).expect("a request");
            let head = LateHead::of(&RequestHead::of(&request), false);
            let mut text = Text::new();
            let of = |part| Late::Missing(part);
            assert_eq!(of(Missing::Path).value(&head, &mut Text::new()), path, "{uri}");
            assert_eq!(of(Missing::Link).value(&head, &mut text), link, "{uri}");
            assert_eq!(Late::Address(Box::default()).value(&head, &mut Text::new()), path, "{uri}");
        }
    }
}
