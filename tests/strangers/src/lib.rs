//! What each of these programs does around its application: counters over a Redis, a port, and an orderly end.
//!
//! A program is told its Redis by `COUNTER_REDIS`, says on which port it listens, and after a SIGTERM ends when
//! its last hit is stored.

use std::env;
use std::error::Error;
use std::io::{Write, stdout};
use std::net::{Ipv4Addr, SocketAddr};

use counter_core::stores::Namespace;
use counter_core::visitor::VisitorKey;
use counter_core::{Counters, Recorder, RedisStore};
use counter_layer::{AccessCounterLayer, Facet, Identity};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// The key of visitors: of two under a random one, one pair in 16,384 would be one visitor.
const KEY: VisitorKey = VisitorKey::new([7; 16]);

/// Whatever ends a program.
pub type Failure = Box<dyn Error + Send + Sync>;

/// The counters of a program, and the loop that sends their hits.
#[derive(Debug)]
pub struct Counting {
    recorder: Recorder,
    stop: oneshot::Sender<()>,
    upkeep: JoinHandle<Result<(), counter_core::Error>>,
}

impl Counting {
    /// Begins to count in the Redis of `COUNTER_REDIS`.
    ///
    /// # Errors
    /// When that is not set, or is no address.
    pub async fn start() -> Result<Self, Failure> {
        let store = RedisStore::connect(&env::var("COUNTER_REDIS")?, Namespace::default()).await?;
        let mut counters = Counters::builder(store).build()?;
        let recorder = counters.recorder();
        let (stop, stopped) = oneshot::channel::<()>();
        let upkeep = tokio::spawn(async move { counters.run(async { drop(stopped.await) }).await });
        Ok(Self { recorder, stop, upkeep })
    }

    /// The layer, with what the clients can see as well: methods and statuses.
    ///
    /// # Errors
    /// When the identity cannot tell visitors apart.
    pub fn layer(&self, identity: impl Into<Identity>) -> Result<AccessCounterLayer, Failure> {
        let layer = AccessCounterLayer::new(self.recorder.clone()).identity(identity.into().key(KEY))?;
        Ok(layer.facets([Facet::Method, Facet::Status]))
    }

    /// The recorder, for further layers.
    #[must_use]
    pub fn recorder(&self) -> Recorder {
        self.recorder.clone()
    }

    /// Ends when the last hit is stored.
    ///
    /// # Errors
    /// When it is not.
    pub async fn finish(self) -> Result<(), Failure> {
        drop(self.stop);
        Ok(self.upkeep.await??)
    }
}

/// Listens on a free port of the loopback address, and says so.
///
/// # Errors
/// When there is none.
pub async fn listen() -> Result<TcpListener, Failure> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    say_address(listener.local_addr()?)?;
    Ok(listener)
}

/// Says where a server listens.
///
/// # Errors
/// When nobody reads the output.
pub fn say_address(address: SocketAddr) -> Result<(), Failure> {
    say(&format!("listening on {address}"))
}

/// Says a line, at once.
///
/// # Errors
/// When nobody reads the output.
pub fn say(line: &str) -> Result<(), Failure> {
    let mut output = stdout().lock();
    writeln!(output, "{line}")?;
    Ok(output.flush()?)
}

/// Waits for a SIGTERM.
///
/// # Panics
/// Outside of a Tokio runtime with signals.
pub async fn terminated() {
    signal(SignalKind::terminate()).expect("a runtime with signals").recv().await;
}
