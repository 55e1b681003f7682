//! Access to request extensions and headers. This is the only file that uses axum.

pub(crate) mod path;
pub(crate) mod logged;

use std::net::SocketAddr;

use http::{Extensions, HeaderMap, HeaderName, HeaderValue};

#[cfg(feature = "axum")]
mod server {
    use std::net::SocketAddr;

    use axum::extract::ConnectInfo;
    /// The matched route. The text is a template like `/articles/{id}`, and never the request path, because
    /// clients can request any number of paths.
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

    /// The matched route. Without axum there is never a route.
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

/// Returns `true` for a template that axum uses internally: versions after 0.8 also report a matched path for
/// fallbacks.
pub(crate) fn is_private(template: &str) -> bool {
    template.contains("__private__axum")
}

/// Returns the peer address of the connection.
#[inline]
pub(crate) fn peer(extensions: &Extensions) -> Option<&SocketAddr> {
    server::connect_info(extensions).or_else(|| extensions.get())
}

/// Number of leading headers to search. Most libraries, Firefox and Go proxies send the user agent as the
/// second header, Chromium as fifth to eighth, and as eleventh behind nginx.
const LEADING_HEADERS: usize = 12;

/// Returns the first value of a header if it is among the leading headers. If it is not found, we still have
/// to look further down.
// A hash lookup takes as long as comparing seven names. The name is a closure, because comparing with an
// argument would need to handle arbitrary names.
#[inline]
pub(crate) fn leading_header(
    headers: &HeaderMap,
    is_name: impl Fn(&HeaderName) -> bool,
) -> Option<&HeaderValue> {
    headers.iter().take(LEADING_HEADERS).find(|(name, _)| is_name(name)).map(|(_, value)| value)
}

/// Returns `true` if the request has more headers than [`leading_header`] searches.
#[inline]
pub(crate) fn has_trailing_headers(headers: &HeaderMap) -> bool {
    headers.len() > LEADING_HEADERS
}
