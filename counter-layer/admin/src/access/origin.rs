//! Cross-origin checks.

use http::header::{HOST, HeaderName, ORIGIN};
use http::request::Parts;

const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Returns `true` if a page of another origin made the browser send this request.
///
/// Browsers send `Sec-Fetch-Site`. Old browsers, and browsers without TLS, send `Origin` instead. If both
/// headers are missing, the client is not a browser, so another site can't exploit a cookie, a password or
/// the client address. We compare origins instead of sites, so a different host in the same domain is
/// cross-origin.
pub(crate) fn is_cross_origin(parts: &Parts) -> bool {
    let text = |name| Some(parts.headers.get(name)?.to_str().unwrap_or_default());
    if let Some(site) = text(FETCH_SITE) {
        return !matches!(site, "same-origin" | "none");
    }
    let Some(origin) = text(ORIGIN) else { return false };
    let host = parts.uri.authority().map(http::uri::Authority::as_str).or_else(|| text(HOST));
    origin.split_once("://").map(|(_, host)| host) != host
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
}
