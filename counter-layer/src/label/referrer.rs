//! The site that a visitor came from: the host of the header `Referer`, and nothing else of it.

use super::text::Text;
use super::value::Value;

/// Returns the host of a referrer, in lower case and without `www.`, a port and a dot at its end. An address is no host, and
/// neither is anything that the system of names would not take.
pub(super) fn host<'a>(referrer: &[u8], text: &'a mut Text) -> Value<'a> {
    if referrer.is_empty() {
        return Value::None;
    }
    after_scheme(referrer)
        .map(authority)
        .and_then(|authority| name(authority, text))
        .map_or(Value::Other, Value::Text)
}

/// Returns whether a host is one of these, or below one.
pub(super) fn is_own(host: &str, own: &[Box<str>]) -> bool {
    own.iter()
        .any(|own| host.strip_suffix(&**own).is_some_and(|below| below.is_empty() || below.ends_with('.')))
}

fn after_scheme(referrer: &[u8]) -> Option<&[u8]> {
    let colon = referrer.iter().position(|byte| *byte == b':')?;
    let (scheme, rest) = referrer.split_at(colon);
    let is_scheme =
        !scheme.is_empty() && scheme.iter().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(byte));
    rest.strip_prefix(b"://").filter(|_| is_scheme)
}

/// Returns the host with its port: neither a path nor a query, and nobody's name or password.
fn authority(rest: &[u8]) -> &[u8] {
    let end = rest.iter().position(|byte| b"/?#\\".contains(byte)).unwrap_or(rest.len());
    rest[..end].rsplit(|byte| *byte == b'@').next().unwrap_or_default()
}

/// Returns the host of an authority as a name of the domain name system.
pub(super) fn name<'a>(authority: &[u8], text: &'a mut Text) -> Option<&'a str> {
    let host = match authority.iter().position(|byte| *byte == b':') {
        Some(colon) if authority[colon + 1..].iter().all(u8::is_ascii_digit) => &authority[..colon],
        Some(_) => return None,
        None => authority,
    };
    let host = host.strip_suffix(b".").unwrap_or(host);
    let host = match host.get(..4) {
        Some(www) if www.eq_ignore_ascii_case(b"www.") => &host[4..],
        _ => host,
    };
    let is_label = |label: &[u8]| {
        (1..=63).contains(&label.len())
            && label.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(byte))
    };
    let mut labels = host.split(|byte| *byte == b'.');
    // No name ends in a number, and every address of version 4 does, however it is written.
    let last = labels.clone().next_back()?;
    if !labels.all(is_label) || last[0].is_ascii_digit() {
        return None;
    }
    for byte in host {
        text.push(byte.to_ascii_lowercase())?;
    }
    text.as_str()
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
    fn only_the_host_of_a_referrer_is_left() {
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
            "https://www./",
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
    fn what_lies_below_an_own_host_is_own() {
        let own = ["example.org".into()];
        assert!(is_own("example.org", &own) && is_own("blog.example.org", &own));
        assert!(!is_own("notexample.org", &own) && !is_own("example.org.evil.example", &own));
    }

    proptest! {
        #[test]
        fn whatever_a_client_sends_is_a_short_name_or_none(referrer in prop::collection::vec(any::<u8>(), 0..300)) {
            for referrer in [&referrer[..], &[b"https://", &referrer[..]].concat()] {
                if let Some(Some(host)) = of(referrer) {
                    prop_assert!(host.len() <= 200 && !host.is_empty());
                    let is_allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-_.".contains(c);
                    prop_assert!(host.chars().all(is_allowed), "{}", host);
                    prop_assert!(host.parse::<std::net::IpAddr>().is_err());
                    // It is the host of itself.
                    prop_assert_eq!(of(format!("https://{host}/").as_bytes()).flatten().map(|again| again.len() <= host.len()), Some(true));
                }
            }
        }
    }
}
