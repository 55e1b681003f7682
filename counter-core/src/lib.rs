//! Exact access counters in time buckets, in Redis or in the process.
//!
//! A web service wants to know how often each page was visited, in every second, minute and day, and by how
//! many different visitors, over all its instances. Incrementing a key in Redis for every request makes each
//! request wait for the network, and a retried increment counts twice.
//!
//! With this crate, a request only adds to a number in memory. A [`Recorder`] folds hits by counter and
//! second, and a [`Flusher`] sends them once a second as a [`Batch`](visits::Batch) that carries a fence, so
//! that the store applies each batch exactly once, however often it is sent. [`Stats`] reads series and
//! unique visitors back, and a [`Cleaner`] removes what has left retention. [`Counters`] puts the four
//! together:
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
//! To run it on a server, replace the [`MemoryStore`] by a [`RedisStore`], and [spawn](Counters::spawn) the
//! counters beside the web server. `counter-layer` is the Tower layer that records the requests of a web service.
//!
//! # Which counter
//!
//! Visits are counted in memory and read back later. Three other families of counters ask the store on every
//! call, and return its answer:
//!
//! - [unique counters](guide::unique) count different items, exactly or by a HyperLogLog, and tell whether an
//!   item is new;
//! - [window counters](guide::window) count for limits and quotas, where the count decides something;
//! - [entity counters](guide::entity) count the likes, followers or views of any number of posts, in a
//!   database with a cache.
//!
//! The [guides](guide) say which to choose, and how to run them on Redis.
//!
//! # What is promised
//!
//! - A recorded hit is in exactly one batch, and a batch is applied exactly once: through lost replies,
//!   broken connections, restarts of Redis and cancelled futures.
//! - The [`Ledger`] accounts for every hit at every moment: applied, pending, expired or dropped.
//! - Memory is bounded in all circumstances: the number of counters by [`Builder::max_counters`], and what
//!   waits for the store by the retention of the precisions.
//! - Nothing is spawned unless [`Counters::spawn`] asks for it, and nothing is global: [`Counters::run`] is a
//!   future for the application to poll.
//!
//! Hits that a process has not flushed when it is killed are lost: by default those of the last second, and all that
//! wait during an outage of the store. With the feature `spool`, they are those of the last 100 ms, whatever the store
//! does: see [the guide](guide::spool).
//!
//! # Modules
//!
//! | module | contents |
//! |---|---|
//! | [`visits`] | visits of pages by time, and their unique visitors; the main types are re-exported here |
//! | [`source`] | visits from files, topics and other logs that can be read again |
//! | [`dump`] | everything that a store of visits has as lines of JSON, and back into any store |
//! | [`unique`] | counters of different items |
//! | [`window`] | counters of windows, for limits and quotas |
//! | [`entity`](mod@entity) | counts of posts, users and other entities, in a database with a cache |
//! | [`document`] | small contents that are replaced only by who has seen them |
//! | [`note`] | notes about instants, such as deploys, for charts |
//! | [`forecast`] | forecasts of a series, with their bands and backtests, and detectors of what is unusual |
//! | [`alert`] | rules about counters, and alerts that are told once over all instances |
//! | [`stores`] | the stores, and the settings of the one in Redis |
//! | [`time`], [`visitor`], [`sketch`] | precisions and buckets; visitor ids and their keys; HyperLogLog |
//! | [`guide`] | guides: which counter to choose, and how to run it |
//!
//! # Features
//!
//! | feature | adds |
//! |---|---|
//! | `redis` (default) | [`RedisStore`], on the client `fred` |
//! | `unique` | the module [`unique`] |
//! | `window` | the module [`window`] |
//! | `entity` | the module [`entity`](mod@entity), without a database |
//! | `sqlite`, `mariadb`, `postgres` | [`SqlStore`]; `entity`, and a database for it |
//! | `forecast` | the module [`forecast`] |
//! | `note` | the module [`note`] |
//! | `alert` | the module [`alert`] |
//! | `dump` | the module [`dump`]; with `unique`, also [`unique::dump`] |
//! | `spool` | [`Builder::spool`]: what waits for the store is on a disk, too, and survives the process |
//! | `metrics` | metrics through the `metrics` facade: see below |
//! | `rustls`, `native-tls` | `rediss://` addresses |
//! | `unix-sockets` | `redis+unix://` addresses |
//! | `own-client` | [`RedisStore`] on your own `fred` client or configuration |
//! | `sentinel-auth` | passwords for Sentinels, in a configuration of `fred`; includes `own-client` |
//! | `credential-provider` | passwords that `fred` asks for at each connection; includes `own-client` |
//!
//! # Metrics
//!
//! With the feature `metrics`, every flush exports the [`Ledger`] and the [`Health`]:
//!
//! | metric | labels | value |
//! |---|---|---|
//! | `access_counter_requests_total` | `decision` | requests by what was decided about them; the sum is `observed` |
//! | `access_counter_hits_total` | `state` | hits by their state; the sum, plus the pending ones, is `recorded` |
//! | `access_counter_bot_requests_total` | | recorded requests that were made by programs |
//! | `access_counter_unidentified_requests_total` | | recorded requests of people that have no visitor |
//! | `access_counter_unconfirmed_requests_total` | | recorded requests whose response stopped waiting for the store |
//! | `access_counter_overflow_hits_total` | | hits that went to `(other)` |
//! | `access_counter_recovered_hits_total` | | recorded hits of processes that ended, taken over from a [spool](guide::spool) |
//! | `access_counter_lost_by_server_hits_total` | | applied hits that the store lost |
//! | `access_counter_pending_hits` | | hits that are not acknowledged yet |
//! | `access_counter_pending_cells` | | counts and sketches in memory that wait for the store |
//! | `access_counter_retained_bytes` | | acknowledged batches kept for a replay, in bytes |
//! | `access_counter_unacknowledged_seconds` | | time since the last acknowledgement |
//! | `access_counter_failing_seconds` | | time for which no flush has succeeded; 0 when the last one did |
//! | `access_counter_stalled_seconds` | | time for which hits have waited and none were sent; 0 while they are sent |
//! | `access_counter_clock_skew_seconds` | | seconds by which this clock is ahead of the store's; 0 where that is not known |
//! | `access_counter_hints` | | signs of a setup that gives wrong numbers, which [`Health::hints`] names |
//! | `access_counter_connections_total` | | connections made to servers |
//! | `access_counter_spool_unwritten_hits` | | with a spool: hits that neither it nor the store has |
//! | `access_counter_spool_bytes` | | with a spool: size of its file, in bytes |
//! | `access_counter_spool_leftovers` | | with a spool: files of ended processes that are still to be sent |
//! | `access_counter_spool_failing_seconds` | | with a spool: time for which it could not be written; 0 when the last write succeeded |
//!
//! Operations that ask the store on every call are exported as well. They belong to no [`Counters`], so the
//! page `/metrics` of an admin router does not show them:
//!
//! | metric | labels | value |
//! |---|---|---|
//! | `access_counter_operations_total` | `operation`, `outcome` | operations of [unique counters](unique::UniqueCounter), [window counters](window::WindowCounters) and entities, by outcome |
//! | `access_counter_operation_seconds` | `operation` | their duration, including retries |

#![cfg_attr(
    all(feature = "sql", not(any(feature = "mariadb", feature = "postgres", feature = "sqlite"))),
    allow(dead_code, unused_imports, unused_macros, reason = "only the driver of a database uses it")
)]

mod log;
pub mod time;
pub mod sketch;
pub mod visitor;
mod error;
mod family;
#[cfg(feature = "redis")]
#[cfg_attr(
    not(all(feature = "entity", feature = "own-client", feature = "unique", feature = "window")),
    allow(dead_code, unused_imports, reason = "each family needs another part of it")
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
#[cfg(feature = "note")]
pub mod note;
#[cfg(feature = "forecast")]
pub mod forecast;
#[cfg(feature = "alert")]
pub mod alert;
pub mod stores;
pub mod guide;

/// What the other packages of the workspace use, which pin the exact version. It is not part of the API.
#[doc(hidden)]
pub mod internal {
    pub use crate::document::change::change_document;
    pub use crate::log::debug::{debug_in_full, in_full};
}

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
pub use visits::source;
#[doc(inline)]
pub use visits::{
    BuildError, Builder, Cleaner, Counter, Counters, Flusher, Health, Ledger, Recorder, Series, Stats, Store,
    Upkeep,
};
