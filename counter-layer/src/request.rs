//! Values that servers leave in the extensions of a request, and headers. Only this file knows axum.

use std::net::SocketAddr;

use http::{Extensions, HeaderMap, HeaderName, HeaderValue};

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

/// The number of headers in front that are looked through. Most libraries, Firefox and the proxies that are written in Go
/// send the user agent second; pages of Chromium have it fifth to eighth, and eleventh behind nginx.
const IN_FRONT: usize = 12;

/// Returns the first value of a header if it is among the first of all, for a name that often is. A value that is not found
/// may be behind.
// To hash the name and to probe for it takes as long as looking at seven names. A name as an argument would be compared
// as if it could be any.
#[inline]
pub(crate) fn in_front(headers: &HeaderMap, is_name: impl Fn(&HeaderName) -> bool) -> Option<&HeaderValue> {
    headers.iter().take(IN_FRONT).find(|(name, _)| is_name(name)).map(|(_, value)| value)
}

/// Returns whether headers are behind those [in front](in_front).
#[inline]
pub(crate) fn has_more(headers: &HeaderMap) -> bool {
    headers.len() > IN_FRONT
}
