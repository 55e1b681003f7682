use std::net::{IpAddr, SocketAddr};

use http::{Extensions, HeaderMap, Method, Request, Uri};

use crate::request;

/// A request without its body.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct RequestHead<'a> {
    /// The method.
    pub method: &'a Method,
    /// The request target, as sent by the client.
    pub uri: &'a Uri,
    /// The headers.
    pub headers: &'a HeaderMap,
    /// The extensions inserted by the server and outer layers.
    pub extensions: &'a Extensions,
}

impl<'a> RequestHead<'a> {
    pub(crate) fn of<B>(request: &'a Request<B>) -> Self {
        Self {
            method: request.method(),
            uri: request.uri(),
            headers: request.headers(),
            extensions: request.extensions(),
        }
    }

    /// Returns the peer address of the connection, if the server stored it in the request: this is either the
    /// `ConnectInfo` of axum 0.8, or a [`SocketAddr`](std::net::SocketAddr) extension.
    #[inline]
    #[must_use]
    pub fn peer(&self) -> Option<IpAddr> {
        request::peer(self.extensions).map(SocketAddr::ip)
    }
}
