use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use counter_core::visitor::Salt;
use http::HeaderMap;
use ipnet::IpNet;

use super::forwarded::Forwarded;
use super::head::RequestHead;
use super::{ExpiringRegister, ExpiringVisitor};
use crate::classify::Digest;
use crate::closure::Closure;
use crate::request;

/// An identity by client address and user agent, valid for an epoch.
///
/// By default the first 64 bits of IPv6 addresses are used (see [`ipv6_prefix`](Self::ipv6_prefix)), because
/// a household has a /64, and devices change the remaining bits at will (RFC 8981). For a
/// [limit](crate::LimitKey::identity), the default is the first 56 bits, because households often get a /56,
/// and the user agent is ignored.
#[derive(Clone, Debug)]
#[must_use]
pub struct Address {
    client: Client,
    /// Mask of the IPv6 address bits to use.
    ipv6_mask: u128,
    /// True if the application has set the prefix length.
    pub(super) has_custom_prefix: bool,
    user_agent: bool,
    /// A closure that returns the peer address. Without it, the address is read from the request extensions.
    peer: Option<Arc<PeerClosure>>,
}

type PeerClosure = Closure<dyn Fn(&RequestHead<'_>) -> Option<IpAddr> + Send + Sync>;

/// A header with the client address. You still need to choose the trusted proxies.
#[derive(Clone, Debug)]
#[must_use]
pub struct ForwardedAddress(Forwarded);

// There are crates to get the client address (client-ip, axum-client-ip), but these only use the last entry:
// they support neither hops nor networks, and parse `Forwarded` from the left.
#[derive(Clone, Debug)]
enum Client {
    Peer,
    /// The header, and the number of entries at the end that are written by trusted proxies.
    Hops(Forwarded, usize),
    /// The header, and the trusted networks. The client is the rightmost address outside of these networks.
    Networks(Forwarded, Box<[IpNet]>),
}

impl Address {
    pub(super) const fn peer() -> Self {
        Self::of(Client::Peer)
    }

    const fn of(client: Client) -> Self {
        Self { client, ipv6_mask: mask(64), has_custom_prefix: false, user_agent: true, peer: None }
    }

    /// Sets the number of leading bits to use for IPv6 addresses, at most 128.
    pub const fn ipv6_prefix(mut self, bits: u8) -> Self {
        self.ipv6_mask = mask(bits);
        self.has_custom_prefix = true;
        self
    }

    /// Ignores the user agent, so that all clients with the same address are one visitor.
    pub const fn without_user_agent(mut self) -> Self {
        self.user_agent = false;
        self
    }

    /// Sets a closure to get the peer address, instead of axum's `ConnectInfo` or a
    /// [`SocketAddr`](std::net::SocketAddr) extension. Use this for a server or another version of axum that
    /// stores the address in a different type.
    ///
    /// This does not change the trusted proxies. If the closure returns `None` or panics, the request does
    /// not have a peer address.
    ///
    /// ```
    /// # use counter_layer::{Forwarded, Identity};
    /// /// The extension inserted by another server.
    /// #[derive(Clone)]
    /// struct Client(std::net::SocketAddr);
    ///
    /// let identity = Identity::forwarded(Forwarded::X_FORWARDED_FOR)
    ///     .trusted_networks(["10.0.0.0/8".parse()?])
    ///     .peer_from_fn(|head| head.extensions.get::<Client>().map(|client| client.0.ip()));
    /// # Ok::<(), counter_layer::ipnet::AddrParseError>(())
    /// ```
    pub fn peer_from_fn(
        mut self,
        peer: impl Fn(&RequestHead<'_>) -> Option<IpAddr> + Send + Sync + 'static,
    ) -> Self {
        self.peer = Some(Arc::new(Closure::new("peer_from_fn", peer)));
        self
    }

    /// Returns `true` if the address is read from a proxy header.
    pub(crate) const fn trusts_proxies(&self) -> bool {
        !matches!(self.client, Client::Peer)
    }

    /// Returns the visitor with this address.
    pub(super) fn visitor(&self, address: u128, user_agent: Digest, salt: &Salt) -> ExpiringVisitor {
        salt.visitor_until(&[&self.identity_bytes(address, user_agent)])
    }

    /// Returns the register of the visitor with this address.
    #[inline(always)]
    pub(super) fn register_until(&self, address: u128, user_agent: Digest, salt: &Salt) -> ExpiringRegister {
        salt.register_until(&self.identity_bytes(address, user_agent))
    }

    /// Returns the bytes to be hashed for the visitor with this address.
    #[inline(always)]
    fn identity_bytes(&self, address: u128, user_agent: Digest) -> [u8; 24] {
        // We always use the same layout, because keys are prepared for this length.
        let mut visitor = [0; 24];
        visitor[..16].copy_from_slice(&address.to_le_bytes());
        if self.user_agent {
            visitor[16..].copy_from_slice(&user_agent.to_le_bytes());
        }
        visitor
    }

    /// Returns the client address, if it is known.
    pub(crate) fn ip(&self, head: &RequestHead<'_>) -> Option<IpAddr> {
        self.client.address(self.peer_address(head), head.headers)
    }

    /// Returns the peer address, if it is known.
    fn peer_address(&self, head: &RequestHead<'_>) -> Option<IpAddr> {
        match &self.peer {
            None => request::peer(head.extensions).map(SocketAddr::ip),
            Some(closure) => closure.call(|peer| peer(head)).flatten(),
        }
    }

    /// Returns the significant bits of the client address, if it is known.
    #[inline(always)]
    pub(crate) fn client(&self, head: &RequestHead<'_>) -> Option<u128> {
        match (&self.client, &self.peer) {
            (Client::Peer, None) => Some(self.bits(request::peer(head.extensions)?.ip())),
            _ => self.resolve_client(head),
        }
    }

    // Not inlined, since this is not the default.
    #[inline(never)]
    fn resolve_client(&self, head: &RequestHead<'_>) -> Option<u128> {
        Some(self.bits(self.ip(head)?))
    }

    /// Returns `true` if the request was forwarded by a trusted proxy.
    pub(crate) fn is_forwarded(&self, head: &RequestHead<'_>) -> bool {
        match &self.client {
            Client::Peer => false,
            Client::Hops(header, hops) => header.addresses(head.headers).nth(hops - 1).is_some(),
            Client::Networks(_, networks) => {
                let peer = self.peer_address(head).map(|peer| peer.to_canonical());
                peer.is_some_and(|peer| networks.iter().any(|network| network.contains(&peer)))
            }
        }
    }

    /// Returns the significant bits of an address. An IPv4 address equals the IPv6-mapped address.
    #[inline(always)]
    fn bits(&self, address: IpAddr) -> u128 {
        match address.to_canonical() {
            IpAddr::V4(address) => address.to_ipv6_mapped().to_bits(),
            IpAddr::V6(address) => address.to_bits() & self.ipv6_mask,
        }
    }
}

const fn mask(bits: u8) -> u128 {
    match bits {
        0 => 0,
        1..128 => u128::MAX << (128 - bits),
        128.. => u128::MAX,
    }
}

impl ForwardedAddress {
    pub(super) const fn new(header: Forwarded) -> Self {
        Self(header)
    }

    /// Trusts the last `hops` entries of the header, which must be written by your proxies. Use 0 for the
    /// peer address.
    ///
    /// A proxy appends the address of the connecting peer, so the client is the entry of the outermost proxy,
    /// counted from the right. Entries further left might be sent by the client and are ignored. If there are
    /// fewer entries than hops, the request bypassed the proxies, and the peer is the client.
    pub fn trusted_hops(self, hops: usize) -> Address {
        Address::of(if hops == 0 { Client::Peer } else { Client::Hops(self.0, hops) })
    }

    /// Trusts entries written by hosts in these networks: starting with the peer, the client is the first
    /// address from the right outside of these networks.
    ///
    /// If all addresses are inside, the client is the leftmost address, or the peer if the header is missing.
    pub fn trusted_networks(self, networks: impl IntoIterator<Item = IpNet>) -> Address {
        Address::of(Client::Networks(self.0, networks.into_iter().collect()))
    }
}

impl Client {
    #[inline(never)]
    fn address(&self, peer: Option<IpAddr>, headers: &HeaderMap) -> Option<IpAddr> {
        match self {
            Self::Peer => peer,
            Self::Hops(header, hops) => match header.addresses(headers).nth(hops - 1) {
                None => peer,
                Some(entry) => entry,
            },
            Self::Networks(header, networks) => {
                let trusted = |address: IpAddr| networks.iter().any(|network| network.contains(&address));
                let mut client = peer?;
                let mut entries = header.addresses(headers);
                while trusted(client.to_canonical()) {
                    match entries.next() {
                        None => break,
                        Some(entry) => client = entry?,
                    }
                }
                Some(client)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn headers(forwarded: &[&str]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for value in forwarded {
            headers.append("x-forwarded-for", value.parse().expect("a value"));
        }
        headers
    }

    fn ip(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    fn xff() -> ForwardedAddress {
        ForwardedAddress::new(Forwarded::X_FORWARDED_FOR)
    }

    fn behind(networks: &[&str]) -> Client {
        xff().trusted_networks(networks.iter().map(|network| network.parse().expect("a network"))).client
    }

    #[track_caller]
    fn check(forwarded: &[&str], hops: usize, expected: Option<&str>) {
        let client = xff().trusted_hops(hops).client;
        let found = client.address(Some(ip("10.0.0.1")), &headers(forwarded));
        assert_eq!(found, expected.map(ip), "{forwarded:?}, {hops} hops");
    }

    #[track_caller]
    fn check_networks(peer: &str, forwarded: &[&str], expected: Option<&str>) {
        let client = behind(&["10.0.0.0/8", "fd00::/8"]);
        let found = client.address(Some(ip(peer)), &headers(forwarded));
        assert_eq!(found, expected.map(ip), "{peer} {forwarded:?}");
    }

    #[test]
    fn the_client_is_the_entry_of_the_outermost_trusted_hop() {
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
        check(&["\"192.0.2.1"], 1, None);
    }

    #[test]
    fn the_client_is_the_rightmost_address_outside_trusted_networks() {
        check_networks("192.0.2.7", &["198.51.100.9"], Some("192.0.2.7"));
        check_networks("10.0.0.1", &[], Some("10.0.0.1"));
        check_networks("10.0.0.1", &["192.0.2.1"], Some("192.0.2.1"));
        check_networks("::ffff:10.0.0.1", &["192.0.2.1"], Some("192.0.2.1"));
        check_networks("fd00::1", &["192.0.2.1"], Some("192.0.2.1"));
        check_networks("10.0.0.1", &["198.51.100.9, 192.0.2.1, 10.9.9.9"], Some("192.0.2.1"));
        check_networks("10.0.0.1", &["198.51.100.9", "192.0.2.1", "10.9.9.9, fd12::1"], Some("192.0.2.1"));
        check_networks("10.0.0.1", &["10.9.9.9, 10.8.8.8"], Some("10.9.9.9"));
        check_networks("10.0.0.1", &["192.0.2.1, unknown, 10.8.8.8"], None);
    }

    #[test]
    fn without_a_peer_only_hops_are_trusted() {
        let some = headers(&["192.0.2.1"]);
        assert_eq!(xff().trusted_hops(1).client.address(None, &some), Some(ip("192.0.2.1")));
        assert_eq!(xff().trusted_hops(2).client.address(None, &some), None);
        assert_eq!(behind(&["10.0.0.0/8"]).address(None, &some), None);
        assert_eq!(Client::Peer.address(None, &some), None);
    }

    #[test]
    fn a_peer_by_closure_can_be_a_trusted_proxy() {
        #[derive(Clone)]
        struct Peer(IpAddr);
        let address = xff()
            .trusted_networks(["10.0.0.0/8".parse().expect("a network")])
            .peer_from_fn(|head| head.extensions.get::<Peer>().map(|peer| peer.0));
        for (peer, is_forwarded, client) in [
            ("10.0.0.1", true, "192.0.2.1"),
            ("::ffff:10.0.0.1", true, "192.0.2.1"),
            ("192.0.2.9", false, "192.0.2.9"),
        ] {
            let mut request = http::Request::new(());
            *request.headers_mut() = headers(&["192.0.2.1"]);
            // The peer that a server inserts is not the one of the closure.
            request.extensions_mut().insert(SocketAddr::from(([10, 0, 0, 2], 1)));
            request.extensions_mut().insert(Peer(ip(peer)));
            let head = RequestHead::of(&request);
            assert_eq!(address.is_forwarded(&head), is_forwarded, "{peer}");
            assert_eq!(address.ip(&head), Some(ip(client)), "{peer}");
        }
    }

    proptest! {
        #[test]
        fn spoofed_entries_on_the_left_are_ignored(
            spoofed in prop::collection::vec(r#"\PC{0,30}|10\.[0-9]\.0\.1|192\.0\.2\.[0-9]"#, 0..4),
            lines in any::<bool>(),
        ) {
            let written = "192.0.2.1, 10.0.0.2";
            let spoofed = spoofed.join(",");
            let joined = format!("{spoofed},{written}");
            let values = if lines { vec![spoofed.as_str(), written] } else { vec![joined.as_str()] };
            for client in [behind(&["10.0.0.0/8"]), xff().trusted_hops(2).client] {
                let found = client.address(Some(ip("10.0.0.1")), &headers(&values));
                prop_assert_eq!(found, Some(ip("192.0.2.1")));
            }
        }
    }
}
