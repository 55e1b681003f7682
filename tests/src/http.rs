//! HTTP/1.1 as far as tests need it: one GET, and a load of many.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// How long an answer may take.
const LIMIT: Duration = crate::until::LIMIT;

/// A response that was read to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    /// The status code.
    pub status: u16,
    /// Names in lower case, and values.
    pub headers: Vec<(String, String)>,
    /// The body, as text.
    pub body: String,
}

impl Response {
    /// The first header of that name, which is given in lower case.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(header, _)| header == name).map(|(_, value)| value.as_str())
    }
}

/// Asks for one page, on a connection of its own.
///
/// # Panics
///
/// When there is no complete answer within two minutes.
pub async fn get(address: SocketAddr, path: &str, headers: &[(&str, &str)]) -> Response {
    ask(address, "GET", path, headers, "").await
}

/// Sends a form such as `name=value&other=more`, on a connection of its own.
///
/// # Panics
///
/// As [`get`].
pub async fn post(address: SocketAddr, path: &str, headers: &[(&str, &str)], form: &str) -> Response {
    let length = form.len().to_string();
    let form_headers = [("Content-Type", "application/x-www-form-urlencoded"), ("Content-Length", &length)];
    ask(address, "POST", path, &[headers, &form_headers].concat(), form).await
}

async fn ask(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> Response {
    let answer = async {
        let mut server = BufReader::new(TcpStream::connect(address).await?);
        let headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let head =
            format!("{method} {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n{headers}\r\n");
        server.write_all((head + body).as_bytes()).await?;
        read(&mut server).await
    };
    match timeout(LIMIT, answer).await {
        Ok(Ok(response)) => response,
        Ok(Err(error)) => panic!("no complete answer to {method} {path}: {error}"),
        Err(_) => panic!("no complete answer to {method} {path} in {LIMIT:?}"),
    }
}

/// Connections that ask for one page after the other until they are told to stop, or the server
/// closes them.
#[derive(Debug)]
pub struct Load {
    stop: Arc<AtomicBool>,
    counts: Arc<Counts>,
    connections: Vec<JoinHandle<()>>,
}

/// What all connections of a load have done.
#[derive(Debug, Default)]
struct Counts {
    asked: AtomicU64,
    received: AtomicU64,
}

impl Load {
    /// Begins with that many connections, each of which goes round these paths.
    #[must_use]
    pub fn start(address: SocketAddr, connections: usize, paths: &'static [&'static str]) -> Self {
        let (stop, counts) = (Arc::<AtomicBool>::default(), Arc::<Counts>::default());
        let connections = (0..connections).map(|first| {
            let (stop, counts) = (Arc::clone(&stop), Arc::clone(&counts));
            tokio::spawn(async move {
                // An error is a server that stops: the answer that it cuts off does not count.
                drop(ask_until(&stop, &counts, address, paths.iter().cycle().skip(first)).await);
            })
        });
        let connections = connections.collect();
        Self { stop, counts, connections }
    }

    /// Requests up to now, those included that were not sent to their end.
    #[must_use]
    pub fn asked(&self) -> u64 {
        self.counts.asked.load(Ordering::Relaxed)
    }

    /// Complete responses up to now.
    #[must_use]
    pub fn received(&self) -> u64 {
        self.counts.received.load(Ordering::Relaxed)
    }

    /// Returns whether the server has closed all connections.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.connections.iter().all(JoinHandle::is_finished)
    }

    /// Stops when each connection has the answer to its last request; how many responses were
    /// complete.
    ///
    /// # Panics
    ///
    /// When that takes longer than two minutes.
    pub async fn stop(self) -> u64 {
        self.stop.store(true, Ordering::Relaxed);
        let ends = async {
            for connection in self.connections {
                connection.await.expect("a connection does not panic");
            }
        };
        timeout(LIMIT, ends).await.expect("the last answers come soon");
        self.counts.received.load(Ordering::Relaxed)
    }
}

async fn ask_until(
    stop: &AtomicBool,
    counts: &Counts,
    address: SocketAddr,
    paths: impl Iterator<Item = &&'static str>,
) -> io::Result<()> {
    let mut server = BufReader::new(TcpStream::connect(address).await?);
    server.get_ref().set_nodelay(true)?;
    for path in paths {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let head = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n");
        counts.asked.fetch_add(1, Ordering::Relaxed);
        server.write_all(head.as_bytes()).await?;
        let response = read(&mut server).await?;
        counts.received.fetch_add(1, Ordering::Relaxed);
        if response.header("connection") == Some("close") {
            break;
        }
    }
    Ok(())
}

async fn read(server: &mut BufReader<TcpStream>) -> io::Result<Response> {
    let status = line(server).await?;
    let status = status.split(' ').nth(1).and_then(|code| code.parse().ok()).ok_or_else(malformed)?;
    let mut headers = Vec::new();
    loop {
        let line = line(server).await?;
        if line.is_empty() {
            break;
        }
        let (name, value) = line.split_once(':').ok_or_else(malformed)?;
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    let mut response = Response { status, headers, body: String::new() };
    let length = response.header("content-length").map(str::parse);
    let mut body = Vec::new();
    if response.header("transfer-encoding") == Some("chunked") {
        read_chunks(server, &mut body).await?;
    } else if let Some(length) = length {
        body.resize(length.map_err(io::Error::other)?, 0);
        server.read_exact(&mut body).await?;
    } else {
        server.read_to_end(&mut body).await?;
    }
    response.body = String::from_utf8(body).map_err(io::Error::other)?;
    Ok(response)
}

async fn read_chunks(server: &mut BufReader<TcpStream>, body: &mut Vec<u8>) -> io::Result<()> {
    loop {
        let size = usize::from_str_radix(&line(server).await?, 16).map_err(io::Error::other)?;
        let begin = body.len();
        body.resize(begin + size, 0);
        server.read_exact(&mut body[begin..]).await?;
        // After the data of a chunk, and in place of the trailers, which nobody sends here.
        if !line(server).await?.is_empty() {
            return Err(malformed());
        }
        if size == 0 {
            return Ok(());
        }
    }
}

async fn line(server: &mut BufReader<TcpStream>) -> io::Result<String> {
    let mut line = String::new();
    server.read_line(&mut line).await?;
    line.strip_suffix("\r\n").map(str::to_owned).ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
}

fn malformed() -> io::Error {
    io::ErrorKind::InvalidData.into()
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, SocketAddr};

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::{Load, get};
    use crate::until::until;

    /// A server that answers the first request of every connection by these bytes, and closes.
    async fn serve(answer: &'static str) -> SocketAddr {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        tokio::spawn(async move {
            while let Ok((mut client, _)) = listener.accept().await {
                let mut request = [0; 1024];
                drop(client.read(&mut request).await);
                drop(client.write_all(answer.as_bytes()).await);
            }
        });
        address
    }

    async fn check(answer: &'static str) {
        let response = get(serve(answer).await, "/", &[]).await;
        assert_eq!((response.status, response.body.as_str()), (404, "no\r\nway"), "{answer:?}");
        assert_eq!(response.header("x-name"), Some("value: more"));
    }

    #[tokio::test]
    async fn a_body_ends_by_its_length_by_its_last_chunk_or_with_the_connection() {
        check("HTTP/1.1 404 Not Found\r\nX-Name: value: more\r\nContent-Length: 7\r\n\r\nno\r\nwayXX").await;
        check("HTTP/1.1 404 No\r\nX-Name:value: more\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nno\r\n\r\n3\r\nway\r\n0\r\n\r\n").await;
        check("HTTP/1.1 404 No\r\nx-name: value: more \r\n\r\nno\r\nway").await;
    }

    #[tokio::test]
    async fn a_load_counts_complete_responses_only() {
        let complete = Load::start(serve("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").await, 3, &["/"]);
        let cut = Load::start(serve("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok").await, 3, &["/"]);
        for load in [&complete, &cut] {
            until("the server closed all connections", super::LIMIT, async || load.has_ended()).await;
        }
        // The second request of a connection may fall into its end.
        assert!((3..=6).contains(&complete.asked()), "{}", complete.asked());
        assert_eq!(cut.asked(), 3);
        assert_eq!((complete.stop().await, cut.stop().await), (3, 0));
    }
}
