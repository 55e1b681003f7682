use std::net::{IpAddr, SocketAddr};

use counter_core::{VisitorId, VisitorKey};
use http::{HeaderMap, header};

/// Who visits, as far as that can be told from the address and the user agent; neither is kept.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Identity {
    pub(crate) key: VisitorKey,
    pub(crate) trusted_hops: usize,
}

impl Identity {
    /// The visitor, or nobody when the address is not known: a user agent alone says little.
    pub(crate) fn visitor(&self, peer: Option<IpAddr>, headers: &HeaderMap) -> Option<VisitorId> {
        let agent = headers.get(header::USER_AGENT).map_or(&b""[..], |agent| agent.as_bytes());
        let visitor = match client(peer?, headers, self.trusted_hops)?.to_canonical() {
            IpAddr::V4(address) => self.key.visitor(&[&address.octets(), agent]),
            // A household has a /64; a device changes the rest at will (RFC 8981).
            IpAddr::V6(address) => self.key.visitor(&[&address.octets()[..8], agent]),
        };
        Some(visitor)
    }
}

/// The address of the client behind `hops` proxies of ours.
///
/// Each proxy appends whom it heard from, so what counts is the entry that the outermost one wrote,
/// from the right: the client can write what it likes to the left of it. With fewer entries the request
/// came past the proxies, from the peer itself.
fn client(peer: IpAddr, headers: &HeaderMap, hops: usize) -> Option<IpAddr> {
    if hops == 0 {
        return Some(peer);
    }
    let values = headers.get_all("x-forwarded-for").iter().rev();
    let entry = values.flat_map(|value| value.as_bytes().rsplit(|byte| *byte == b',')).nth(hops - 1);
    match entry {
        None => Some(peer),
        Some(entry) => address(std::str::from_utf8(entry).ok()?.trim()),
    }
}

fn address(text: &str) -> Option<IpAddr> {
    let with_port = || text.parse().map(|address: SocketAddr| address.ip());
    text.trim_matches(['[', ']']).parse().or_else(|_| with_port()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(forwarded: &[&str], agent: &'static str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for value in forwarded {
            headers.append("x-forwarded-for", value.parse().expect("a value"));
        }
        headers.insert(header::USER_AGENT, agent.parse().expect("a value"));
        headers
    }

    #[track_caller]
    fn check(forwarded: &[&str], hops: usize, expected: Option<&str>) {
        let peer = "10.0.0.1".parse().expect("an address");
        let expected = expected.map(|text| text.parse().expect("an address"));
        assert_eq!(client(peer, &headers(forwarded, ""), hops), expected, "{forwarded:?}, {hops} hops");
    }

    #[test]
    fn the_client_is_found_from_the_right_and_only_behind_trusted_hops() {
        check(&["192.0.2.1"], 0, Some("10.0.0.1"));
        check(&[], 1, Some("10.0.0.1"));
        check(&["192.0.2.1"], 1, Some("192.0.2.1"));
        check(&["198.51.100.9, 192.0.2.1"], 1, Some("192.0.2.1"));
        check(&["198.51.100.9", "192.0.2.1"], 1, Some("192.0.2.1"));
        check(&["198.51.100.9, 192.0.2.1", "203.0.113.5"], 2, Some("192.0.2.1"));
        check(&["192.0.2.1"], 2, Some("10.0.0.1"));
        check(&["192.0.2.1:4711"], 1, Some("192.0.2.1"));
        check(&["[2001:db8::1]:4711"], 1, Some("2001:db8::1"));
        check(&["[2001:db8::1]"], 1, Some("2001:db8::1"));
        check(&["unknown"], 1, None);
        check(&["192.0.2.1,"], 1, None);
    }

    #[test]
    fn a_visitor_is_an_address_or_a_network_of_64_bits_with_a_user_agent() {
        let identity = Identity { key: VisitorKey::new([1; 16]), trusted_hops: 0 };
        let visitor = |address: &str, agent| {
            identity.visitor(Some(address.parse().expect("an address")), &headers(&[], agent))
        };
        assert_eq!(visitor("2001:db8::1", "a"), visitor("2001:db8::2", "a"));
        assert_eq!(visitor("::ffff:192.0.2.1", "a"), visitor("192.0.2.1", "a"));
        assert_ne!(visitor("2001:db8::1", "a"), visitor("2001:db8:0:1::1", "a"));
        assert_ne!(visitor("192.0.2.1", "a"), visitor("192.0.2.2", "a"));
        assert_ne!(visitor("192.0.2.1", "a"), visitor("192.0.2.1", "b"));
        assert_eq!(identity.visitor(None, &headers(&[], "a")), None);
    }
}
