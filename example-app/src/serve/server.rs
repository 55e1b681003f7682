//! HTTP/1 server with timeouts, so that clients can't block it.

use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::time::Duration;

use axum::Router;
use axum_server::{Handle, Server};
use hyper_util::rt::TokioTimer;
use tokio::net::TcpListener;

/// Timeouts for clients.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timeouts {
    /// Timeout for a request head, and for the next request on a connection.
    pub(crate) head: Duration,
    /// Timeout for requests in flight during shutdown. These will then be aborted.
    pub(crate) drain: Duration,
}

/// Serves requests until `stop` completes. After this, requests in flight can be completed within the drain
/// timeout.
///
/// # Errors
///
/// Returns an error if the server can't listen.
pub(crate) async fn serve_until(
    listener: TcpListener,
    site: Router,
    timeouts: Timeouts,
    stop: impl Future<Output = ()>,
) -> io::Result<()> {
    let handle = Handle::new();
    // To support HTTP/2 as well, the server would need to detect the version first. It would wait for the
    // initial bytes without a timeout.
    let mut server = Server::<SocketAddr>::from_listener(listener).http1_only().handle(handle.clone());
    server.http_builder().http1().timer(TokioTimer::new()).header_read_timeout(timeouts.head);
    let serving = server.serve(site.into_make_service_with_connect_info::<SocketAddr>());
    let (mut serving, mut stop) = (pin!(serving), pin!(stop));
    tokio::select! {
        served = &mut serving => return served,
        () = &mut stop => handle.graceful_shutdown(Some(timeouts.drain)),
    }
    serving.await
}
