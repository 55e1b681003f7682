//! Distributions of response times, response sizes and statuses.
//!
//! A mean hides what matters most, e.g. that a request in a hundred takes four seconds. With distributions, a
//! counter also records how often a time, size or status occurs, per minute, hour and day. They are sent in
//! the same batch as the counts, under the same fence, so they have the same guarantees and are included in
//! the spool. Distributions are disabled by default, in which case nothing is allocated or sent for them:
//!
//! ```
//! use std::time::Duration;
//! use counter_core::visits::{Agent, Bin, Distribution, Measure, PageHit};
//! use counter_core::{Counters, MemoryStore, Precision, Timestamp};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let builder = Counters::builder(MemoryStore::new()).distributions(Distribution::precisions());
//! let mut counters = builder.build()?;
//! let (recorder, stats) = (counters.recorder(), counters.stats());
//!
//! for ms in [20, 21, 22, 4000] {
//!     let (hit, bins) = (recorder.counter("/").hit(), [Bin::time(Duration::from_millis(ms))]);
//!     recorder.page_hit(PageHit { bins: &bins, ..PageHit::new(hit, Agent::Human) });
//! }
//! counters.flush().await?;
//!
//! let (hour, range) = (Precision::HOUR, Timestamp::now().minus(7200)..Timestamp::now().plus(1));
//! let times = stats.distribution(&["/".parse()?], hour, range, Measure::Time).await?.merged();
//! assert!((times.quantile(0.5).unwrap() / 0.021 - 1.0).abs() <= Measure::RELATIVE_ERROR);
//! assert!((times.quantile(0.99).unwrap() / 4.0 - 1.0).abs() <= Measure::RELATIVE_ERROR);
//! # Ok(())
//! # }
//! ```
//!
//! To measure requests, use `AccessCounterLayer::distributions` from `counter-layer`. The admin router then
//! returns percentiles and statuses.
//!
//! # Bins
//!
//! A distribution consists of [bins](crate::visits::Bin) with counts. For times and sizes, a bin is a range
//! that is 2^(1/8) times as wide as the range below, i.e. 9 % wider. These are the buckets used by the
//! exponential histograms of OpenTelemetry at scale 3, and by the native histograms of Prometheus with schema
//! 3. The rank of a quantile is exact, and the value of its bin differs from the true value by at most
//! 4.33 %. To [merge](crate::visits::Distribution::merge) the distributions of different counters, buckets or
//! instances, the bins are just added up, without an additional error. For example, the median of a day is
//! never computed from the medians of its hours.
//!
//! For statuses, a bin is a single number, which is counted exactly.
//!
//! # Cost
//!
//! - A request: about 440 instructions to record the time and the status on two counters, without an
//!   allocation in the steady state.
//! - A flush: an increment for each bin that occurs, per counter and precision. If the times of a page vary
//!   by a factor of 10, this may be up to 27 bins, but most requests within a second will share only a few.
//!   For a thousand routes with 20 requests per second each, Redis needs 68 ms of CPU time per second,
//!   including 8 ms for counts.
//! - Memory in Redis: a hash per counter and bucket, with about 7 bytes for a bin, i.e. half a kilobyte for
//!   70 bins. With [`Distribution::precisions`](crate::visits::Distribution::precisions), a counter that is
//!   always busy has 372 of these hashes, or 176 KB. They have a TTL, so they do not have to be cleaned.
//! - In a SQL database: a row of `access_bins` per bin, which will be removed by the cleaner.
//! - In the process: pending bins are folded like counts. If there are more than a million pending bins (this
//!   needs a long outage and many counters), then fine buckets are discarded first, but coarser buckets will
//!   still be exact.
//!
//! To reduce the cost, use fewer or coarser precisions.
//!
//! # Limitations
//!
//! If a key has an unexpected type, its bins are rejected and this is logged, like for counts. The
//! [`Ledger`](crate::Ledger) does not include bins. If the fence of a hit was lost, the hit is
//! [`in_doubt`](crate::visits::Dropped::in_doubt), and its bins will not be sent either. Most access logs do
//! not contain the time until the response headers.
