//! The origin of a request, and cross-origin checks.

use http::header::{HOST, HeaderName, ORIGIN};
use http::request::Parts;
use http::uri::Authority;

const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Returns `true` if a page of another origin made the browser send this request.
///
/// Browsers send `Sec-Fetch-Site`. Old browsers, and browsers without TLS, send `Origin` instead. If both
/// headers are missing, the client is not a browser, so another site can't exploit a cookie, a password or
/// the client address. We compare origins instead of sites, so a different host in the same domain is
/// cross-origin.
pub(crate) fn is_cross_origin(parts: &Parts) -> bool {
    if let Some(site) = text(parts, FETCH_SITE) {
        return !matches!(site, "same-origin" | "none");
    }
    let Some(origin) = text(parts, ORIGIN) else { return false };
    origin.split_once("://").map(|(_, host)| host) != host(parts)
}

/// Returns the origin at which the client reached the router, or `None` if the request does not have a valid
/// host.
pub(crate) fn of(parts: &Parts, is_https: bool) -> Option<String> {
    let host = host(parts)?;
    let is_valid = host.parse().is_ok_and(|host: Authority| !host.as_str().contains('@'));
    is_valid.then(|| format!("{}://{host}", if is_https { "https" } else { "http" }))
}

/// Returns the host and the port from the address of the request or the `Host` header.
fn host(parts: &Parts) -> Option<&str> {
    parts.uri.authority().map(Authority::as_str).or_else(|| text(parts, HOST))
}

fn text(parts: &Parts, name: HeaderName) -> Option<&str> {
    Some(parts.headers.get(name)?.to_str().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    #[test]
    fn cross_origin_requests_are_detected_by_browser_headers() {
        for (headers, another) in [
            (&[("host", "a")] as &[_], false),
            (&[("host", "a"), ("sec-fetch-site", "same-origin"), ("origin", "https://b")], false),
            (&[("host", "a"), ("sec-fetch-site", "none")], false),
            (&[("host", "a"), ("sec-fetch-site", "same-site")], true),
            (&[("host", "a"), ("sec-fetch-site", "cross-site"), ("origin", "https://a")], true),
            (&[("host", "a"), ("sec-fetch-site", "")], true),
            (&[("host", "a:1"), ("origin", "http://a:1")], false),
            (&[("host", "a:1"), ("origin", "http://a:2")], true),
            (&[("host", "a"), ("origin", "http://b.a")], true),
            (&[("host", "a"), ("origin", "null")], true),
            (&[("origin", "http://a")], true),
        ] {
            let mut request = Request::post("/logout");
            for (name, value) in headers {
                request = request.header(*name, *value);
            }
            let (parts, ()) = request.body(()).expect("a request").into_parts();
            assert_eq!(is_cross_origin(&parts), another, "{headers:?}");
        }
        let request = Request::post("https://a/logout").header("origin", "https://a");
        assert!(!is_cross_origin(&request.body(()).expect("a request").into_parts().0), "as HTTP/2 has it");
    }

    #[test]
    fn the_origin_has_a_valid_host() {
        for (address, host, expected) in [
            ("/share", "a:1", Some("https://a:1")),
            ("https://b/share", "a", Some("https://b")),
            ("/share", "[::1]:3000", Some("https://[::1]:3000")),
            ("/share", "user@a", None),
            ("/share", "a/b", None),
            ("/share", "", None),
        ] {
            let request = Request::get(address).header("host", host).body(()).expect("a request");
            assert_eq!(of(&request.into_parts().0, true).as_deref(), expected, "{address} at {host}");
        }
    }
}
