//! The path at which clients reach a router.
//!
//! This is the path at which axum mounts the router, unless a proxy strips a path prefix. In this case, the
//! path must be configured by the application, or sent by a proxy if the application trusts the proxy.

use std::fmt;
use std::sync::Arc;

use axum::extract::OriginalUri;
use http::Uri;
use http::header::HeaderName;
use http::request::Parts;

/// The path of a site without a trailing slash: either empty or starting with `/`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PublicPath(Arc<str>);

/// Error returned if a string is not a valid site path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PublicPathError;

/// The path of a router as seen by the client. The guard stores this in the request extensions.
#[derive(Clone, Debug)]
pub(crate) struct Mount {
    path: String,
    /// True if the first page has a trailing slash. Proxies that serve a folder redirect to add a slash.
    is_folder: bool,
    /// The remaining request path. Empty for the first page without a trailing slash.
    rest: String,
}

/// The header with the path prefix that a proxy has stripped.
const PREFIX: HeaderName = HeaderName::from_static("x-forwarded-prefix");

/// The maximum length of a public path in bytes.
const MAX_PATH_BYTES: usize = 512;

impl PublicPath {
    /// Accepts path segments (RFC 3986, section 3.3), but no empty or dot segments: a path starting with two
    /// slashes would name a host. A semicolon would end the cookie path, and a comma would separate header
    /// values.
    pub(crate) fn new(text: &str) -> Result<Self, PublicPathError> {
        let path = text.strip_suffix('/').unwrap_or(text);
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~%!$&'()*+=:@".contains(&byte);
        let segment = |segment: &str| !matches!(segment, "" | "." | "..") && segment.bytes().all(allowed);
        let is_path = match path.strip_prefix('/') {
            Some(path) => path.split('/').all(segment),
            None => text == "/",
        };
        if is_path && path.len() <= MAX_PATH_BYTES { Ok(Self(path.into())) } else { Err(PublicPathError) }
    }
}

impl Mount {
    /// Returns the path of the router that receives this request.
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

    /// Returns the path of the router without a trailing slash. Empty at the root.
    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    /// Returns the URL path of the first page.
    pub(crate) fn first(&self) -> String {
        format!("{}{}", self.path, if self.is_folder { "/" } else { "" })
    }

    /// Returns the remaining request path.
    pub(crate) fn rest(&self) -> &str {
        &self.rest
    }

    /// Returns a URL below this router, given the remaining path and the query.
    pub(crate) fn address(&self, rest: &str) -> String {
        let address = format!("{}{rest}", self.path);
        // Two leading slashes would name a host, and browsers treat a backslash like a slash.
        format!("/{}", address.trim_start_matches(['/', '\\']))
    }
}

/// Returns the header value if the header occurs only once and is a valid path.
fn prefix(parts: &Parts) -> Option<PublicPath> {
    let mut values = parts.headers.get_all(PREFIX).iter();
    let value = values.next()?.to_str().ok()?;
    PublicPath::new(value).ok().filter(|_| values.next().is_none())
}

/// Returns the request URL before routers strip the mount path.
pub(crate) fn original(parts: &Parts) -> &Uri {
    parts.extensions.get::<OriginalUri>().map_or(&parts.uri, |original| &original.0)
}

impl fmt::Display for PublicPathError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not a path such as /stats with at most {MAX_PATH_BYTES} bytes")
    }
}

impl std::error::Error for PublicPathError {}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    #[test]
    fn public_paths_consist_of_segments_without_a_host() {
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
    fn the_path_comes_from_axum_or_the_configuration() {
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
    fn the_first_page_ends_with_a_slash_if_a_proxy_would_add_it() {
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
    fn addresses_never_contain_a_host() {
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
