//! Headers used by proxies to record the peer address.
//!
//! A proxy appends an entry on the right, but anything to the left might be sent by the client. So we parse
//! entries from the right, and text further left must not affect how an entry is parsed, even if it contains
//! an unclosed quotation mark.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use http::{HeaderMap, HeaderName, header};

/// A header used by proxies to record the peer address, with the nearest proxy on the right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forwarded {
    name: HeaderName,
    syntax: Syntax,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Syntax {
    /// `192.0.2.1, 2001:db8::1`.
    Addresses,
    /// `for=192.0.2.1;proto=https, for="[2001:db8::1]:4711"`.
    Parameters,
}

impl Forwarded {
    /// The header `X-Forwarded-For: 192.0.2.1, 198.51.100.7`.
    pub const X_FORWARDED_FOR: Self =
        Self { name: HeaderName::from_static("x-forwarded-for"), syntax: Syntax::Addresses };

    /// The header `Forwarded: for=192.0.2.1;proto=https, for="[2001:db8::1]:4711"` (RFC 7239). If an entry is
    /// `unknown` or obfuscated (`_secret`), the request does not have a visitor.
    pub const RFC7239: Self = Self { name: header::FORWARDED, syntax: Syntax::Parameters };

    /// Creates a header with an address, or a list of addresses like `X-Forwarded-For`, e.g. `X-Real-IP` or
    /// `CF-Connecting-IP`.
    #[must_use]
    pub const fn header(name: HeaderName) -> Self {
        Self { name, syntax: Syntax::Addresses }
    }

    /// Appends an address on the right, like a proxy does.
    pub(crate) fn append(&self, headers: &mut HeaderMap, address: IpAddr) {
        let entry = match (self.syntax, address) {
            (Syntax::Addresses, address) => address.to_string(),
            (Syntax::Parameters, IpAddr::V4(address)) => format!("for={address}"),
            (Syntax::Parameters, IpAddr::V6(address)) => format!("for=\"[{address}]\""),
        };
        headers.append(self.name.clone(), entry.parse().expect("an address can stand in a header"));
    }

    /// Removes all entries.
    pub(crate) fn remove(&self, headers: &mut HeaderMap) {
        headers.remove(&self.name);
    }

    /// Returns the addresses from right to left, starting with the nearest proxy; `None` if an entry is not
    /// an address.
    pub(super) fn addresses(&self, headers: &HeaderMap) -> impl Iterator<Item = Option<IpAddr>> {
        let values = headers.get_all(&self.name).iter().rev().map(http::HeaderValue::as_bytes);
        let syntax = self.syntax;
        values.flat_map(move |value| Entries { rest: Some(value), syntax }).map(move |entry| match syntax {
            Syntax::Addresses => address(entry.trim_ascii()),
            Syntax::Parameters => node_of_parameters(entry),
        })
    }
}

/// The entries of a header value, from right to left.
struct Entries<'a> {
    rest: Option<&'a [u8]>,
    syntax: Syntax,
}

impl<'a> Iterator for Entries<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let rest = self.rest?;
        let comma = match self.syntax {
            Syntax::Addresses => rest.iter().rposition(|byte| *byte == b','),
            Syntax::Parameters => last_comma(rest),
        };
        self.rest = comma.map(|comma| &rest[..comma]);
        Some(&rest[comma.map_or(0, |comma| comma + 1)..])
    }
}

/// Returns the position of the last unquoted comma, searching from the right: if a proxy wrote the entry, a
/// quotation mark preceded by an even number of backslashes starts or ends a quoted string.
fn last_comma(value: &[u8]) -> Option<usize> {
    let mut quoted = false;
    for (at, byte) in value.iter().enumerate().rev() {
        match byte {
            b'"' => {
                let backslashes = value[..at].iter().rev().take_while(|byte| **byte == b'\\').count();
                quoted ^= backslashes % 2 == 0;
            }
            b',' if !quoted => return Some(at),
            _ => {}
        }
    }
    None
}

/// Returns the address in the `for` pair of an entry, which must be unique. Pairs are separated by semicolons
/// and may be empty (RFC 7239, section 4): `for=192.0.2.1;`.
fn node_of_parameters(entry: &[u8]) -> Option<IpAddr> {
    let mut found = None;
    let mut rest = entry.trim_ascii();
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix(b";") {
            rest = after.trim_ascii_start();
            continue;
        }
        let equals = rest.iter().position(|byte| *byte == b'=')?;
        let name = rest[..equals].trim_ascii();
        let (value, after) = value(&rest[equals + 1..])?;
        if name.eq_ignore_ascii_case(b"for") && found.replace(value).is_some() {
            return None;
        }
        rest = after.trim_ascii_start();
        if !rest.is_empty() && !rest.starts_with(b";") {
            return None;
        }
    }
    address(found?.unquoted(&mut [0; 64])?)
}

enum Value<'a> {
    Token(&'a [u8]),
    /// The text inside the quotation marks.
    Quoted(&'a [u8]),
}

/// Parses the token or quoted string at the start of the text. Returns the value and the rest of the text.
fn value(text: &[u8]) -> Option<(Value<'_>, &[u8])> {
    let Some(quoted) = text.strip_prefix(b"\"") else {
        let end = text.iter().position(|byte| *byte == b';').unwrap_or(text.len());
        return Some((Value::Token(text[..end].trim_ascii_end()), &text[end..]));
    };
    let mut escaped = false;
    let end = quoted.iter().position(|byte| {
        let ends = *byte == b'"' && !escaped;
        escaped = *byte == b'\\' && !escaped;
        ends
    })?;
    Some((Value::Quoted(&quoted[..end]), &quoted[end + 1..]))
}

impl<'a> Value<'a> {
    /// Returns the value with backslashes removed, or `None` if it does not fit in the buffer, and thus can't
    /// be an address.
    fn unquoted<'b>(&self, buffer: &'b mut [u8; 64]) -> Option<&'b [u8]>
    where
        'a: 'b,
    {
        let text = match *self {
            Value::Token(text) => return Some(text),
            Value::Quoted(text) => text,
        };
        let mut length = 0;
        let mut escaped = false;
        for byte in text {
            escaped = *byte == b'\\' && !escaped;
            if !escaped {
                *buffer.get_mut(length)? = *byte;
                length += 1;
            }
        }
        Some(&buffer[..length])
    }
}

/// Parses an address as servers write it: with an optional zone and port, which are ignored, and with or without
/// brackets. Without brackets, a port after an IPv6 address must be clearly not a part of it.
#[inline]
pub(crate) fn address(text: &[u8]) -> Option<IpAddr> {
    let text = std::str::from_utf8(text).ok()?;
    text.parse().ok().or_else(|| decorated_address(text))
}

#[cold]
fn decorated_address(text: &str) -> Option<IpAddr> {
    let ipv6 = |text: &str| {
        let (address, zone) = text.split_once('%').unwrap_or((text, "0"));
        address.parse::<Ipv6Addr>().ok().filter(|_| !zone.is_empty()).map(IpAddr::V6)
    };
    if let Some(rest) = text.strip_prefix('[') {
        let (address, port) = rest.split_once(']').unwrap_or((rest, ""));
        return ipv6(address).filter(|_| port.is_empty() || port.starts_with(':'));
    }
    let ipv4 = || text.split_once(':')?.0.parse::<Ipv4Addr>().ok().map(IpAddr::V4);
    let ipv6_with_port = || {
        let (address, port) = text.rsplit_once(':')?;
        port.parse::<u16>().ok().and(ipv6(address))
    };
    ipv4().or_else(|| ipv6(text)).or_else(ipv6_with_port)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn first(header: &Forwarded, values: &[&[u8]]) -> Option<Option<IpAddr>> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(header.name.clone(), http::HeaderValue::from_bytes(value).expect("a value"));
        }
        header.addresses(&headers).next()
    }

    #[track_caller]
    fn check(value: &str, expected: Option<&str>) {
        let expected = expected.map(|text| text.parse().expect("an address"));
        assert_eq!(first(&Forwarded::RFC7239, &[value.as_bytes()]), Some(expected), "{value}");
    }

    #[test]
    fn the_last_forwarded_entry_is_parsed_as_rfc_7239_requires() {
        check("for=192.0.2.43", Some("192.0.2.43"));
        check("for=192.0.2.43, for=198.51.100.17", Some("198.51.100.17"));
        check("For=\"[2001:db8:cafe::17]:4711\"", Some("2001:db8:cafe::17"));
        check("for=192.0.2.60;proto=http;by=203.0.113.43", Some("192.0.2.60"));
        check("proto=http ; FOR=192.0.2.60", Some("192.0.2.60"));
        check("for=192.0.2.60;", Some("192.0.2.60"));
        check(";; for=\"192.0.2.60\" ; ;proto=http; ", Some("192.0.2.60"));
        check(";", None);
        check("for=\"192.0.2.43:47011\"", Some("192.0.2.43"));
        check("for=\"192.0.2.43:_port\"", Some("192.0.2.43"));
        check("for=\"[2001:db8::1]:_port\"", Some("2001:db8::1"));
        check(r#"for="192\.0.2.1""#, Some("192.0.2.1"));
        check("for=_hidden, for=_SEVKISEK", None);
        check("for=unknown", None);
        check("for=192.0.2.1, for=\"unknown\"", None);
        check("proto=https", None);
        check("for=192.0.2.1;for=192.0.2.2", None);
        check("for=\"[2001:db8::1]x\"", None);
        check("for=\"192.0.2.1\"x", None);
        check("for=192.0.2.1,", None);
        check("", None);
    }

    #[test]
    fn addresses_are_read_in_the_forms_that_servers_write() {
        for (text, expected) in [
            ("192.0.2.1", Some("192.0.2.1")),
            ("192.0.2.1:4711", Some("192.0.2.1")),
            ("2001:db8::1", Some("2001:db8::1")),
            ("[2001:db8::1]", Some("2001:db8::1")),
            ("[2001:db8::1]:4711", Some("2001:db8::1")),
            ("[2001:db8::1", Some("2001:db8::1")),
            ("fe80::1%eth0", Some("fe80::1")),
            ("[fe80::1%25eth0]:4711", Some("fe80::1")),
            ("fe80::1%eth0:4711", Some("fe80::1")),
            // Load balancers of AWS write all groups of an IPv6 address, and no brackets.
            ("2001:0db8:85a3:0000:0000:8a2e:0370:7334:4711", Some("2001:db8:85a3::8a2e:370:7334")),
            ("2001:db8::1:54321", Some("2001:db8::1")),
            ("::ffff:192.0.2.1:4711", Some("::ffff:192.0.2.1")),
            // The last group may be a port, but it may also be a part of the address.
            ("2001:db8::1:4711", Some("2001:db8::1:4711")),
            ("client.example.org", None),
            ("192.0.2.256", None),
            ("[2001:db8::1]x", None),
            ("2001:db8::1%", None),
            ("2001:db8::1:99999", None),
            ("unknown", None),
            ("unix:", None),
            ("", None),
        ] {
            let expected = expected.map(|text| text.parse().expect("an address"));
            assert_eq!(address(text.as_bytes()), expected, "{text}");
        }
    }

    #[test]
    fn a_quoted_comma_does_not_separate_entries() {
        check(r#"for=192.0.2.1;host="a, for=203.0.113.6""#, Some("192.0.2.1"));
        check(r#"for=192.0.2.1;host="a\", for=203.0.113.6""#, Some("192.0.2.1"));
        check(r#"for=192.0.2.1;host="a\\", for=203.0.113.6"#, Some("203.0.113.6"));
    }

    #[test]
    fn an_unclosed_quote_from_the_client_hides_no_entry() {
        check(r#"for="evil, for=192.0.2.1;proto=https"#, Some("192.0.2.1"));
        check(r#"for="evil\, for="[2001:db8::1]""#, Some("2001:db8::1"));
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_do_not_panic(value in prop::collection::vec(any::<u8>(), 0..80)) {
            if http::HeaderValue::from_bytes(&value).is_ok() {
                first(&Forwarded::RFC7239, &[&value]);
                first(&Forwarded::X_FORWARDED_FOR, &[&value]);
            }
        }

        #[test]
        fn text_of_syntax_characters_does_not_panic(value in r#"[for="\\;,:. \[\]0-9a-f]{0,60}"#) {
            first(&Forwarded::RFC7239, &[value.as_bytes()]);
            first(&Forwarded::X_FORWARDED_FOR, &[value.as_bytes()]);
        }

        #[test]
        fn text_on_the_left_does_not_change_the_proxy_entry(
            left in r#"([for="\\;,:. 0-9a-f]|\PC){0,40}"#,
            same_line in any::<bool>(),
        ) {
            let written = r#"for="[2001:db8::1]:4711";host="a,b\"c";proto=https"#;
            for (header, written) in
                [(Forwarded::RFC7239, written), (Forwarded::X_FORWARDED_FOR, "2001:db8::1")]
            {
                let joined = format!("{left}, {written}");
                let values =
                    if same_line { vec![joined.as_bytes()] } else { vec![left.as_bytes(), written.as_bytes()] };
                prop_assert_eq!(first(&header, &values), Some("2001:db8::1".parse().ok()));
            }
        }
    }
}
