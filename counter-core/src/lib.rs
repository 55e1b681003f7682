//! Exact access counters in time buckets, in Redis or in the process.
//!
//! A request adds to a number in memory. Once a second, the counts are sent to the store as a batch, which is
//! applied exactly once, even if it has to be sent again:
//!
//! ```
//! use counter_core::{Counters, MemoryStore, Precision, Timestamp};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut counters = Counters::builder(MemoryStore::new()).build()?;
//! let (recorder, stats) = (counters.recorder(), counters.stats());
//!
//! let articles = recorder.counter("/articles/{id}");
//! for _ in 0..1000 {
//!     recorder.record(articles, None);
//! }
//! counters.flush().await?; // `run` does this once a second
//!
//! let (name, day) = ("/articles/{id}".parse()?, Precision::DAY);
//! let range = Timestamp::now().minus(86_400)..Timestamp::now().plus(1);
//! assert_eq!(stats.total(&name, day, range).await?, 1000);
//! # Ok(())
//! # }
//! ```
//!
//! To run this on a server, use a [`RedisStore`] instead of the [`MemoryStore`], and [spawn](Counters::spawn)
//! the counters next to the web server. The package `counter-layer` provides a Tower layer that records the
//! requests of a web service, `counter-admin` a dashboard and an API, and `counter-alert` alerts and reports.
//!
//! # How it works
//!
//! If you increment a key in Redis during the request, the request has to wait for the network, and a retried
//! increment might count the request a second time. Instead, a [`Recorder`] folds the hits by counter and
//! second, and a [`Flusher`] sends them to the store as a [`Batch`](visits::store::Batch). This carries a fence, from
//! which the store can tell whether it has already applied the batch. Use [`Stats`] to read series and unique
//! visitors, and a [`Cleaner`] to remove samples that have left retention. [`Counters`] combines all of this.
//!
//! # Which counter
//!
//! Visits are counted in memory and can be read later. The other counter families call the store for every
//! operation and return the reply:
//!
//! - [unique counters](guide::unique) count distinct items, either exactly or with a HyperLogLog, and return
//!   whether an item is new;
//! - [window counters](guide::window) count for limits and quotas, i.e. if the count is needed to make a
//!   decision;
//! - [entity counters](guide::entity) count e.g. the likes, followers or views of posts, in a database with a
//!   cache.
//!
//! The [guides](guide) will help you to choose, and explain how to run the counters on Redis.
//!
//! # Guarantees
//!
//! - A recorded hit is part of exactly one batch, and this batch is applied exactly once, even if replies are
//!   lost, connections break, Redis restarts or futures are cancelled.
//! - The [`Ledger`] always accounts for all hits: applied, pending, expired or dropped.
//! - Memory is always bounded: the number of counters by [`Builder::max_counters`], and the hits that wait
//!   for the store by the retention of the precisions.
//! - The crate does not use global state, and only spawns a task if you call [`Counters::spawn`]. If you
//!   would rather poll a future in your application, use [`Counters::run`] instead.
//!
//! If the process is killed, hits that have not been flushed will be lost. By default, these are the hits of
//! about a second, or, during an outage of the store, all pending hits. With the feature `spool`, only the
//! hits of about 100 ms can be lost, even during an outage: see [the guide](guide::spool).
//!
//! # Modules
//!
//! | module | contents |
//! |---|---|
//! | [`visits`] | page visits over time, with unique visitors; the main types are re-exported here |
//! | [`archive`] | a second store that keeps hours and days for years |
//! | [`fleet`] | the stores of several sites or regions, read as one |
//! | [`source`] | visits from files, topics and other logs that can be read again |
//! | [`dump`] | exports all visits of a store as lines of JSON, to be restored into any store |
//! | [`unique`] | counters of distinct items |
//! | [`window`] | counters per time window, for limits and quotas |
//! | [`entity`](mod@entity) | counts of posts, users and other entities, in a database with a cache |
//! | [`document`] | small documents, replaced by compare-and-swap |
//! | [`stores`] | the stores, and the settings of the Redis store |
//! | [`time`], [`visitor`], [`sketch`] | precisions and buckets; visitor ids and keys; HyperLogLog |
//! | [`guide`] | guides: which counter to choose, and how to run it |
//!
//! # Features
//!
//! | feature | adds |
//! |---|---|
//! | `redis` (default) | [`RedisStore`], based on the client `fred` |
//! | `unique` | the module [`unique`] |
//! | `window` | the module [`window`] |
//! | `entity` | the module [`entity`](mod@entity), without a database |
//! | `sqlite`, `mariadb`, `postgres` | [`SqlStore`], `entity`, and a database for entities |
//! | `archive` | the module [`archive`] |
//! | `dump` | the module [`dump`]; with `unique`, also [`unique::dump`] |
//! | `spool` | [`Builder::spool`]: pending hits are also written to disk, so that they survive the process |
//! | `metrics` | [metrics](guide::metrics) via the `metrics` facade |
//! | `rustls`, `rustls-aws-lc-rs` | `rediss://` addresses, with TLS by rustls, on ring or on aws-lc-rs: [which one](guide::redis#tls) |
//! | `native-tls` | `rediss://` addresses, with TLS by the system library |
//! | `own-client` | [`RedisStore`] on your own `fred` client or configuration, in the module [`unstable`] |

#![cfg_attr(docsrs, feature(doc_cfg))]
#![cfg_attr(
    all(feature = "_sql", not(any(feature = "mariadb", feature = "postgres", feature = "sqlite"))),
    allow(
        dead_code,
        unreachable_code,
        unused_imports,
        unused_macros,
        unused_variables,
        reason = "only used by database drivers"
    )
)]

mod sync;
mod log;
pub mod time;
pub mod sketch;
pub mod visitor;
mod error;
mod family;
#[cfg(feature = "redis")]
#[cfg_attr(
    not(all(feature = "entity", feature = "own-client", feature = "unique", feature = "window")),
    allow(dead_code, unused_imports, reason = "the families use different parts of it")
)]
mod redis;
#[cfg(feature = "_sql")]
mod sql;

pub mod document;
pub mod visits;
#[cfg(feature = "unique")]
pub mod unique;
#[cfg(feature = "window")]
pub mod window;
#[cfg(feature = "entity")]
pub mod entity;
pub mod stores;
pub mod guide;
pub mod unstable;
#[doc(hidden)]
pub mod internal;

pub use error::{Error, ErrorKind};
pub use family::name::CounterName;
#[cfg(feature = "redis")]
#[doc(inline)]
pub use stores::RedisStore;
#[cfg(feature = "_sql")]
#[doc(inline)]
pub use stores::SqlStore;
#[doc(inline)]
pub use stores::{AnyStore, MemoryStore};
#[doc(inline)]
pub use time::{Precision, Precisions, Sample, Timestamp};
#[doc(inline)]
pub use visitor::{Secret, VisitorId};
#[cfg(feature = "archive")]
#[doc(inline)]
pub use visits::archive;
#[cfg(feature = "dump")]
#[doc(inline)]
pub use visits::dump;
#[doc(inline)]
pub use visits::fleet;
#[doc(inline)]
pub use visits::source;
#[doc(inline)]
pub use visits::{
    BuildError, Builder, Cleaner, Counter, Counters, Flusher, Health, Ledger, Recorder, Series, Stats, Store,
    Upkeep,
};
