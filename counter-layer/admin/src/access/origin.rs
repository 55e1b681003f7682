//! The origin of a request: a page of this site, or one of another that a browser has open.

use http::header::{HOST, HeaderName, ORIGIN};
use http::request::Parts;

const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Returns `true` if a page of another origin made a browser send the request.
///
/// Browsers say it (Fetch Metadata), and those that do not, or not without TLS, name the origin. What says
/// neither is no browser: it has no cookie, password or address that another site could make use of. An origin
/// is more than a site: another host of the same domain is one, too.
pub(crate) fn is_another(parts: &Parts) -> bool {
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
    fn another_origin_is_told_by_what_browsers_say() {
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
            assert_eq!(is_another(&parts), another, "{headers:?}");
        }
        let request = Request::post("https://a/logout").header("origin", "https://a");
        assert!(!is_another(&request.body(()).expect("a request").into_parts().0), "as HTTP/2 has it");
    }
}
