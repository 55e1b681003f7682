//! Load generator: sends requests over keep-alive connections as fast as the server can respond.

use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

/// Connections to a server. Each connection sends a different user agent.
#[derive(Debug)]
pub struct Load(Vec<Connection>);

#[derive(Debug)]
struct Connection {
    stream: TcpStream,
    request: Vec<u8>,
    /// The most recent response. All responses must have the same length; only the date may differ.
    response: Vec<u8>,
}

/// Returns the request that browser number `browser` sends.
#[must_use]
pub fn request(browser: usize) -> Vec<u8> {
    let version = 100 + browser;
    format!(
        "GET /articles/7 HTTP/1.1\r\nHost: localhost\r\n\
         User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:{version}.0) Gecko/20100101 Firefox/{version}.0\r\n\
         Accept: text/html,application/xhtml+xml\r\nAccept-Language: en\r\n\r\n"
    )
    .into_bytes()
}

/// Returns the total response length, if `bytes` already contains the complete head.
#[must_use]
pub fn response_length(bytes: &[u8]) -> Option<usize> {
    let text = str::from_utf8(bytes).ok()?;
    let (head, _) = text.split_once("\r\n\r\n")?;
    let body = head
        .lines()
        .find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length:")?.trim().parse().ok());
    Some(head.len() + 4 + body.unwrap_or(0_usize))
}

impl Load {
    /// Opens this number of connections, and sends a request over each to warm up.
    ///
    /// # Errors
    /// If the server doesn't respond.
    pub async fn open(server: SocketAddr, connections: usize) -> io::Result<Self> {
        let mut all = Vec::new();
        for browser in 0..connections {
            let mut stream = TcpStream::connect(server).await?;
            stream.set_nodelay(true)?;
            let request = request(browser);
            stream.write_all(&request).await?;
            let mut response = Vec::new();
            while response_length(&response) != Some(response.len()) {
                if stream.read_buf(&mut response).await? == 0 {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
            }
            assert!(response.starts_with(b"HTTP/1.1 200 "), "{}", String::from_utf8_lossy(&response));
            all.push(Connection { stream, request, response });
        }
        Ok(Self(all))
    }

    /// Sends requests for this time and returns the latencies.
    ///
    /// # Errors
    /// If the server closes a connection.
    pub async fn run(&mut self, time: Duration) -> io::Result<Vec<Duration>> {
        let end = Instant::now() + time;
        let mut all = JoinSet::new();
        for connection in self.0.drain(..) {
            all.spawn(connection.run(end));
        }
        let mut latencies = Vec::new();
        while let Some(done) = all.join_next().await {
            let (connection, took) = done.expect("no panic")?;
            self.0.push(connection);
            latencies.extend(took);
        }
        Ok(latencies)
    }
}

impl Connection {
    async fn run(mut self, end: Instant) -> io::Result<(Self, Vec<Duration>)> {
        let mut took = Vec::new();
        let mut started = Instant::now();
        while started < end {
            self.stream.write_all(&self.request).await?;
            self.stream.read_exact(&mut self.response).await?;
            let ended = Instant::now();
            took.push(ended - started);
            started = ended;
        }
        Ok((self, took))
    }
}
