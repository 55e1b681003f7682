#[cfg(any(feature = "rustls", feature = "rustls-aws-lc-rs", feature = "native-tls"))]
mod tls;
mod builder;
#[cfg(feature = "own-client")]
pub(crate) mod own_client;

use std::sync::Arc;

pub use builder::{ConnectError, RedisBuilder};

use crate::error::Error;
use crate::redis::{Client, Namespace, RedisServer};

/// A store that uses a Redis server (version 6.2 or later) or a Valkey server.
///
/// The key layout is described in *Redis in Action*, section 5.2.1: a sorted set `known:` with members such
/// as `60:hits`, and hashes such as `count:60:hits` that map bucket starts to counts, with the [`Namespace`]
/// as prefix. If the namespace is empty, this is compatible with other programs that use the same layout.
///
/// Batches are applied by a script, which first writes the fence of the writer, so that a batch is only
/// counted once, no matter how often it is sent. If scripts are rejected, we use a transaction that watches
/// the fence instead. If the server loses data in a crash, batches acknowledged within the last minute will
/// be sent again by the [`Flusher`](crate::Flusher), but older data can't be restored. Evicted data is lost
/// as well, so the server should use the `noeviction` policy. See the [guide](crate::guide::redis) for
/// details.
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
    /// Connects to a server. See [`RedisBuilder`] for the supported addresses, and
    /// [`connect`](RedisBuilder::connect) for the behavior if the server is unavailable.
    ///
    /// # Errors
    /// Returns an error if the address is not valid.
    ///
    /// # Panics
    /// Panics if called from outside of a Tokio runtime.
    pub async fn connect(url: &str, namespace: Namespace) -> Result<Self, ConnectError> {
        Self::builder().namespace(namespace).connect(url).await
    }

    /// Returns a builder with the default settings.
    pub fn builder() -> RedisBuilder {
        RedisBuilder::default()
    }

    /// Queries the server version and capabilities. In a cluster, this queries the node for shard 0. This tries
    /// the commands of a batch on keys that it deletes again, unless it is not permitted to delete keys.
    ///
    /// # Errors
    /// Returns an error if the server does not respond.
    pub async fn server(&self) -> Result<RedisServer, Error> {
        self.0.client.probe().await
    }

    fn new(client: Client) -> Self {
        Self(Arc::new(Families::new(Arc::new(client))))
    }
}
