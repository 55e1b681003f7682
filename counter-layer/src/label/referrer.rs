//! The site a visitor came from: the host of the `Referer` header, otherwise the source in the query.

use memchr::memchr;

use super::groups::Groups;
use super::host::{InternalHost, address_in, name};
use super::query::{self, SOURCE};
use super::text::Text;
use super::value::Value;

/// Returns the site that a request comes from: the host of the referrer, or the source in the query if there is no
/// referrer. Internal hosts are left out.
pub(super) fn site<'a>(
    referrer: &[u8],
    query: Option<&str>,
    internal: &[InternalHost],
    text: &'a mut Text,
) -> Value<'a> {
    if referrer.is_empty() {
        return source(query, internal, text);
    }
    match host(referrer, text) {
        Value::Text(host) if is_internal(host.as_bytes(), internal) => Value::None,
        Value::Other if is_internal_address(referrer, internal) => Value::None,
        value => value,
    }
}

/// Returns the group of the site or app that a request comes from, or else the site itself. What the owner wrote into the
/// query is more specific than the referrer, e.g. for a newsletter that is read in a web mailer.
pub(super) fn group<'a>(
    referrer: &[u8],
    query: Option<&str>,
    internal: &[InternalHost],
    groups: &Groups,
    text: &'a mut Text,
) -> Value<'a> {
    let mut host_text = Text::new();
    let host = host(referrer, &mut host_text);
    match host {
        Value::Text(host) if is_internal(host.as_bytes(), internal) => return Value::None,
        Value::Other if is_internal_address(referrer, internal) => return Value::None,
        _ => {}
    }
    let mut source_text = Text::new();
    let (site, is_word) = match source(query, internal, &mut source_text) {
        Value::None => (host, false),
        source => (source, true),
    };
    let site = match site {
        Value::Text(site) => site,
        Value::None => return Value::None,
        Value::Other => return Value::Other,
    };
    match groups.recent(site.as_bytes()).or_else(|| if is_word { groups.of_word(site) } else { None }) {
        Some(group) => Value::Text(group.name()),
        None => text.extend(site.bytes()).map_or(Value::Other, Value::Text),
    }
}

/// Returns the source in a query: the host if this is a URL or a domain, otherwise the text.
fn source<'a>(query: Option<&str>, internal: &[InternalHost], text: &'a mut Text) -> Value<'a> {
    let [mut source, mut host] = [Text::new(), Text::new()];
    let source = match query::value(query, SOURCE, &mut source) {
        Value::Text(source) => source,
        Value::None => return Value::None,
        Value::Other => return Value::Other,
    };
    let site = match after_scheme(source.as_bytes()) {
        Some(rest) => name(rest, &mut host),
        None if source.contains('.') => name(source.as_bytes(), &mut host).or(Some(source)),
        None => Some(source),
    };
    match site {
        Some(site) if is_internal(site.as_bytes(), internal) => Value::None,
        Some(site) => text.extend(site.bytes()).map_or(Value::Other, Value::Text),
        None => Value::Other,
    }
}

/// Returns the host of a referrer in lower case, with `www.`, the port and a trailing dot removed. IP
/// addresses and invalid domain names are not accepted.
pub(super) fn host<'a>(referrer: &[u8], text: &'a mut Text) -> Value<'a> {
    if referrer.is_empty() {
        return Value::None;
    }
    after_scheme(referrer).and_then(|rest| name(rest, text)).map_or(Value::Other, Value::Text)
}

/// Returns `true` if the host or a parent domain is in the list.
pub(super) fn is_internal(host: &[u8], internal: &[InternalHost]) -> bool {
    internal.iter().any(|internal| internal.has_name(host))
}

fn is_internal_address(referrer: &[u8], internal: &[InternalHost]) -> bool {
    let address = after_scheme(referrer).and_then(address_in);
    address.is_some_and(|address| internal.iter().any(|internal| internal.has_address(address)))
}

/// Returns the host of a referrer as sent by browsers. If this is equal to a known host, it is normalized already.
#[inline]
pub(super) fn plain_host<'a>(referrer: &'a [u8], internal: &[InternalHost]) -> Option<&'a [u8]> {
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
    fn internal_hosts_are_not_sites() {
        let internal = ["example.org", "127.0.0.1", "[::1]"].map(|host| host.parse().expect("a host"));
        let of = |referrer: &str, query| match site(referrer.as_bytes(), query, &internal, &mut Text::new()) {
            Value::None => "(none)".to_owned(),
            Value::Other => "(other)".to_owned(),
            Value::Text(site) => site.to_owned(),
        };
        for (referrer, query, expected) in [
            ("https://example.org/", Some("ref=a"), "(none)"),
            ("https://blog.example.org:8080/", None, "(none)"),
            ("http://127.0.0.1:3000/a", None, "(none)"),
            ("http://[::1]/", None, "(none)"),
            ("https://notexample.org/", None, "notexample.org"),
            ("https://example.org.evil.example/", None, "example.org.evil.example"),
            ("http://127.0.0.2/", Some("ref=a"), "(other)"),
            ("https://a.example/", Some("ref=b"), "a.example"),
            // Without a referrer, the query names the source.
            ("", None, "(none)"),
            ("", Some("utm_campaign=a"), "(none)"),
            ("", Some("source=letter&utm_source=Feed+2"), "Feed 2"),
            ("", Some("ref=www.Example.com"), "example.com"),
            ("", Some("ref=https%3A%2F%2Fexample.com%2Fitem%3Fid%3D7"), "example.com"),
            ("", Some("ref=example.com/item"), "example.com"),
            ("", Some("ref=Dr.+No"), "Dr. No"),
            ("", Some("ref=blog.example.org"), "(none)"),
            ("", Some("ref=ann%40example.com"), "(other)"),
            ("", Some("ref=192.0.2.1"), "(other)"),
        ] {
            assert_eq!(of(referrer, query), expected, "{referrer} {query:?}");
        }
    }

    #[test]
    fn sources_have_the_names_that_people_use() {
        let internal = ["example.org".parse().expect("a host")];
        let groups = Groups::default();
        for (referrer, query, expected) in [
            ("https://www.google.co.uk/", None, "Google"),
            ("https://l.facebook.com/l.php?u=x", None, "Facebook"),
            ("android-app://com.google.android.gm/", None, "Gmail"),
            ("https://chatgpt.com/", Some("utm_source=chatgpt.com"), "ChatGPT"),
            ("https://blog.example/post", None, "blog.example"),
            // What the owner wrote counts.
            ("https://mail.google.com/", Some("utm_source=Newsletter&utm_medium=email"), "Newsletter"),
            ("", Some("ref=hackernews"), "Hacker News"),
            ("", Some("source=FB"), "Facebook"),
            ("", Some("utm_source=google&utm_medium=cpc"), "Google"),
            ("", Some("ref=https%3A%2F%2Fwww.google.de%2F"), "Google"),
            ("", Some("utm_source=ann%40example.com"), "(other)"),
            ("https://google.com/", Some("utm_source="), "Google"),
            // Links on the own site do not bring anyone.
            ("https://example.org/", Some("ref=footer"), "(none)"),
            ("https://google.com/", Some("ref=example.org"), "Google"),
            ("https://192.0.2.1/", None, "(other)"),
            ("", None, "(none)"),
        ] {
            let mut text = Text::new();
            let group = match group(referrer.as_bytes(), query, &internal, &groups, &mut text) {
                Value::None => "(none)",
                Value::Other => "(other)",
                Value::Text(group) => group,
            };
            assert_eq!(group, expected, "{referrer} {query:?}");
        }
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
