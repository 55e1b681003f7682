//! Distributions: how long requests took, how large their responses were, and how they ended.
//!
//! A mean hides what matters: one request in a hundred that takes four seconds. With distributions, a counter keeps
//! beside its hits how often which time, size and status occurred, in minutes, hours and days. They are sent in the same
//! batches as the counts and under the same fence, so they count exactly once, expire once, and are in the
//! spool, if there is one. They are off unless they are chosen, and then nothing is allocated or sent for them:
//!
//! ```
//! use std::time::Duration;
//! use counter_core::visits::{Agent, Bin, Distribution, Measure, PageView};
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
//!     recorder.page_view(PageView { bins: &bins, ..PageView::new(hit, Agent::Human) });
//! }
//! counters.flush().await?;
//!
//! let (hour, range) = (Precision::try_from(3600)?, Timestamp::now().minus(7200)..Timestamp::now().plus(1));
//! let times = stats.distribution(&["/".parse()?], hour, range, Measure::Time).await?.merged();
//! assert!((times.quantile(0.5).unwrap() / 0.021 - 1.0).abs() <= Measure::RELATIVE_ERROR);
//! assert!((times.quantile(0.99).unwrap() / 4.0 - 1.0).abs() <= Measure::RELATIVE_ERROR);
//! # Ok(())
//! # }
//! ```
//!
//! `AccessCounterLayer::distributions` of `counter-layer` measures requests, and its admin router answers with
//! percentiles and statuses.
//!
//! # Bins
//!
//! A distribution is a number of [bins](crate::visits::Bin) with counts. Those of times and sizes are ranges, each 2^(1/8) times as far as
//! the one before, 9 %: the buckets of OpenTelemetry's exponential histograms at scale 3, and of Prometheus' native
//! histograms of schema 3. A quantile is that of a bin, and no further from the true one than 4.33 % of it; the rank is
//! exact. Distributions of counters, buckets and instances [merge](crate::visits::Distribution::merge) by adding, without another error.
//! The median of a day is never the mean of its hours' medians.
//!
//! Statuses are bins of their own: each number is counted exactly.
//!
//! # What they cost
//!
//! - A request: some 440 instructions for its time and status on two counters, and no allocation in the steady state.
//! - A flush: one increment for each bin that occurred, counter and precision. A page whose times are spread over a
//!   factor of 10 has 27 bins; most requests of a second share a few of them. A thousand routes with 20 requests a second
//!   each take 68 ms of Redis a second, of which counts alone are 8.
//! - Memory in Redis: a hash for each counter and bucket, of about 7 bytes for each bin that occurred: half a kilobyte for
//!   70 bins. With [`Distribution::precisions`](crate::visits::Distribution::precisions) a counter that is always busy has 360 of
//!   them, 170 KB. They have a TTL, and are not cleaned.
//! - In a SQL database: a row of `access_bins` for each bin, which the cleaner removes.
//! - In the process: what waits is folded as counts are. Beyond a million bins that wait, which takes a long outage and
//!   many counters, fine buckets are given up first: coarser ones stay exact.
//!
//! Fewer or coarser precisions make all of this less.
//!
//! # What is left out
//!
//! A key that holds something else refuses its bins, as of counts, which is logged. The [`Ledger`](crate::Ledger) accounts for
//! hits, and not for bins: a hit whose fence was lost is [`in_doubt`](crate::visits::Dropped::in_doubt), and its bins are
//! not sent either. Access logs seldom tell the time to the head of a response.
