//! Host names and addresses, of referrers and of the own site.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use super::text::Text;

/// A host of the own site, for [`Label::internal_host`](crate::Label::internal_host).
///
/// This is a name, which includes its subdomains, or an IP address. You can also pass a URL: only the host is used,
/// without `www.`.
///
/// ```
/// use counter_layer::InternalHost;
///
/// let host: InternalHost = "example.org".parse()?;
/// for same in ["https://www.example.org:8443/about", "*.example.org", "Example.ORG."] {
///     assert_eq!(same.parse(), Ok(host.clone()));
/// }
/// assert_eq!("bücher.example".parse::<InternalHost>()?, "xn--bcher-kva.example".parse()?);
/// assert!("example.*".parse::<InternalHost>().is_err());
/// # Ok::<(), counter_layer::InternalHostError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InternalHost(Host);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Host {
    /// A name as returned by [`name`].
    Name(Box<str>),
    Address(IpAddr),
}

/// An error returned for a text that is not a host. Contains the text.
#[derive(Clone, PartialEq, Eq)]
pub struct InternalHostError(String);

impl InternalHost {
    /// Returns `true` for this name and for subdomains.
    pub(super) fn has_name(&self, name: &[u8]) -> bool {
        let Host::Name(host) = &self.0 else { return false };
        let below = name.strip_suffix(host.as_bytes());
        below.is_some_and(|below| below.is_empty() || below.ends_with(b"."))
    }

    pub(super) fn has_address(&self, address: IpAddr) -> bool {
        self.0 == Host::Address(address)
    }
}

/// Formats a name without `www.`, or an address.
impl fmt::Display for InternalHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Host::Name(name) => f.write_str(name),
            Host::Address(address) => address.fmt(f),
        }
    }
}

impl FromStr for InternalHost {
    type Err = InternalHostError;

    fn from_str(text: &str) -> Result<Self, InternalHostError> {
        let rest = text.trim();
        let rest = rest.split_once("://").map_or(rest, |(_, rest)| rest);
        let host = match rest.parse::<Ipv6Addr>() {
            Ok(bare) => Some(Host::Address(IpAddr::V6(bare).to_canonical())),
            Err(_) => without_port(rest).and_then(|host| match address(host) {
                Some(address) => Some(Host::Address(address)),
                None => own_name(host).map(Host::Name),
            }),
        };
        host.map(Self).ok_or_else(|| InternalHostError(text.to_owned()))
    }
}

/// Returns the name of an own host in the form of a referrer.
fn own_name(host: &str) -> Option<Box<str>> {
    let below = ["*.", "."].iter().find_map(|any| host.strip_prefix(any));
    let ascii = idna::domain_to_ascii(below.unwrap_or(host)).ok()?;
    let mut text = Text::new();
    // This is what a typo in `://` leaves.
    name(ascii.as_bytes(), &mut text).filter(|name| !["http", "https"].contains(name)).map(Into::into)
}

/// Returns the IP address in a URL without its scheme.
pub(super) fn address_in(rest: &[u8]) -> Option<IpAddr> {
    address(without_port(std::str::from_utf8(rest).ok()?)?)
}

/// Returns the host in a URL without its scheme. This is `None` if the port is invalid.
fn without_port(rest: &str) -> Option<&str> {
    let authority = &rest[..rest.find(['/', '?', '#', '\\']).unwrap_or(rest.len())];
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    match host.rsplit_once(':').filter(|(_, port)| !port.ends_with(']')) {
        Some((host, port)) => {
            (!port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit())).then_some(host)
        }
        None => Some(host),
    }
}

fn address(host: &str) -> Option<IpAddr> {
    let address = match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
        Some(host) => host.parse::<Ipv6Addr>().ok()?.into(),
        None => IpAddr::from(host.parse::<Ipv4Addr>().ok()?),
    };
    Some(address.to_canonical())
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

impl fmt::Display for InternalHostError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is not a host: use a name like example.org, or an IP address", self.0)
    }
}

impl std::error::Error for InternalHostError {}

counter_core::internal::debug_in_full!(InternalHostError);

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Option<Host> {
        text.parse::<InternalHost>().ok().map(|host| host.0)
    }

    #[test]
    fn own_hosts_are_names_or_addresses_in_any_notation() {
        for (text, host) in [
            ("h.example", "h.example"),
            (" https://www.H.example:8080/a?b#c ", "h.example"),
            ("http://ann@h.example", "h.example"),
            ("h.example.", "h.example"),
            ("h.example/blog", "h.example"),
            ("*.h.example", "h.example"),
            ("https://*.h.example/", "h.example"),
            (".h.example", "h.example"),
            ("Bücher.example", "xn--bcher-kva.example"),
            ("https://bu\u{308}cher.example:80", "xn--bcher-kva.example"),
            ("xn--bcher-kva.example", "xn--bcher-kva.example"),
            ("例え.テスト", "xn--r8jz45g.xn--zckzah"),
            ("localhost:3000", "localhost"),
            ("my_host", "my_host"),
        ] {
            assert_eq!(parse(text), Some(Host::Name(host.into())), "{text}");
        }
        for (text, address) in [
            ("127.0.0.1", "127.0.0.1"),
            ("http://127.0.0.1:3000/", "127.0.0.1"),
            ("::1", "::1"),
            ("[::1]", "::1"),
            ("https://[::1]:8443/a", "::1"),
            ("[::ffff:192.0.2.1]:80", "192.0.2.1"),
        ] {
            let address = address.parse().expect("an address");
            assert_eq!(parse(text), Some(Host::Address(address)), "{text}");
        }
    }

    #[test]
    fn text_that_is_not_a_host_is_refused() {
        for text in [
            "",
            " ",
            "/about",
            "//h.example",
            "*",
            "*.",
            "h.*",
            "a.*.example",
            "ex ample",
            "h.example www.h.example",
            "https:/h.example",
            "https//h.example",
            "https://",
            "h.example:port",
            "h.example:",
            "[::1",
            "1.2.3",
            "127.1",
            "a..example",
            "h<.example",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
        let error = "h.*".parse::<InternalHost>().expect_err("not a host");
        let message = "\"h.*\" is not a host: use a name like example.org, or an IP address";
        assert_eq!(error.to_string(), message);
    }
}
