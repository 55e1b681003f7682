mod builder;
#[cfg(feature = "own-client")]
mod own_client;

use std::sync::Arc;

pub use builder::{ConnectError, RedisBuilder};

use crate::error::Error;
use crate::redis::{Client, Namespace, RedisServer};

/// A store in a Redis server, version 6.2 or later, or in a Valkey server.
///
/// The layout is that of *Redis in Action*, section 5.2.1: a sorted set `known:` of members like `60:hits`,
/// and a hash `count:60:hits` from bucket start to count, after the prefix of the [`Namespace`]. With an
/// empty namespace, other programs with that layout can read and clean what this one writes, and the other
/// way round.
///
/// A batch is applied by a script that first writes the fence of its writer, so it counts once however often
/// it is sent. Where scripts are refused, a transaction that watches the fence does the same. What the
/// server's own persistence loses in a crash is lost, except for batches that it acknowledged less than a
/// minute before: the [`Flusher`](crate::Flusher) sends these again. What the server evicts is lost: use the
/// policy `noeviction`. The [guide](crate::guide::redis) says more.
///
/// ```no_run
/// use counter_core::stores::Namespace;
/// use counter_core::{Counters, RedisStore};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let store = RedisStore::connect("redis://127.0.0.1:6379", Namespace::default()).await?;
/// let counters = Counters::builder(store).build()?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct RedisStore(Arc<Families>);

families!(parts!(RedisStore: redis, new(Arc::clone(&client)), client: Arc<Client>));

impl RedisStore {
    /// Connects to an address: see [`RedisBuilder`] for the kinds of addresses, and
    /// [`connect`](RedisBuilder::connect) for what happens while the server is away.
    ///
    /// # Errors
    /// Fails when the address is not one that `fred` understands.
    ///
    /// # Panics
    /// Panics outside of a Tokio runtime.
    pub async fn connect(url: &str, namespace: Namespace) -> Result<Self, ConnectError> {
        Self::builder().namespace(namespace).connect(url).await
    }

    /// Returns a builder with the default settings.
    pub fn builder() -> RedisBuilder {
        RedisBuilder::default()
    }

    /// Queries the version and the capabilities of the server; in a cluster, of the node with the first shard.
    ///
    /// # Errors
    /// Fails when it does not answer.
    pub async fn server(&self) -> Result<RedisServer, Error> {
        self.0.client.probe().await
    }

    fn new(client: Client) -> Self {
        Self(Arc::new(Families::new(Arc::new(client))))
    }
}
