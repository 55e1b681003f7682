//! Ranges: [RFC 9110, section 14](https://www.rfc-editor.org/rfc/rfc9110#section-14).

use http::header::{CONTENT_RANGE, RANGE};
use http::{HeaderMap, HeaderName, HeaderValue};

/// Returns `true` if a response with a part of a page contains the start of the page. Several parts have no
/// `Content-Range`, and are not the start.
pub(crate) fn is_first_part(response: &HeaderMap) -> bool {
    first_byte(response, &CONTENT_RANGE, b' ') == Some(b"0")
}

/// Returns `true` if a request asks for a single part of a page, with the start of the page.
pub(crate) fn asks_for_first_part(request: &HeaderMap) -> bool {
    let is_single = |range: &HeaderValue| !range.as_bytes().contains(&b',');
    first_byte(request, &RANGE, b'=') == Some(b"0") && request.get(RANGE).is_some_and(is_single)
}

/// Returns the position of the first byte of a range in bytes; this is empty for the last bytes.
fn first_byte<'a>(headers: &'a HeaderMap, name: &HeaderName, separator: u8) -> Option<&'a [u8]> {
    let mut parts = headers.get(name)?.as_bytes().splitn(2, |byte| *byte == separator);
    let unit = parts.next()?.trim_ascii();
    let first = parts.next()?.split(|byte| *byte == b'-').next()?.trim_ascii();
    unit.eq_ignore_ascii_case(b"bytes").then_some(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_part_starts_at_byte_0() {
        let is_first = |name: HeaderName, value: &'static str, check: fn(&HeaderMap) -> bool| {
            check(&HeaderMap::from_iter([(name, HeaderValue::from_static(value))]))
        };
        for (range, content_range, expected) in [
            ("bytes=0-", "bytes 0-9/10", true),
            ("Bytes= 0-1", "Bytes 0-1/*", true),
            ("bytes=0-1,5-9", "", false),
            ("bytes=1-", "bytes 1-9/10", false),
            ("bytes=-5", "bytes 5-9/10", false),
            ("bytes=00-5", "bytes */10", false),
            ("items=0-5", "items 0-5/10", false),
            ("", "", false),
        ] {
            assert_eq!(is_first(RANGE, range, asks_for_first_part), expected, "{range}");
            assert_eq!(is_first(CONTENT_RANGE, content_range, is_first_part), expected, "{content_range}");
        }
        assert!(!asks_for_first_part(&HeaderMap::new()) && !is_first_part(&HeaderMap::new()));
    }
}
