//! Values that servers leave in the extensions of a request, and headers. Only this file knows axum.

use std::net::SocketAddr;

use http::{Extensions, HeaderMap, HeaderName, HeaderValue};

#[cfg(feature = "axum")]
mod server {
    use std::net::SocketAddr;

    use axum::extract::ConnectInfo;
    /// The route that matched. Its text is a template such as `/articles/{id}`, and never the path itself, because clients
    /// can request any number of paths.
    pub(crate) use axum::extract::MatchedPath as Route;
    use http::Extensions;

    #[inline]
    pub(super) fn connect_info(extensions: &Extensions) -> Option<&SocketAddr> {
        extensions.get().map(|ConnectInfo(peer)| peer)
    }
}

#[cfg(not(feature = "axum"))]
mod server {
    use std::net::SocketAddr;

    use http::Extensions;

    /// The route that matched: never any, because only axum reports it.
    #[derive(Clone, Debug)]
    pub(crate) enum Route {}

    impl Route {
        pub(crate) fn as_str(&self) -> &str {
            match *self {}
        }
    }

    pub(super) const fn connect_info(_: &Extensions) -> Option<&SocketAddr> {
        None
    }
}

pub(crate) use server::Route;

#[inline]
pub(crate) fn route(extensions: &Extensions) -> Option<&Route> {
    extensions.get()
}

/// Returns `true` for a template that axum writes for itself: that of a fallback, which its versions after 0.8 leave
/// in a request like that of a route.
pub(crate) fn is_private(template: &str) -> bool {
    template.contains("__private__axum")
}

/// The other end of the connection.
#[inline]
pub(crate) fn peer(extensions: &Extensions) -> Option<&SocketAddr> {
    server::connect_info(extensions).or_else(|| extensions.get())
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
