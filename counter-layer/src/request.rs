//! Values that servers leave in the extensions of a request. Only this file and `admin` know axum.

use std::net::SocketAddr;

use http::Extensions;

/// The route that matched; its text is a template such as `/articles/{id}`, and never the path itself, of
/// which clients can make any number.
#[cfg(feature = "axum")]
pub(crate) use axum::extract::MatchedPath as Route;

/// The route that matched: none, since only axum tells.
#[cfg(not(feature = "axum"))]
#[derive(Clone, Debug)]
pub(crate) enum Route {}

#[cfg(not(feature = "axum"))]
impl Route {
    pub(crate) fn as_str(&self) -> &str {
        match *self {}
    }
}

pub(crate) fn route(extensions: &Extensions) -> Option<&Route> {
    #[cfg(feature = "axum")]
    return extensions.get();
    #[cfg(not(feature = "axum"))]
    return {
        _ = extensions;
        None
    };
}

/// Returns `true` for a template that axum writes for itself: that of a fallback, which its versions after 0.8 leave
/// in a request like that of a route.
pub(crate) fn is_private(template: &str) -> bool {
    template.contains("__private__axum")
}

/// The other end of the connection.
#[inline]
pub(crate) fn peer(extensions: &Extensions) -> Option<&SocketAddr> {
    #[cfg(feature = "axum")]
    if let Some(axum::extract::ConnectInfo(peer)) = extensions.get::<axum::extract::ConnectInfo<SocketAddr>>()
    {
        return Some(peer);
    }
    extensions.get()
}
