//! Items for the other packages of this workspace, which pin the exact version. This is not part of the
//! public API.

use std::net::IpAddr;

use http::HeaderMap;
use http::request::Parts;

pub use crate::closure::Closure;
use crate::identity::{self, Address, Forwarded, RequestHead};
pub use crate::label::{BOT_LABEL, SOURCE_LABEL};
pub use crate::layer::{Counted, Decider};
pub use crate::request::logged::Logged;
pub use crate::reserved::{AGENTS, ERRORS, HITS, STATUSES, is_facet_counter, is_reserved};

/// Returns the significant bits of the client address, if it is known.
pub fn client(address: &Address, parts: &Parts) -> Option<u128> {
    address.client(&head(parts))
}

/// Returns `true` if the request was forwarded by a trusted proxy.
pub fn is_forwarded(address: &Address, parts: &Parts) -> bool {
    address.is_forwarded(&head(parts))
}

/// Parses an address as servers write it, e.g. with a port.
pub fn address(text: &[u8]) -> Option<IpAddr> {
    identity::address(text)
}

/// Appends an address to a header, like a proxy does.
pub fn append(header: &Forwarded, headers: &mut HeaderMap, address: IpAddr) {
    header.append(headers, address);
}

/// Removes all entries of a header, because its last entry is not written by a trusted proxy.
pub fn remove(header: &Forwarded, headers: &mut HeaderMap) {
    header.remove(headers);
}

const fn head(parts: &Parts) -> RequestHead<'_> {
    RequestHead {
        method: &parts.method,
        uri: &parts.uri,
        headers: &parts.headers,
        extensions: &parts.extensions,
    }
}
