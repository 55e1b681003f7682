//! The server: HTTP/1, with an end to whatever a client may leave open.

use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::time::Duration;

use axum::Router;
use axum_server::{Handle, Server};
use hyper_util::rt::TokioTimer;
use tokio::net::TcpListener;

/// How long clients may keep the server waiting.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timeouts {
    /// For the head of a request, or for the next request on the same connection.
    pub(crate) head: Duration,
    /// For the requests that are under way when it is to stop: after that they are cut off.
    pub(crate) drain: Duration,
}

/// Serves until `stop` completes, and then until every request that is under way has its answer, if that is
/// soon.
///
/// # Errors
/// When it cannot listen.
pub(crate) async fn serve_until(
    listener: TcpListener,
    site: Router,
    timeouts: Timeouts,
    stop: impl Future<Output = ()>,
) -> io::Result<()> {
    let handle = Handle::new();
    // Not both versions: to find out which it is, it would wait for the first bytes without a limit.
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
