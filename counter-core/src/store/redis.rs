mod keys;
mod link;
mod connection;
mod cluster;
mod route;
mod transaction;
mod script;
mod refusal;
mod apply;
mod clean;
mod forget;
mod plain;
mod junk;
mod read;
mod salt;
mod skew;
mod writers;
mod retry;
mod unique;
mod window;
#[cfg(feature = "entity")]
mod entity;
mod probe;
mod builder;

use std::ops::Range;
use std::sync::Arc;

use tokio::time::Instant;

pub use builder::{ConnectError, RedisBuilder};
pub use keys::{Namespace, NamespaceError};
pub use probe::RedisServer;

use keys::Keys;
use probe::Probed;
use refusal::Refusal;
use route::Route;
use script::Script;
use skew::Skew;

use super::{Cleaned, KnownReading, Reading, Sample, Store, Unreadable, Witness};
use crate::batch::{Batch, Verdict, WriterId};
use crate::grid::SAMPLES;
use crate::{Bucket, CounterName, Error, Grid, Precision, Precisions, Shard, Shards, Sketch, Timestamp};

/// Counters in a Redis server, version 6.2 or later, or in a Valkey server.
///
/// The layout is that of *Redis in Action*, section 5.2.1: a sorted set `known:` of members like
/// `60:hits`, and a hash `count:60:hits` from bucket start to count, after the prefix of the
/// [`Namespace`]. With an empty one, any program of that layout reads and cleans what this one writes,
/// and the other way round.
///
/// A batch is applied by a script that first writes the fence of its writer, so it counts once however
/// often it is sent. Where scripts are refused, a transaction that watches the fence does the same. What
/// the server's own persistence loses when it is killed is lost; what it loses of batches it acknowledged
/// less than a minute before, the [`Flusher`](crate::Flusher) sends again. What the server evicts is lost:
/// use the policy `noeviction`. The [guide](crate::guide::redis) says more.
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
    route: Route,
    shards: Shards,
    /// By shard.
    keys: Box<[Keys]>,
    apply: Script,
    clean: Script,
    adopt: Script,
    include: Script,
    windows: window::Scripts,
    #[cfg(feature = "entity")]
    entity: entity::Scripts,
    skew: Skew,
    refusal: Refusal,
    probed: Probed,
    told: junk::Told,
}

impl RedisStore {
    /// Connects to an address: see [`RedisBuilder`] for those there are, and
    /// [`connect`](RedisBuilder::connect) for what happens when nobody is there.
    ///
    /// # Errors
    /// When the address is not one that `fred` understands.
    ///
    /// # Panics
    /// Outside of a Tokio runtime.
    pub async fn connect(url: &str, namespace: Namespace) -> Result<Self, ConnectError> {
        Self::builder().namespace(namespace).connect(url).await
    }

    /// Settings that can be connected as they are.
    pub fn builder() -> RedisBuilder {
        RedisBuilder::default()
    }

    fn new(route: Route, namespace: &Namespace, shards: Option<Shards>) -> Self {
        let keys = match shards {
            None => [Keys::whole(namespace)].into(),
            Some(shards) => shards.iter().map(|shard| Keys::of(namespace, shard)).collect(),
        };
        Self(Arc::new(Shared {
            route,
            shards: shards.unwrap_or(Shards::ONE),
            keys,
            apply: Script::new(include_str!("redis/apply.lua")),
            clean: Script::new(include_str!("redis/clean.lua")),
            adopt: Script::new(include_str!("redis/adopt.lua")),
            include: Script::new(include_str!("redis/include.lua")),
            windows: window::Scripts::new(),
            #[cfg(feature = "entity")]
            entity: entity::Scripts::new(),
            skew: Skew::default(),
            refusal: Refusal::default(),
            probed: Probed::default(),
            told: junk::Told::default(),
        }))
    }

    async fn wait(&self) {
        self.0.route.wait().await;
        probe::at_start(&self.0).await;
    }
}

impl Shared {
    /// Whether a call was refused because it is a script.
    fn refused_a_script<T>(&self, answer: &Result<T, Error>) -> bool {
        self.refusal.learn(answer, Instant::now())
    }

    fn runs_scripts(&self) -> bool {
        self.refusal.runs_scripts(Instant::now())
    }

    /// Whether every key says its shard.
    fn is_tagged(&self) -> bool {
        self.keys[0].known.starts_with('{')
    }

    fn keys(&self, shard: Shard) -> &Keys {
        &self.keys[shard.index()]
    }
}

impl Store for RedisStore {
    fn shards(&self) -> Shards {
        self.0.shards
    }

    fn connections(&self) -> u64 {
        self.0.route.connections()
    }

    async fn apply(&self, batch: &Batch) -> Result<Verdict, Error> {
        if self.0.runs_scripts() {
            let answer = apply::apply(&self.0, batch).await;
            if !self.0.refused_a_script(&answer) {
                return answer;
            }
        }
        plain::apply(&self.0, batch).await
    }

    async fn witness(&self, shard: Shard, writer: WriterId) -> Result<Option<Witness>, Error> {
        writers::witness(&self.0, shard, writer).await.map(Some)
    }

    fn clock_skew(&self) -> Option<i64> {
        self.0.skew.seconds()
    }

    async fn clean(&self, shard: Shard, now: Timestamp, kept: &Precisions) -> Result<Cleaned, Error> {
        if shard == Shard::default() {
            probe::now_and_then(&self.0).await;
        }
        if self.0.runs_scripts() {
            let answer = clean::clean(&self.0, shard, now, kept).await;
            if !self.0.refused_a_script(&answer) {
                return answer;
            }
        }
        plain::clean(&self.0, shard, now, kept).await
    }

    async fn adopt(
        &self,
        shard: Shard,
        cursor: Option<String>,
        kept: &Precisions,
    ) -> Result<Option<String>, Error> {
        if cursor.is_none() {
            writers::forget_silent(&self.0, shard).await?;
        }
        if self.0.runs_scripts() {
            let answer = clean::adopt(&self.0, shard, cursor, kept).await;
            if !self.0.refused_a_script(&answer) {
                return answer;
            }
        }
        Ok(None)
    }

    async fn samples(
        &self,
        counters: &[CounterName],
        precision: Precision,
        range: Range<Timestamp>,
    ) -> Result<Vec<Vec<Sample>>, Error> {
        let kept = SAMPLES.get();
        let readings = read::samples(&self.0, counters, precision, range, kept).await?;
        let sure = |reading: Reading| match reading.unreadable {
            Some(unreadable) if !unreadable.buckets.is_empty() => Err(unreadable),
            _ => Ok(reading.samples),
        };
        readings.into_iter().map(|reading| Ok(reading.and_then(sure)?)).collect()
    }

    async fn read_samples(
        &self,
        counters: &[CounterName],
        precision: Precision,
        range: Range<Timestamp>,
        kept: u32,
    ) -> Result<Vec<Result<Reading, Unreadable>>, Error> {
        read::samples(&self.0, counters, precision, range, kept).await
    }

    async fn lifetimes(&self, counters: &[CounterName]) -> Result<Vec<u64>, Error> {
        all(read::lifetimes(&self.0, counters).await?)
    }

    async fn read_lifetimes(&self, counters: &[CounterName]) -> Result<Vec<Result<u64, Unreadable>>, Error> {
        read::lifetimes(&self.0, counters).await
    }

    async fn forget(&self, counter: &CounterName, grid: &Grid, now: Timestamp) -> Result<(), Error> {
        forget::forget(&self.0, counter, grid, now).await
    }

    async fn visitors(&self, counters: &[CounterName], buckets: &[Bucket]) -> Result<Sketch, Error> {
        read::visitors(&self.0, counters, buckets).await
    }

    async fn visitor_counts(&self, counters: &[CounterName], buckets: &[Bucket]) -> Result<Vec<u64>, Error> {
        all(read::visitor_counts(&self.0, counters, buckets).await?)
    }

    async fn read_visitor_counts(
        &self,
        counters: &[CounterName],
        buckets: &[Bucket],
    ) -> Result<Vec<Result<u64, Unreadable>>, Error> {
        read::visitor_counts(&self.0, counters, buckets).await
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
        let mut known = read::known(&self.0, precisions, from, limit).await?;
        match known.unreadable.pop() {
            Some(unreadable) if known.counters.is_empty() => Err(unreadable.into()),
            _ => Ok(known.counters),
        }
    }

    async fn read_known(
        &self,
        precisions: &[Precision],
        from: &str,
        limit: usize,
    ) -> Result<KnownReading, Error> {
        read::known(&self.0, precisions, from, limit).await
    }
}

/// All of them, or why one cannot be read.
fn all(read: Vec<Result<u64, Unreadable>>) -> Result<Vec<u64>, Error> {
    read.into_iter().map(|value| Ok(value?)).collect()
}
