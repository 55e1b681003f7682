//! What servers leave in the extensions of a request. Nothing but this file and `admin` knows axum.

use std::net::{IpAddr, SocketAddr};

use http::Extensions;

/// The template of the route that matched, such as `/articles/{id}`; never the path itself, of which
/// anybody can make as many as he likes.
pub(crate) fn route(extensions: &Extensions) -> Option<&str> {
    #[cfg(feature = "axum")]
    return extensions.get::<axum::extract::MatchedPath>().map(axum::extract::MatchedPath::as_str);
    #[cfg(not(feature = "axum"))]
    return {
        _ = extensions;
        None
    };
}

/// The other end of the connection.
#[inline]
pub(crate) fn peer(extensions: &Extensions) -> Option<IpAddr> {
    #[cfg(feature = "axum")]
    if let Some(axum::extract::ConnectInfo(peer)) = extensions.get::<axum::extract::ConnectInfo<SocketAddr>>()
    {
        return Some(peer.ip());
    }
    extensions.get::<SocketAddr>().map(SocketAddr::ip)
}
