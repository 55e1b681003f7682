//! Resolves the server name and chooses the address to connect to.

use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::pin::pin;
use std::thread;
use std::time::Duration;

use fred::error::{Error as FredError, ErrorKind as FredKind};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};

/// Timeout for resolving a name.
pub(in crate::redis) const LOOKUP_TIMEOUT: Duration = Duration::from_secs(5);
/// Timeout for connecting to a server address, including the TLS handshake.
pub(in crate::redis) const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Delay until the next address is tried if the previous attempts are still pending (RFC 8305).
const ATTEMPT_DELAY: Duration = Duration::from_millis(250);
/// Maximum number of addresses to try for a name.
const MAX_ADDRESSES: usize = 16;

type Addresses = io::Result<Vec<SocketAddr>>;

/// Finds the address to connect to.
#[derive(Debug, Default)]
pub(in crate::redis) struct AddressFinder {
    /// The pending lookup. It can't be cancelled, so the next attempt will wait for the same lookup.
    lookup: Option<oneshot::Receiver<Addresses>>,
}

impl AddressFinder {
    /// Resolves a server name. If the name resolves to more than one address, this returns the first address
    /// to accept a connection.
    ///
    /// # Cancel safety
    /// If the future is dropped, the lookup will be reused by the next call.
    pub(in crate::redis) async fn find(&mut self, host: &str, port: u16) -> Result<SocketAddr, FredError> {
        let literal = host.trim_start_matches('[').trim_end_matches(']');
        if let Ok(address) = literal.parse::<IpAddr>() {
            return Ok(SocketAddr::new(address, port));
        }
        match &self.look_up(host, port).await?[..] {
            [] => Err(FredError::new(FredKind::IO, format!("the name {host} has no address"))),
            [address] => Ok(*address),
            addresses => timeout(CONNECT_TIMEOUT, first_to_accept(addresses)).await.unwrap_or_else(|_| {
                Err(FredError::new(
                    FredKind::Timeout,
                    format!("no address of {host} responded within 5 s: {addresses:?}"),
                ))
            }),
        }
    }

    async fn look_up(&mut self, host: &str, port: u16) -> Result<Vec<SocketAddr>, FredError> {
        let lookup = self.lookup.get_or_insert_with(|| start_lookup(host.to_owned(), port));
        let Ok(reply) = timeout(LOOKUP_TIMEOUT, lookup).await else {
            let message = format!("the lookup of {host} timed out after 5 s");
            return Err(FredError::new(FredKind::Timeout, message));
        };
        self.lookup = None;
        let reply = reply.unwrap_or_else(|_| Err(io::Error::other("could not start a thread")));
        reply.map_err(|error| FredError::new(FredKind::IO, format!("the lookup of {host} failed: {error}")))
    }
}

/// Resolves a name on a detached thread: the system resolver can block for up to 30 s if DNS servers do not
/// respond, and a runtime needs to wait for its blocking threads to shut down.
fn start_lookup(host: String, port: u16) -> oneshot::Receiver<Addresses> {
    let (sender, receiver) = oneshot::channel();
    let look_up = move || {
        let addresses = (host.as_str(), port).to_socket_addrs();
        // The receiver may have been dropped with the store.
        drop(sender.send(addresses.map(|addresses| addresses.take(MAX_ADDRESSES).collect())));
    };
    // If the thread can't be started, the sender is dropped, and the receiver will return an error.
    drop(thread::Builder::new().name("redis-lookup".to_owned()).spawn(look_up));
    receiver
}

/// Returns the first address to accept a connection. The next address is tried when the previous attempt
/// fails, or after a delay.
async fn first_to_accept(addresses: &[SocketAddr]) -> Result<SocketAddr, FredError> {
    let mut attempts = FuturesUnordered::new();
    let mut waiting = addresses.iter().copied();
    let mut last_error = None;
    loop {
        match waiting.next() {
            Some(address) => {
                attempts.push(async move { (address, TcpStream::connect(address).await) });
            }
            None if attempts.is_empty() => {
                return Err(last_error.unwrap_or_else(|| FredError::new(FredKind::IO, "no address")));
            }
            None => {}
        }
        let mut delay = pin!(sleep(ATTEMPT_DELAY));
        tokio::select! {
            Some((address, connected)) = attempts.next() => match connected {
                Ok(_) => return Ok(address),
                Err(error) => last_error = Some(FredError::new(FredKind::IO, format!("connecting to {address}: {error}"))),
            },
            () = &mut delay, if waiting.len() > 0 => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpListener, TcpStream as BlockingStream};

    use socket2::{Domain, Socket, Type};

    use super::*;

    /// An address that drops packets instead of accepting or rejecting connections.
    struct BlackHole {
        address: SocketAddr,
        _listener: Socket,
        _queue: Vec<BlockingStream>,
    }

    impl BlackHole {
        fn new() -> Self {
            let listener = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
            listener.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into()).expect("a free port");
            listener.listen(0).expect("it listens");
            let address = listener.local_addr().expect("bound").as_socket().expect("an IP address");
            // The kernel ignores further connections if the queue is full.
            let connect = |_| BlockingStream::connect_timeout(&address, Duration::from_millis(200)).ok();
            let queue = (0..10).map_while(connect).collect();
            Self { address, _listener: listener, _queue: queue }
        }
    }

    fn listener() -> (TcpListener, SocketAddr) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let address = listener.local_addr().expect("bound");
        (listener, address)
    }

    #[tokio::test]
    async fn an_unresponsive_address_does_not_delay_the_next_address() {
        let (black_hole, (_listener, good)) = (BlackHole::new(), listener());
        let refusing = listener().1;
        for addresses in [vec![black_hole.address, good], vec![refusing, black_hole.address, good]] {
            let found = timeout(CONNECT_TIMEOUT, first_to_accept(&addresses)).await.expect("in time");
            assert_eq!(found.ok(), Some(good));
        }
        let error = first_to_accept(&[refusing]).await.expect_err("nothing listens");
        assert!(error.details().starts_with(&format!("connecting to {refusing}: ")), "{error}");
    }

    #[tokio::test]
    async fn ip_addresses_are_not_looked_up_and_lookup_errors_contain_the_name() {
        let mut finder = AddressFinder::default();
        for host in ["::1", "[::1]"] {
            let found = finder.find(host, 6379).await.expect("an address");
            assert_eq!(found, "[::1]:6379".parse().expect("an address"));
        }
        let host = format!("{}.invalid", "x".repeat(64));
        let error = finder.find(&host, 6379).await.expect_err("no name is as long");
        assert!(error.details().starts_with(&format!("the lookup of {host} failed: ")), "{error}");
    }
}
