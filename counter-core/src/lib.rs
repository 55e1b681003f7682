//! Exact access counters in time buckets, in Redis or in the process.
//!
//! A web service wants to know how often each page was visited, in every second, minute and day, and
//! by how many different people, over all its instances. Incrementing a key in Redis for every request
//! makes each request wait for the network, and a retried increment counts twice.
//!
//! Here a request only adds to a number in memory. [`Recorder`] folds hits by counter and second, a
//! [`Flusher`] sends them once a second as a [`Batch`](visits::Batch) that carries a fence, and the store applies a
//! batch exactly once however often it has to be sent. [`Stats`] reads series and unique visitors
//! back, and a [`Cleaner`] removes what has left retention. [`Counters`] puts the four together:
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
//! What has no time is counted by [unique counters](guide::unique): how many different things there were,
//! exactly or by a HyperLogLog, and whether one of them is new.
//!
//! Where a count decides something, such as a limit or a quota, [`WindowCounters`](window::WindowCounters) count in the store itself and
//! answer what they count then.
//!
//! # What is promised
//!
//! - A hit that was recorded is in exactly one batch, and a batch is applied exactly once: through lost
//!   replies, cut connections, restarts of Redis and cancelled futures.
//! - [`Ledger`] says at every moment where every hit is: applied, pending, expired or dropped.
//! - Memory is bounded whatever happens: counters by [`Builder::max_counters`], what waits for the
//!   store by the retention of the precisions.
//! - Nothing spawns, nothing is global: [`Counters::run`] is a future for the user to poll.
//!
//! # Features
//!
//! - `redis` (default): [`RedisStore`], on the client `fred`, which is re-exported.
//! - `rustls`, `native-tls`: `rediss://` addresses; `unix-sockets`: `redis+unix://`; `sentinel-auth` and
//!   `credential-provider`: those of `fred`.
//! - `forecast`: `Stats::forecast`, what is to be expected, with its band and its backtest.
//! - `sqlite`, `mariadb`, `postgres`: `Entities`, the counts of posts, users and the like, in a database with a
//!   cache; `entity` is the same without a database. The guide says when to choose it.
//! - `metrics`: what [`Ledger`] and [`Health`] say, through the `metrics` facade at every flush:
//!
//!   | metric | labels | what |
//!   |---|---|---|
//!   | `access_counter_requests_total` | `decision` | requests by what was decided about them; the sum is `observed` |
//!   | `access_counter_hits_total` | `state` | hits by what became of them; the sum and the pending ones are `recorded` |
//!   | `access_counter_bot_requests_total` | | those recorded that programs made |
//!   | `access_counter_unconfirmed_requests_total` | | those whose response did not wait any longer |
//!   | `access_counter_overflow_hits_total` | | hits that went to `(other)` |
//!   | `access_counter_lost_by_server_hits_total` | | applied hits that the store lost |
//!   | `access_counter_pending_hits` | | hits not acknowledged yet |
//!   | `access_counter_pending_cells` | | counts and sketches in memory that wait |
//!   | `access_counter_retained_bytes` | | acknowledged batches kept for a replay |
//!   | `access_counter_unacknowledged_seconds` | | time since the last acknowledgement |
//!   | `access_counter_failing_seconds` | | how long no flush has succeeded; 0 when all is well |
//!   | `access_counter_stalled_seconds` | | how long nobody has begun to send what waits; 0 when somebody does |
//!   | `access_counter_clock_skew_seconds` | | by how much this clock is ahead of the store's; 0 where that is not known |
//!   | `access_counter_connections_total` | | connections made to servers |
//!
//! The same feature tells of what asks the store at once, which belongs to no [`Counters`], and so not to the
//! page `/metrics` of their admin router:
//!
//! | metric | labels | what |
//! |---|---|---|
//! | `access_counter_operations_total` | `operation`, `outcome` | operations of [unique counters](unique::UniqueCounter), of [windows](window::WindowCounters) and of entities by how they ended |
//! | `access_counter_operation_seconds` | `operation` | how long they took, trying again included |

mod unwind;
mod future;
mod later;
mod backoff;
mod name;
mod writer;
pub mod time;
pub mod visitor;
pub mod sketch;
mod shard;
mod error;
#[cfg(any(feature = "entity", feature = "unique", feature = "window"))]
mod operations;
#[cfg(feature = "redis")]
#[cfg_attr(
    not(all(feature = "entity", feature = "own-client", feature = "unique", feature = "window")),
    allow(dead_code, unused_imports, reason = "each family needs another part of it")
)]
mod redis;

pub mod visits;
#[cfg(feature = "unique")]
pub mod unique;
#[cfg(feature = "window")]
pub mod window;
#[cfg(feature = "entity")]
pub mod entity;
#[cfg(feature = "forecast")]
pub mod forecast;

pub mod stores;
pub mod guide;

pub use error::{Error, ErrorKind};
pub use name::CounterName;
#[cfg(feature = "redis")]
#[doc(inline)]
pub use stores::RedisStore;
#[doc(inline)]
pub use stores::{AnyStore, MemoryStore};
#[doc(inline)]
pub use time::{Precision, Precisions, Sample, Timestamp};
#[doc(inline)]
pub use visitor::{Secret, VisitorId};
#[doc(inline)]
pub use visits::{
    BuildError, Builder, Cleaner, Counter, Counters, Flusher, Health, Ledger, Recorder, Series, Stats, Store,
};
