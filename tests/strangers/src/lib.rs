//! The parts that these programs share: counters on Redis, a listener, and graceful shutdown.
//!
//! Like the examples, a program reads the Redis URL from `REDIS_URL`, prints the listening address, and on
//! SIGINT exits as soon as the last hit is stored.

use std::env;
use std::error::Error;
use std::io::{Write, stdout};
use std::net::{Ipv4Addr, SocketAddr};

use counter_core::stores::Namespace;
use counter_core::visitor::VisitorKey;
use counter_core::{Counters, Recorder, RedisStore};
use counter_layer::{AccessCounterLayer, Facet, Identity};
use tokio::net::TcpListener;
use tokio::signal::ctrl_c;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// A fixed visitor key. With a random key, a test with two visitors would fail if they share a register, with
/// a probability of 1 in 16,384.
const KEY: VisitorKey = VisitorKey::new([7; 16]);

/// An error that ends a program.
pub type BoxError = Box<dyn Error + Send + Sync>;

/// A program's recorder, and the task that sends the hits.
#[derive(Debug)]
pub struct Counting {
    recorder: Recorder,
    stop: oneshot::Sender<()>,
    upkeep: JoinHandle<Result<(), counter_core::Error>>,
}

impl Counting {
    /// Starts counting to the Redis server in `REDIS_URL`.
    ///
    /// # Errors
    /// If the variable is not set or not a valid URL.
    pub async fn start() -> Result<Self, BoxError> {
        let store = RedisStore::connect(&env::var("REDIS_URL")?, Namespace::default()).await?;
        let mut counters = Counters::builder(store).build()?;
        let recorder = counters.recorder();
        let (stop, stopped) = oneshot::channel::<()>();
        let upkeep = tokio::spawn(async move { counters.run(async { drop(stopped.await) }).await });
        Ok(Self { recorder, stop, upkeep })
    }

    /// Returns the layer, with facets that clients can verify: methods and statuses.
    ///
    /// # Errors
    /// If the identity can't be used to distinguish visitors.
    pub fn layer(&self, identity: impl Into<Identity>) -> Result<AccessCounterLayer, BoxError> {
        let layer = AccessCounterLayer::new(self.recorder.clone()).identity(identity.into().key(KEY))?;
        Ok(layer.facets([Facet::Method, Facet::Status]))
    }

    /// Returns the recorder, to be used for additional layers.
    #[must_use]
    pub fn recorder(&self) -> Recorder {
        self.recorder.clone()
    }

    /// Waits until the last hit is stored.
    ///
    /// # Errors
    /// If the hits can't be stored.
    pub async fn finish(self) -> Result<(), BoxError> {
        drop(self.stop);
        Ok(self.upkeep.await??)
    }
}

/// Listens on a free loopback port, and prints the address.
///
/// # Errors
/// If binding or printing fails.
pub async fn listen() -> Result<TcpListener, BoxError> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    print_address(listener.local_addr()?)?;
    Ok(listener)
}

/// Prints the address of a server.
///
/// # Errors
/// If the output is closed.
pub fn print_address(address: SocketAddr) -> Result<(), BoxError> {
    print_line(&format!("http://{address}"))
}

/// Prints a line and flushes the output.
///
/// # Errors
/// If the output is closed.
pub fn print_line(line: &str) -> Result<(), BoxError> {
    let mut output = stdout().lock();
    writeln!(output, "{line}")?;
    Ok(output.flush()?)
}

/// Waits for a SIGINT.
///
/// # Panics
/// If called outside a Tokio runtime with signals enabled.
pub async fn interrupted() {
    ctrl_c().await.expect("a runtime with signals");
}
