mod apply;
mod clean;
mod connection;
mod keys;
mod read;
mod salt;
mod script;

use std::ops::Range;
use std::sync::Arc;

pub use connection::ConnectError;
pub use keys::{Namespace, NamespaceError};

use connection::Connection;
use fred::clients::Client;
use keys::Keys;
use script::Script;

use super::{Cleaned, Sample, Store};
use crate::batch::{Batch, Verdict};
use crate::{Bucket, CounterName, Error, Precision, Precisions, Sketch, Timestamp};

/// Counters in a Redis server, version 6.2 or later, or in a Valkey server.
///
/// The layout is that of *Redis in Action*, section 5.2.1: a sorted set `known:` of members like
/// `60:hits`, and a hash `count:60:hits` from bucket start to count, after the prefix of the
/// [`Namespace`]. With an empty one, any program of that layout reads and cleans what this one writes,
/// and the other way round.
///
/// A batch is applied by a script that first writes the fence of its writer, so it counts once however
/// often it is sent. What the server's own persistence loses when it is killed is lost; what it loses
/// of batches it acknowledged less than a minute before, the [`Flusher`](crate::Flusher) sends again.
/// Eviction must not take the fences: use the policy `noeviction` or `volatile-ttl`.
///
/// ```no_run
/// use counter_core::{Counters, Namespace, RedisStore};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let store = RedisStore::connect("redis://127.0.0.1:6379", Namespace::default()).await?;
/// let counters = Counters::builder(store).build()?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct RedisStore(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    connection: Connection,
    keys: Keys,
    apply: Script,
    clean: Script,
    adopt: Script,
    salt: Script,
}

impl RedisStore {
    /// Connects to the server of a `redis://` address. When it is not there after a second, this returns
    /// all the same: then, and whenever it is away later, calls fail and connecting goes on.
    ///
    /// The connection is a task of the client `fred`, which ends with the last handle on this store.
    ///
    /// # Errors
    /// When the address is not one that `fred` understands.
    ///
    /// # Panics
    /// Outside of a Tokio runtime.
    pub async fn connect(url: &str, namespace: Namespace) -> Result<Self, ConnectError> {
        Ok(Self::new(Connection::open(url).await?, namespace))
    }

    /// Uses a client of the user's own, which is or will be connected.
    ///
    /// Retries in the client are harmless, since batches are fenced; in a cluster,
    /// `ConnectionConfig::max_redirections` must be 0, for fred 10.1 does not survive a redirection by
    /// `ASK`.
    #[must_use]
    pub fn with_client(client: Client, namespace: Namespace) -> Self {
        Self::new(Connection::of(client), namespace)
    }

    fn new(connection: Connection, namespace: Namespace) -> Self {
        Self(Arc::new(Shared {
            connection,
            keys: Keys::new(namespace),
            apply: Script::new(include_str!("redis/apply.lua")),
            clean: Script::new(include_str!("redis/clean.lua")),
            adopt: Script::new(include_str!("redis/adopt.lua")),
            salt: Script::new(include_str!("redis/salt.lua")),
        }))
    }
}

impl Store for RedisStore {
    async fn apply(&self, batch: &Batch) -> Result<Verdict, Error> {
        apply::apply(&self.0, batch).await
    }

    async fn clean(&self, now: Timestamp, kept: &Precisions) -> Result<Cleaned, Error> {
        clean::clean(&self.0, now, kept).await
    }

    async fn adopt(&self, cursor: Option<String>, kept: &Precisions) -> Result<Option<String>, Error> {
        clean::adopt(&self.0, cursor, kept).await
    }

    async fn samples(
        &self,
        counter: &CounterName,
        precision: Precision,
        range: Range<Timestamp>,
    ) -> Result<Vec<Sample>, Error> {
        read::samples(&self.0, counter, precision, range).await
    }

    async fn visitors(&self, counters: &[CounterName], buckets: &[Bucket]) -> Result<Sketch, Error> {
        read::visitors(&self.0, counters, buckets).await
    }

    async fn salt(&self, epoch: Bucket, candidate: [u8; 16], expiry: Timestamp) -> Result<[u8; 16], Error> {
        salt::salt(&self.0, epoch, candidate, expiry).await
    }

    async fn known(
        &self,
        precisions: &[Precision],
        from: &str,
        limit: usize,
    ) -> Result<Vec<(CounterName, Precision)>, Error> {
        read::known(&self.0, precisions, from, limit).await
    }
}
