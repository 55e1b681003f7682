//! Exact access counters in time buckets, in Redis or in the process.
//!
//! For a web service, you might want to see how often a page was visited in a given second, minute or day,
//! and by how many different visitors, even if the service runs on many instances. If you increment a key in
//! Redis during the request, the request has to wait for the network, and a retried increment might count the
//! request a second time.
//!
//! With this crate, a request just adds to a number in memory. A [`Recorder`] folds the hits by counter and
//! second, and a [`Flusher`] sends them to the store, once a second, as a [`Batch`](visits::Batch). The batch
//! carries a fence, so the store will apply this batch exactly once, even if it is sent more than once. Use
//! [`Stats`] to read series and unique visitors, and a [`Cleaner`] to remove samples that have left
//! retention. [`Counters`] combines all of this:
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
//! let (name, day) = ("/articles/{id}".parse()?, Precision::try_from(86_400)?);
//! let range = Timestamp::now().minus(86_400)..Timestamp::now().plus(1);
//! assert_eq!(stats.total(&name, day, range).await?, 1000);
//! # Ok(())
//! # }
//! ```
//!
//! To run this on a server, use a [`RedisStore`] instead of the [`MemoryStore`], and [spawn](Counters::spawn)
//! the counters next to the web server. The package `counter-layer` provides a Tower layer that records the
//! requests of a web service. For alerts, reports, forecasts and notes, see `counter-alert`.
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
//! | `dump` | the module [`dump`]; with `unique`, also [`unique::dump`] |
//! | `spool` | [`Builder::spool`]: pending hits are also written to disk, so that they survive the process |
//! | `metrics` | metrics via the `metrics` facade: see below |
//! | `rustls`, `native-tls` | `rediss://` addresses |
//! | `unix-sockets` | `redis+unix://` addresses |
//! | `own-client` | [`RedisStore`] on your own `fred` client or configuration |
//! | `sentinel-auth` | passwords for Sentinels, in a `fred` configuration; includes `own-client` |
//! | `credential-provider` | passwords that `fred` requests for each connection; includes `own-client` |
//!
//! # Metrics
//!
//! With the feature `metrics`, the [`Ledger`] and the [`Health`] are exported by every flush:
//!
//! | metric | labels | value |
//! |---|---|---|
//! | `access_counter_requests_total` | `decision` | requests by decision; the sum is `observed` |
//! | `access_counter_hits_total` | `state` | hits by state; the sum, plus the pending hits, is `recorded` |
//! | `access_counter_bot_requests_total` | | recorded requests from bots |
//! | `access_counter_unidentified_requests_total` | | recorded requests from people, without a visitor |
//! | `access_counter_unconfirmed_requests_total` | | recorded requests whose response stopped waiting for the store |
//! | `access_counter_overflow_hits_total` | | hits counted under `(other)` |
//! | `access_counter_recovered_hits_total` | | recorded hits of ended processes, recovered from a [spool](guide::spool) |
//! | `access_counter_lost_by_server_hits_total` | | applied hits that the store lost |
//! | `access_counter_pending_hits` | | hits that are not acknowledged yet |
//! | `access_counter_pending_cells` | | counts and sketches in memory that wait for the store |
//! | `access_counter_retained_bytes` | | size of the acknowledged batches retained for a replay |
//! | `access_counter_unacknowledged_seconds` | | time since the last acknowledgement |
//! | `access_counter_failing_seconds` | | time since flushes started to fail; 0 if the last flush succeeded |
//! | `access_counter_stalled_seconds` | | time for which hits have been pending without being sent; 0 while they are sent |
//! | `access_counter_clock_skew_seconds` | | seconds by which the local clock is ahead of the store clock; 0 if unknown |
//! | `access_counter_hints` | | signs of a setup that gives wrong numbers: see [`Health::hints`] |
//! | `access_counter_connections_total` | | connections made to servers |
//! | `access_counter_spool_unwritten_hits` | | with a spool: hits that are neither in the spool nor in the store |
//! | `access_counter_spool_bytes` | | with a spool: file size |
//! | `access_counter_spool_leftovers` | | with a spool: files of ended processes that still have to be sent |
//! | `access_counter_spool_failing_seconds` | | with a spool: time since writes started to fail; 0 if the last write succeeded |
//! | `http_server_active_requests` | | with a [gauge](Recorder::in_flight): requests in flight |
//! | `http_server_active_requests_max` | | with a gauge: maximum in the last minute |
//!
//! Operations that call the store directly are exported too. Since they don't belong to a [`Counters`], they
//! will not be shown on the `/metrics` page of an admin router:
//!
//! | metric | labels | value |
//! |---|---|---|
//! | `access_counter_operations_total` | `operation`, `outcome` | operations of [unique counters](unique::UniqueCounter), [window counters](window::WindowCounters) and entities, by outcome |
//! | `access_counter_operation_seconds` | `operation` | their duration, including retries |

#![cfg_attr(docsrs, feature(doc_cfg))]
#![cfg_attr(
    all(feature = "sql", not(any(feature = "mariadb", feature = "postgres", feature = "sqlite"))),
    allow(dead_code, unused_imports, unused_macros, reason = "only used by database drivers")
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
#[cfg(feature = "sql")]
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
#[doc(hidden)]
pub mod internal;

pub use error::{Error, ErrorKind};
pub use family::name::CounterName;
#[cfg(feature = "redis")]
#[doc(inline)]
pub use stores::RedisStore;
#[cfg(feature = "sql")]
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
