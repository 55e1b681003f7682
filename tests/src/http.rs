//! A minimal HTTP/1.1 client: single requests, and a load generator.

use std::error::Error;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use http::{HeaderMap, Method, Request, header};
use http_body_util::BodyExt;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

use crate::until::within;

/// Upper bound for the time that a response may take.
const LIMIT: Duration = crate::until::LIMIT;

/// A complete response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    /// Status code.
    pub status: u16,
    /// Response headers.
    pub headers: HeaderMap,
    /// Body as text.
    pub body: String,
}

impl Response {
    /// Returns the value of the header with this name.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }
}

/// Sends a GET request over a new connection.
///
/// # Panics
///
/// Panics if the response is not complete within two minutes.
pub async fn get(address: SocketAddr, path: &str, headers: &[(&str, &str)]) -> Response {
    request_once(address, Method::GET, path, headers, "").await
}

/// Sends a GET request over a new connection to a server that may fail.
///
/// # Errors
///
/// Fails if the response is not complete within two minutes. Returns [`ConnectionRefused`](ErrorKind::ConnectionRefused)
/// if nothing was sent because there is no server.
pub async fn try_get(
    address: SocketAddr,
    path: &str,
    headers: &[(&str, &str)],
) -> Result<Response, ErrorKind> {
    let response = try_request(address, &Method::GET, path, headers, "").await;
    response.map_err(|error| error.downcast_ref::<io::Error>().map_or(ErrorKind::Other, io::Error::kind))
}

/// Sends a form, e.g. `name=value&other=more`, over a new connection.
///
/// # Panics
///
/// Panics like [`get`].
pub async fn post(address: SocketAddr, path: &str, headers: &[(&str, &str)], form: &str) -> Response {
    let form_header = [("Content-Type", "application/x-www-form-urlencoded")];
    request_once(address, Method::POST, path, &[headers, &form_header].concat(), form).await
}

async fn request_once(
    address: SocketAddr,
    method: Method,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> Response {
    let response = try_request(address, &method, path, headers, body).await;
    response.unwrap_or_else(|error| panic!("incomplete response to {method} {path}: {error}"))
}

async fn try_request(
    address: SocketAddr,
    method: &Method,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> Result<Response, Box<dyn Error + Send + Sync>> {
    let mut request = Request::builder().method(method).uri(path).header(header::CONNECTION, "close");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.body(body.to_owned())?;
    let response = async { send(&mut connect(address).await?, address, request).await };
    within(LIMIT, response).await.ok_or_else(|| io::Error::from(ErrorKind::TimedOut))?
}

async fn connect(address: SocketAddr) -> Result<SendRequest<String>, Box<dyn Error + Send + Sync>> {
    let server = TcpStream::connect(address).await?;
    server.set_nodelay(true)?;
    let (requests, connection) = handshake(TokioIo::new(server)).await?;
    // This completes when the handle is dropped. Errors are returned via the handle.
    tokio::spawn(connection);
    Ok(requests)
}

async fn send(
    requests: &mut SendRequest<String>,
    address: SocketAddr,
    mut request: Request<String>,
) -> Result<Response, Box<dyn Error + Send + Sync>> {
    request.headers_mut().insert(header::HOST, address.to_string().parse()?);
    let (head, body) = requests.send_request(request).await?.into_parts();
    let body = String::from_utf8(body.collect().await?.to_bytes().into())?;
    Ok(Response { status: head.status.as_u16(), headers: head.headers, body })
}

/// Connections that send requests until [`stop`](Self::stop) is called or the server closes the connections.
#[derive(Debug)]
pub struct Load {
    stop: Arc<AtomicBool>,
    counts: Arc<Counts>,
    connections: Vec<JoinHandle<()>>,
}

/// Totals of all connections of a load.
#[derive(Debug, Default)]
struct Counts {
    requested: AtomicU64,
    received: AtomicU64,
}

impl Load {
    /// Starts this number of connections, which cycle through the paths.
    #[must_use]
    pub fn start(address: SocketAddr, connections: usize, paths: &'static [&'static str]) -> Self {
        let (stop, counts) = (Arc::<AtomicBool>::default(), Arc::<Counts>::default());
        let connections = (0..connections).map(|first| {
            let (stop, counts) = (Arc::clone(&stop), Arc::clone(&counts));
            tokio::spawn(async move {
                // An error means that the server is stopping. The truncated response must not be counted.
                drop(request_until(&stop, &counts, address, paths.iter().cycle().skip(first)).await);
            })
        });
        let connections = connections.collect();
        Self { stop, counts, connections }
    }

    /// Returns the number of requests so far, including those that are only partially sent.
    #[must_use]
    pub fn requested(&self) -> u64 {
        self.counts.requested.load(Ordering::Relaxed)
    }

    /// Returns the number of complete responses so far.
    #[must_use]
    pub fn received(&self) -> u64 {
        self.counts.received.load(Ordering::Relaxed)
    }

    /// Returns whether the server has closed all connections.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.connections.iter().all(JoinHandle::is_finished)
    }

    /// Waits for pending responses, closes the connections, and returns the number of complete responses.
    ///
    /// # Panics
    ///
    /// Panics if this takes more than two minutes.
    pub async fn stop(self) -> u64 {
        self.stop.store(true, Ordering::Relaxed);
        let ends = async {
            for connection in self.connections {
                connection.await.expect("a connection does not panic");
            }
        };
        within(LIMIT, ends).await.expect("pending responses arrive in time");
        self.counts.received.load(Ordering::Relaxed)
    }
}

async fn request_until(
    stop: &AtomicBool,
    counts: &Counts,
    address: SocketAddr,
    paths: impl Iterator<Item = &&'static str>,
) -> Result<(), Box<dyn Error + Send + Sync>> {
    let mut server = connect(address).await?;
    for path in paths {
        server.ready().await?;
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let request = Request::get(*path).body(String::new())?;
        counts.requested.fetch_add(1, Ordering::Relaxed);
        send(&mut server, address, request).await?;
        counts.received.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, SocketAddr};

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::{Load, get};
    use crate::until::until;

    /// Starts a server that replies to the initial request on a connection with these bytes, and then closes
    /// it.
    async fn serve(reply: &'static str) -> SocketAddr {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        tokio::spawn(async move {
            while let Ok((mut client, _)) = listener.accept().await {
                let mut request = [0; 1024];
                drop(client.read(&mut request).await);
                drop(client.write_all(reply.as_bytes()).await);
            }
        });
        address
    }

    async fn check(reply: &'static str) {
        let response = get(serve(reply).await, "/", &[]).await;
        assert_eq!((response.status, response.body.as_str()), (404, "no\r\nway"), "{reply:?}");
        assert_eq!(response.header("x-name"), Some("value: more"));
    }

    #[tokio::test]
    async fn bodies_end_by_length_last_chunk_or_close() {
        check("HTTP/1.1 404 Not Found\r\nX-Name: value: more\r\nContent-Length: 7\r\n\r\nno\r\nwayXX").await;
        check("HTTP/1.1 404 No\r\nX-Name:value: more\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nno\r\n\r\n3\r\nway\r\n0\r\n\r\n").await;
        check("HTTP/1.1 404 No\r\nx-name: value: more \r\n\r\nno\r\nway").await;
    }

    #[tokio::test]
    async fn a_load_only_counts_complete_responses() {
        let complete = Load::start(serve("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").await, 3, &["/"]);
        let cut = Load::start(serve("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok").await, 3, &["/"]);
        for load in [&complete, &cut] {
            until("the server closed all connections", super::LIMIT, async || load.has_ended()).await;
        }
        // A connection might send a second request just before it is closed.
        assert!((3..=6).contains(&complete.requested()), "{}", complete.requested());
        assert_eq!(cut.requested(), 3);
        assert_eq!((complete.stop().await, cut.stop().await), (3, 0));
    }
}
