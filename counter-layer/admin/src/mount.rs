//! The path below which clients find a router.
//!
//! It is where axum has mounted the router, unless a proxy takes the beginning of a path away before it passes a
//! request on. Then it is what the application says, or what a proxy says that the application trusts.

use std::fmt;
use std::sync::Arc;

use axum::extract::OriginalUri;
use http::Uri;
use http::header::HeaderName;
use http::request::Parts;

/// The path of a site, without a slash at its end: empty, or `/` and what follows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PublicPath(Arc<str>);

/// The error of a text that cannot be the path of a site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PublicPathError;

/// The place of a router, as the client of a request sees it; the guard leaves it in the request.
#[derive(Clone, Debug)]
pub(crate) struct Mount {
    path: String,
    /// The first page has a slash at its end: proxies that serve a folder add one by a redirect.
    is_folder: bool,
    /// The rest of the path of the request; empty for the first page without a slash at its end.
    rest: String,
}

/// The part of a path that a proxy has taken away.
const PREFIX: HeaderName = HeaderName::from_static("x-forwarded-prefix");

/// The longest path of a site, in bytes.
const LONGEST: usize = 512;

impl PublicPath {
    /// Takes segments of a path (RFC 3986, section 3.3) that are neither empty nor dots: what begins with two
    /// slashes would name a host. Semicolons would end the path of a cookie, and a comma is between two values.
    pub(crate) fn new(text: &str) -> Result<Self, PublicPathError> {
        let path = text.strip_suffix('/').unwrap_or(text);
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~%!$&'()*+=:@".contains(&byte);
        let segment = |segment: &str| !matches!(segment, "" | "." | "..") && segment.bytes().all(allowed);
        let is_path = match path.strip_prefix('/') {
            Some(path) => path.split('/').all(segment),
            None => text == "/",
        };
        if is_path && path.len() <= LONGEST { Ok(Self(path.into())) } else { Err(PublicPathError) }
    }
}

impl Mount {
    /// Returns the place of the router that this request has reached.
    pub(crate) fn of(parts: &Parts, public: Option<&PublicPath>, is_prefix_trusted: bool) -> Self {
        let whole = original(parts).path();
        let local = whole.strip_suffix(parts.uri.path()).unwrap_or(whole);
        let rest = whole.strip_prefix(local).unwrap_or_default();
        let local = local.trim_end_matches('/');
        let prefix = prefix(parts).filter(|_| is_prefix_trusted);
        let (path, is_folder) = match (public, prefix) {
            (Some(PublicPath(path)), _) => (path.to_string(), true),
            (None, Some(PublicPath(prefix))) => (format!("{prefix}{local}"), local.is_empty()),
            (None, None) => (local.to_owned(), local.is_empty()),
        };
        Self { path, is_folder, rest: rest.to_owned() }
    }

    /// The path of the router, without a slash at its end: empty at the root.
    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    /// The address of the first page.
    pub(crate) fn first(&self) -> String {
        format!("{}{}", self.path, if self.is_folder { "/" } else { "" })
    }

    /// The rest of the path of the request.
    pub(crate) fn rest(&self) -> &str {
        &self.rest
    }

    /// The address of something below the router, by the rest of its path and its query.
    pub(crate) fn address(&self, rest: &str) -> String {
        let address = format!("{}{rest}", self.path);
        // Two slashes at the beginning would name a host, and browsers take a backslash for one.
        format!("/{}", address.trim_start_matches(['/', '\\']))
    }
}

/// The only value of the header, if it is a path.
fn prefix(parts: &Parts) -> Option<PublicPath> {
    let mut values = parts.headers.get_all(PREFIX).iter();
    let value = values.next()?.to_str().ok()?;
    PublicPath::new(value).ok().filter(|_| values.next().is_none())
}

/// The address of a request before routers took their mounts away.
pub(crate) fn original(parts: &Parts) -> &Uri {
    parts.extensions.get::<OriginalUri>().map_or(&parts.uri, |original| &original.0)
}

impl fmt::Display for PublicPathError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not a path such as /stats, of at most {LONGEST} bytes")
    }
}

impl std::error::Error for PublicPathError {}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    #[test]
    fn a_public_path_has_segments_and_no_host() {
        for (text, path) in [
            ("/", Some("")),
            ("/stats", Some("/stats")),
            ("/stats/", Some("/stats")),
            ("/a/b-c_d.e~/%C3%A9", Some("/a/b-c_d.e~/%C3%A9")),
            ("", None),
            ("stats", None),
            ("stats/", None),
            ("//", None),
            ("//host", None),
            ("//host/stats", None),
            ("/stats//", None),
            ("/a//b", None),
            ("/a/../b", None),
            ("/.", None),
            ("/\\host", None),
            ("https://host", None),
            ("/a?b", None),
            ("/a#b", None),
            ("/a;b", None),
            ("/a,/b", None),
            ("/a b", None),
            ("/a\r\nb", None),
            ("/é", None),
            ("/\"><script>", None),
        ] {
            let read = PublicPath::new(text);
            assert_eq!(read.as_ref().ok().map(|path| &*path.0), path, "{text:?}");
        }
        assert!(PublicPath::new(&format!("/{}", "a".repeat(511))).is_ok());
        assert!(PublicPath::new(&format!("/{}", "a".repeat(512))).is_err());
    }

    #[test]
    fn the_path_is_that_of_axum_or_what_was_said() {
        let stats = PublicPath::new("/stats").expect("a path");
        for (whole, inner, prefixes, public, is_trusted, expected) in [
            ("/admin/stats", "/", &[] as &[&str], None, false, ("/admin/stats", "")),
            ("/admin/stats/", "/", &[], None, false, ("/admin/stats", "/")),
            ("/admin/stats/api", "/api", &[], None, false, ("/admin/stats", "/api")),
            ("/", "/", &[], None, false, ("", "/")),
            ("/api", "/api", &[], None, false, ("", "/api")),
            ("/admin/stats/api", "/api", &[], Some(&stats), false, ("/stats", "/api")),
            ("/admin/stats", "/", &["/a"], None, true, ("/a/admin/stats", "")),
            ("/api", "/api", &["/a/"], None, true, ("/a", "/api")),
            ("/api", "/api", &["/a"], None, false, ("", "/api")),
            ("/api", "/api", &["//a"], None, true, ("", "/api")),
            ("/api", "/api", &["/a", "/b"], None, true, ("", "/api")),
            ("/api", "/api", &["/a"], Some(&stats), true, ("/stats", "/api")),
        ] {
            let mut request = Request::get(inner);
            for prefix in prefixes {
                request = request.header(PREFIX, *prefix);
            }
            let request = request.extension(OriginalUri(whole.parse().expect("a path")));
            let (parts, ()) = request.body(()).expect("a request").into_parts();
            let mount = Mount::of(&parts, public, is_trusted);
            assert_eq!((mount.path(), mount.rest()), expected, "{whole} {prefixes:?}");
        }
    }

    #[test]
    fn the_first_page_has_a_slash_where_a_proxy_would_add_one() {
        let stats = PublicPath::new("/stats").expect("a path");
        for (whole, prefix, public, first) in [
            ("/admin/stats/api", "", None, "/admin/stats"),
            ("/api", "", None, "/"),
            ("/api", "/a", None, "/a/"),
            ("/admin/stats/api", "/a", None, "/a/admin/stats"),
            ("/admin/stats/api", "", Some(&stats), "/stats/"),
        ] {
            let request = Request::get("/api").header(PREFIX, prefix);
            let request = request.extension(OriginalUri(whole.parse().expect("a path")));
            let (parts, ()) = request.body(()).expect("a request").into_parts();
            assert_eq!(Mount::of(&parts, public, true).first(), first, "{whole} {prefix}");
        }
    }

    #[test]
    fn no_address_names_a_host() {
        let mount = |path: &str| Mount { path: path.to_owned(), is_folder: false, rest: String::new() };
        for (path, rest, address) in [
            ("", "", "/"),
            ("", "?a", "/?a"),
            ("", "//host", "/host"),
            ("", "/\\host", "/host"),
            ("", "/api?a=//b", "/api?a=//b"),
            ("/stats", "", "/stats"),
            ("/stats", "//host", "/stats//host"),
        ] {
            assert_eq!(mount(path).address(rest), address, "{path} and {rest}");
        }
    }
}
