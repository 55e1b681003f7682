//! The `health` command: checks a running site, for containers without an HTTP client.

use std::error::Error;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use clap::Args;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::flags::clock;
use crate::flags::listen::ListenAddress;
use crate::problem::At;

/// Check whether a site responds.
#[derive(Debug, Args)]
#[command(next_help_heading = "Server")]
pub(crate) struct Settings {
    /// Address that the site listens on.
    #[arg(long, env = "COUNTER_LISTEN", value_name = "ADDRESS", default_value = "127.0.0.1:3000")]
    listen: ListenAddress,
    /// Time to wait for the response.
    #[arg(
        long,
        env = "COUNTER_HEALTH_TIMEOUT",
        value_name = "SECONDS",
        default_value = "2",
        value_parser = clock::seconds
    )]
    timeout: Duration,
}

const REQUEST: &[u8] = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";

/// What to do without the expected response.
const REMEDY: &str = "check that the site listens on this address, and its log";

/// Maximum length of a status line.
const MAX_LINE: u64 = 256;

/// # Errors
///
/// Returns an error if the site can't be reached in time, or if the status is not 200.
pub(crate) async fn run(settings: Settings) -> Result<(), Box<dyn Error>> {
    let place = format!("--listen {}", settings.listen);
    let line = timeout(settings.timeout, status_line(&settings.listen))
        .await
        .map_err(|_| format!("no response within {:?}; {REMEDY}", settings.timeout))
        .at(&place)?
        .at(format!("{place}: no response"))?;
    match line.split(' ').nth(1) {
        Some("200") => Ok(()),
        _ => Err(format!("unexpected response {:?}; {REMEDY}", line.trim_end())).at(place),
    }
}

async fn status_line(address: &ListenAddress) -> io::Result<String> {
    let addresses: Vec<_> = address.resolve().await?.into_iter().map(local).collect();
    let mut stream = TcpStream::connect(&*addresses).await?;
    stream.write_all(REQUEST).await?;
    let mut line = String::new();
    BufReader::new(stream.take(MAX_LINE)).read_line(&mut line).await?;
    Ok(line)
}

/// Returns an address to connect to a site that listens on `address`, even if this means all interfaces.
fn local(mut address: SocketAddr) -> SocketAddr {
    match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => address.set_ip(Ipv4Addr::LOCALHOST.into()),
        IpAddr::V6(ip) if ip.is_unspecified() => address.set_ip(Ipv6Addr::LOCALHOST.into()),
        _ => {}
    }
    address
}
