//! Simulated visitors, who send real HTTP requests.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;
use std::{fmt, io};

use counter_core::Timestamp;
use tokio::io::{AsyncWriteExt, copy, sink};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::{sleep, timeout};

use super::dice::Dice;
use super::people::{Crowd, Visitor};
use super::traffic::{Client, KINDS, Kind, Traffic};

/// Timeout of a request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// Sends requests to the site at this address until the future is dropped. Failed requests are ignored.
pub(super) async fn send_to(site: SocketAddr, utc_offset: i32) {
    let start = Timestamp::now();
    let traffic = Traffic::new(start, utc_offset);
    let mut crowd = Crowd::new(Dice::new(start.as_unix()));
    loop {
        let rates = KINDS.each_ref().map(|kind| traffic.rate(kind, Timestamp::now()));
        // Requests are independent of each other, so we need exponentially distributed pauses.
        let total: f64 = rates.iter().sum();
        sleep(Duration::from_secs_f64(-(1.0 - crowd.dice.fraction()).ln() / total)).await;
        let index = choose(&rates, crowd.dice.fraction() * total);
        let kind = &KINDS[index];
        for visitor in crowd.visitors(index, 1, 1.0) {
            let request = Request { kind, visitor }.to_string();
            drop(tokio::spawn(timeout(REQUEST_TIMEOUT, send(site, visitor.address(), request))));
        }
    }
}

/// Returns the index of the part that contains `at`, if all parts are put in a row.
fn choose(parts: &[f64], mut at: f64) -> usize {
    for (index, part) in parts.iter().enumerate() {
        if at < *part {
            return index;
        }
        at -= part;
    }
    parts.len() - 1
}

struct Request {
    kind: &'static Kind,
    visitor: Visitor,
}

/// Writes the HTTP request.
impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, visitor } = self;
        let (method, form) = match kind.client {
            Client::Member => ("POST", format!("member={}&text=Me+too.", visitor.member())),
            Client::Reader | Client::Bot => ("GET", String::new()),
        };
        let (path, agent, referrer) = (kind.path, visitor.agent(), visitor.referrer);
        let (language, length) = (visitor.language(), form.len());
        let form_type = "application/x-www-form-urlencoded";
        write!(
            f,
            "{method} {path} HTTP/1.1\r\nHost: example\r\nUser-Agent: {agent}\r\nConnection: close\r\n"
        )?;
        if !referrer.is_empty() {
            write!(f, "Referer: {referrer}\r\n")?;
        }
        write!(f, "Accept-Language: {language}\r\n")?;
        write!(f, "Content-Type: {form_type}\r\nContent-Length: {length}\r\n\r\n{form}")
    }
}

async fn send(site: SocketAddr, visitor: Ipv4Addr, request: String) -> io::Result<()> {
    let mut connection = connect(site, visitor).await?;
    connection.write_all(request.as_bytes()).await?;
    copy(&mut connection, &mut sink()).await?;
    Ok(())
}

/// Connects from the address of the visitor. If all came from the same address, the site would seem to be
/// behind a proxy.
async fn connect(site: SocketAddr, visitor: Ipv4Addr) -> io::Result<TcpStream> {
    if site.is_ipv4() {
        let socket = TcpSocket::new_v4()?;
        // On Linux, a program can use all addresses in 127.0.0.0/8. Other systems might only have one.
        if socket.bind((visitor, 0).into()).is_ok() {
            return socket.connect(site).await;
        }
    }
    TcpStream::connect(site).await
}
