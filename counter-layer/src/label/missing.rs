//! Missing pages, and the hosts that link to them.

use std::fmt;

use http::header::REFERER;
use http::{HeaderValue, Uri};

use super::referrer;
use super::text::Text;
use super::value::Value;
use crate::identity::RequestHead;
use crate::request::path::normalise;

/// The part of a missing page to be counted.
#[derive(Clone, Copy, Debug)]
pub(super) enum Missing {
    Path,
    /// The path and the referring host, separated by a space, which a path can't contain.
    Link,
}

/// The part of a request that is needed if the page is missing. Copies share the bytes of the request.
pub(crate) struct MissingHead {
    uri: Uri,
    referrer: Option<HeaderValue>,
}

/// Maximum length of a path in bytes. Longer paths count as `(other)`.
const MAX_PATH_BYTES: usize = 120;

impl MissingHead {
    pub(super) fn of(head: &RequestHead<'_>) -> Self {
        Self { uri: head.uri.clone(), referrer: head.headers.get(REFERER).cloned() }
    }

    pub(super) fn value<'a>(&'a self, part: Missing, text: &'a mut Text) -> Value<'a> {
        // The same page in several spellings is one page, as in rules.
        let Ok(path) = normalise(self.uri.path()) else { return Value::Other };
        if path.len() > MAX_PATH_BYTES {
            return Value::Other;
        }
        if let Missing::Path = part {
            return text.extend(path.bytes()).map_or(Value::Other, Value::Text);
        }
        let mut host_text = Text::new();
        match referrer::host(self.referrer.as_ref().map_or(&[], HeaderValue::as_bytes), &mut host_text) {
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
impl fmt::Debug for MissingHead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MissingHead").finish_non_exhaustive()
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
            let head = MissingHead::of(&RequestHead::of(&request));
            let mut text = Text::new();
            assert_eq!(head.value(Missing::Path, &mut Text::new()), path, "{uri}");
            assert_eq!(head.value(Missing::Link, &mut text), link, "{uri}");
        }
    }
}
