//! Detects browser prefetches.

use http::{HeaderMap, HeaderName, HeaderValue};

/// Returns `true` for a header that can mark a prefetch. The first is defined in the Fetch standard, the others are older.
fn is_purpose(name: &HeaderName) -> bool {
    matches!(name.as_str(), "sec-purpose" | "purpose" | "x-purpose" | "x-moz")
}

/// Returns `true` for a prefetch: `prefetch`, with optional parameters like `prerender`, or the older
/// `preview`.
pub(crate) fn is_prefetch(headers: &HeaderMap) -> bool {
    let says = |value: &HeaderValue| {
        let purpose = value.as_bytes().split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
        purpose.eq_ignore_ascii_case(b"prefetch") || purpose.eq_ignore_ascii_case(b"preview")
    };
    // Comparing all names takes less time than four lookups, because requests have few headers.
    headers.iter().any(|(name, value)| is_purpose(name) && says(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefetches_are_recognized_by_purpose_headers() {
        for (header, value, prefetch) in [
            ("sec-purpose", "prefetch", true),
            ("sec-purpose", "prefetch;prerender", true),
            ("sec-purpose", "prefetch; anonymous-client-ip", true),
            ("purpose", "prefetch", true),
            ("purpose", "preview", true),
            ("x-purpose", "preview", true),
            ("x-moz", "Prefetch", true),
            ("sec-purpose", "", false),
            ("sec-purpose", "prefetching", false),
            ("sec-purpose", "other;prefetch", false),
            ("sec-fetch-dest", "prefetch", false),
        ] {
            let headers =
                HeaderMap::from_iter([(header.parse().expect("a name"), HeaderValue::from_static(value))]);
            assert_eq!(is_prefetch(&headers), prefetch, "{header}: {value}");
        }
        assert!(!is_prefetch(&HeaderMap::new()));
    }
}
