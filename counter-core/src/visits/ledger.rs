//! The ledger: outcomes of requests and hits as numbers that add up, and the health of the process.

mod hint;
mod health;
mod metrics;
#[cfg(feature = "metrics")]
mod export;

#[cfg(feature = "metrics")]
pub(crate) use export::{describe, publish};
pub use health::{ArchiveHealth, Health, SpoolHealth};
pub use hint::Hint;
pub(crate) use hint::Hints;
pub(crate) use metrics::metrics;
pub use metrics::{Metric, MetricValue};

use std::ops::AddAssign;

/// The account of all requests and hits since the process started.
///
/// These equations always hold:
///
/// - `requests.observed = requests.recorded + excluded + unmatched + ignored.total()`, in requests;
/// - `hits.recorded = hits.applied + pending + expired + dropped`, in hits by weight. If a request counts on
///   a page and on `hits`, this results in two hits.
///
/// ```
/// use counter_core::{Counters, MemoryStore};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mut counters = Counters::builder(MemoryStore::new()).build()?;
/// let recorder = counters.recorder();
/// recorder.record(recorder.counter("signups"), None);
/// assert_eq!(counters.stats().ledger().hits.pending, 1);
///
/// counters.flush().await?;
/// let hits = counters.stats().ledger().hits;
/// assert_eq!((hits.recorded, hits.applied, hits.pending), (1, 1, 0));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Ledger {
    /// Requests by decision.
    pub requests: Requests,
    /// Hits by state.
    pub hits: Hits,
}

/// Requests by decision. A request is counted as soon as the outcome is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Requests {
    /// All requests.
    pub observed: u64,
    /// Requests that were recorded with at least one hit.
    pub recorded: u64,
    /// Requests excluded by a rule.
    pub excluded: u64,
    /// Requests that do not match any rule.
    pub unmatched: u64,
    /// Requests ignored for a different reason.
    pub ignored: Ignored,
    /// Recorded requests by programs.
    pub bots: u64,
    /// Recorded requests by other clients without a visitor, either because they could not be identified, or because
    /// this is not configured.
    pub unidentified: u64,
    /// Recorded requests with a response that stopped waiting before the store confirmed the hits.
    pub unconfirmed: u64,
}

/// Requests that are not excluded by a rule, but ignored for some other reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Ignored {
    /// Requests with an outcome that is not counted.
    pub outcome: u64,
    /// Prefetch requests, which may never become a visit.
    pub prefetch: u64,
    /// Requests that the owner of the site ignores, such as their own visits.
    pub own: u64,
}

/// The client behind a request: a person or a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Agent {
    /// A person, as far as we can detect.
    Human,
    /// A program.
    Bot,
    /// A person or a program: the user agent was not recorded, e.g. in an access log without this field.
    Unknown,
}

/// The reason why a request does not count as a hit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Skip {
    /// The request is excluded by a rule.
    Excluded,
    /// The request does not match any rule.
    Unmatched,
    /// The request has an outcome that is not counted.
    Outcome,
    /// The request is a prefetch, which may never become a visit.
    Prefetch,
    /// The owner of the site ignores this request, e.g. because it is their own visit.
    Own,
}

/// Hits by state, counted by weight.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Hits {
    /// All recorded hits.
    pub recorded: u64,
    /// Hits that the store has acknowledged.
    pub applied: u64,
    /// Hits that the store has not acknowledged yet.
    pub pending: u64,
    /// Hits past the retention of all precisions, because they were pending for too long or already old when
    /// they were recorded. The store only adds these to the lifetimes of their counters.
    pub expired: u64,
    /// Hits that the store has rejected for good.
    pub dropped: Dropped,
    /// Recorded hits on the counter `(other)`.
    pub overflow: u64,
    /// Recorded hits from processes that exited before the store received them, recovered from a
    /// [spool](crate::guide::spool).
    pub recovered: u64,
    /// Applied hits that the store has lost after the acknowledgement, and that are too old to be sent again.
    pub lost_by_server: u64,
}

/// Hits that might not be in the store, by reason. Most of these reasons are rejections by at least one key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Dropped {
    /// The key has a value of a different type.
    pub wrong_type: u64,
    /// The bucket contains something other than an integer.
    pub not_a_number: u64,
    /// The sum would not fit into a signed 64-bit integer.
    pub out_of_range: u64,
    /// The clock of this process was too far ahead of the store clock, so the bucket is still in the future.
    pub ahead: u64,
    /// The store did not reply, and lost the fence needed to find out if it counted these hits.
    pub in_doubt: u64,
    /// Any other reason.
    pub other: u64,
}

/// The reason why a key in the store rejects a cell or a sketch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DropReason {
    /// The key has a value of a different type.
    WrongType,
    /// The bucket contains something other than an integer.
    NotANumber,
    /// The sum would not fit into a signed 64-bit integer.
    OutOfRange,
    /// The bucket starts too far ahead of the store clock.
    Ahead,
    /// Any other reason.
    Other,
}

impl Requests {
    /// Returns whether `observed` is the sum of all decisions, as described for the [`Ledger`].
    #[must_use]
    pub const fn balance(&self) -> bool {
        self.observed == self.recorded + self.excluded + self.unmatched + self.ignored.total()
    }
}

impl Ignored {
    /// Returns the sum of all reasons.
    #[must_use]
    pub const fn total(&self) -> u64 {
        self.outcome + self.prefetch + self.own
    }
}

impl Hits {
    /// Returns whether `recorded` is the sum of all states, as described for the [`Ledger`].
    #[must_use]
    pub const fn balance(&self) -> bool {
        self.recorded == self.applied + self.pending + self.expired + self.dropped.total()
    }
}

impl Dropped {
    /// Returns the sum of all reasons.
    #[must_use]
    pub const fn total(&self) -> u64 {
        self.wrong_type + self.not_a_number + self.out_of_range + self.ahead + self.in_doubt + self.other
    }

    pub(crate) fn of(&mut self, reason: DropReason) -> &mut u64 {
        match reason {
            DropReason::WrongType => &mut self.wrong_type,
            DropReason::NotANumber => &mut self.not_a_number,
            DropReason::OutOfRange => &mut self.out_of_range,
            DropReason::Ahead => &mut self.ahead,
            DropReason::Other => &mut self.other,
        }
    }
}

impl AddAssign for Dropped {
    fn add_assign(&mut self, other: Self) {
        self.wrong_type += other.wrong_type;
        self.not_a_number += other.not_a_number;
        self.out_of_range += other.out_of_range;
        self.ahead += other.ahead;
        self.in_doubt += other.in_doubt;
        self.other += other.other;
    }
}

impl AddAssign for Requests {
    fn add_assign(&mut self, other: Self) {
        self.observed += other.observed;
        self.recorded += other.recorded;
        self.excluded += other.excluded;
        self.unmatched += other.unmatched;
        self.ignored.outcome += other.ignored.outcome;
        self.ignored.prefetch += other.ignored.prefetch;
        self.ignored.own += other.ignored.own;
        self.bots += other.bots;
        self.unidentified += other.unidentified;
        self.unconfirmed += other.unconfirmed;
    }
}
