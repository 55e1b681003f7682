//! The site a visitor came from: the host of the `Referer` header. The rest is ignored.

use memchr::memchr;

use super::text::Text;
use super::value::Value;

/// Returns the host of a referrer in lower case, with `www.`, the port and a trailing dot removed. IP
/// addresses and invalid domain names are not accepted.
pub(super) fn host<'a>(referrer: &[u8], text: &'a mut Text) -> Value<'a> {
    if referrer.is_empty() {
        return Value::None;
    }
    after_scheme(referrer).and_then(|rest| name(rest, text)).map_or(Value::Other, Value::Text)
}

/// Returns `true` if the host or a parent domain is in the list.
pub(super) fn is_internal(host: &[u8], internal: &[Box<str>]) -> bool {
    internal.iter().any(|internal| {
        let below = host.strip_suffix(internal.as_bytes());
        below.is_some_and(|below| below.is_empty() || below.ends_with(b"."))
    })
}

/// Returns the host of a referrer as sent by browsers. If this is equal to a known host, it is normalized already.
#[inline]
pub(super) fn plain_host<'a>(referrer: &'a [u8], internal: &[Box<str>]) -> Option<&'a [u8]> {
    let rest = referrer.strip_prefix(b"https://")?;
    let host = &rest[..memchr(b'/', rest).unwrap_or(rest.len())];
    let host = host.strip_prefix(b"www.").unwrap_or(host);
    (!is_internal(host, internal)).then_some(host)
}

fn after_scheme(referrer: &[u8]) -> Option<&[u8]> {
    if let Some(rest) = referrer.strip_prefix(b"https://") {
        return Some(rest);
    }
    let colon = referrer.iter().position(|byte| *byte == b':')?;
    let (scheme, rest) = referrer.split_at(colon);
    let is_allowed = |byte: &u8| byte.is_ascii_alphanumeric() || b"+-.".contains(byte);
    rest.strip_prefix(b"://").filter(|_| !scheme.is_empty() && scheme.iter().all(is_allowed))
}

/// Parses the domain name at the start of the text. User info, port, path and query are ignored.
pub(super) fn name<'a>(rest: &[u8], text: &'a mut Text) -> Option<&'a str> {
    // Number of bytes in this label of the name; if we are in the port; and if the name is valid so far.
    let (mut part, mut is_port, mut is_name) = (0, false, true);
    // A domain name can't end in a number, but IPv4 addresses always do, in any notation.
    let mut ends_in_number = true;
    for byte in rest {
        match byte {
            b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'A'..=b'Z' if !is_port => {
                if part == 0 {
                    ends_in_number = byte.is_ascii_digit();
                }
                part += 1;
                is_name &= part <= 63 && text.push(byte.to_ascii_lowercase()).is_some();
            }
            b'.' if !is_port => {
                is_name &= part > 0 && text.push(b'.').is_some();
                part = 0;
            }
            b'0'..=b'9' => {}
            b':' if !is_port => is_port = true,
            b'/' | b'?' | b'#' | b'\\' => break,
            b'@' => {
                // This was user info.
                text.clear();
                (part, is_port, is_name, ends_in_number) = (0, false, true, true);
            }
            _ => is_name = false,
        }
    }
    let name = text.as_str().filter(|_| is_name && !ends_in_number)?;
    let name = name.strip_suffix('.').unwrap_or(name);
    Some(name.strip_prefix("www.").unwrap_or(name))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(referrer: &[u8]) -> Option<Option<String>> {
        match host(referrer, &mut Text::new()) {
            Value::None => None,
            Value::Other => Some(None),
            Value::Text(host) => Some(Some(host.to_owned())),
        }
    }

    #[test]
    fn only_the_host_of_a_referrer_is_returned() {
        for (referrer, host) in [
            ("https://example.com/a/path?a=query#fragment", "example.com"),
            ("http://WWW.Example.COM:8080", "example.com"),
            ("https://ann:secret@news.example.com./", "news.example.com"),
            ("https://xn--bcher-kva.example/", "xn--bcher-kva.example"),
            ("android-app://com.google.android.gm/", "com.google.android.gm"),
            ("https://localhost?x", "localhost"),
            ("https://a@b@c.example", "c.example"),
        ] {
            assert_eq!(of(referrer.as_bytes()), Some(Some(host.to_owned())), "{referrer}");
        }
        assert_eq!(of(b""), None);
        let long = format!("https://{}.example", "a".repeat(64));
        let longer = format!("https://{}example", "a.".repeat(150));
        for referrer in [
            "https://192.0.2.1/",
            "https://[2001:db8::1]/",
            "https://0x7f000001/",
            "https://3221225985/",
            "https://example.com:port/",
            "https://b\u{fc}cher.example/",
            "https://a..example/",
            "https://exa mple/",
            "https://",
            "https://./",
            "//example.com/",
            "about:blank",
            "example.com",
            "https://example.com\\@other.example\u{7}",
            &long,
            &longer,
        ] {
            let found = of(referrer.as_bytes());
            assert!(found == Some(None) || referrer.contains('\\'), "{referrer}: {found:?}");
        }
    }

    #[test]
    fn subdomains_of_internal_hosts_are_internal() {
        let internal = ["example.org".into()];
        assert!(is_internal(b"example.org", &internal) && is_internal(b"blog.example.org", &internal));
        assert!(
            !is_internal(b"notexample.org", &internal)
                && !is_internal(b"example.org.evil.example", &internal)
        );
    }

    proptest! {
        #[test]
        fn a_plain_host_that_is_normalized_is_the_host(host in "[a-z0-9._:/@A-]{0,20}", known in "[a-z.]{1,6}") {
            for host in [host, format!("www.{known}/{known}"), format!("{known}?{known}")] {
                let referrer = format!("https://{host}");
                let plain = plain_host(referrer.as_bytes(), &[]).expect("a host");
                let is_normalized = |plain: &str| of(format!("https://{plain}").as_bytes()) == Some(Some(plain.to_owned()));
                let plain = std::str::from_utf8(plain).expect("text");
                if is_normalized(plain) {
                    prop_assert_eq!(of(referrer.as_bytes()), Some(Some(plain.to_owned())), "{}", referrer);
                }
            }
        }

        #[test]
        fn arbitrary_referrers_yield_a_short_host_or_no_value(referrer in prop::collection::vec(any::<u8>(), 0..300)) {
            for referrer in [&referrer[..], &[b"https://", &referrer[..]].concat()] {
                if let Some(Some(host)) = of(referrer) {
                    prop_assert!(host.len() <= 200 && !host.is_empty());
                    let is_allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-_.".contains(c);
                    prop_assert!(host.chars().all(is_allowed), "{}", host);
                    prop_assert!(host.parse::<std::net::IpAddr>().is_err());
                    // Parsing the host again returns the same host, except for a second `www.`.
                    let again = of(format!("https://{host}/").as_bytes()).flatten();
                    let is_www = host.starts_with("www.");
                    prop_assert!(is_www || again.as_deref() == Some(&*host), "{} {:?}", host, again);
                }
            }
        }
    }
}
