//! The ledger: the outcomes of requests and hits as numbers that add up, and the health of the process.

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

/// The account of every request and every hit since the process began.
///
/// Two equations hold at every observation:
///
/// - `requests.observed = requests.recorded + excluded + unmatched + ignored.total()`, in requests;
/// - `hits.recorded = hits.applied + pending + expired + dropped`, in hits by their weight. A request that
///   counts under its page and under `hits` makes two hits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Ledger {
    /// Requests, by what was decided about them.
    pub requests: Requests,
    /// Hits, by where they are.
    pub hits: Hits,
}

/// Requests by what was decided about them; each is counted once its outcome is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Requests {
    /// All requests.
    pub observed: u64,
    /// Requests that made at least one hit.
    pub recorded: u64,
    /// Requests that a rule excludes.
    pub excluded: u64,
    /// Requests that no rule matches.
    pub unmatched: u64,
    /// Requests that were left out for another reason.
    pub ignored: Ignored,
    /// Recorded requests that were made by programs.
    pub bots: u64,
    /// Recorded requests of people that have no visitor: the identity found none in them, or none was wanted.
    pub unidentified: u64,
    /// Recorded requests whose response was to wait for the store and stopped waiting before it confirmed.
    pub unconfirmed: u64,
}

/// Requests that no rule excludes and that were left out all the same, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Ignored {
    /// Requests that ended with an outcome that is not counted.
    pub outcome: u64,
    /// Requests made ahead of a visit that may never come.
    pub prefetch: u64,
}

/// The maker of a request: a person or a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Agent {
    /// A person, as far as can be told.
    Human,
    /// A program.
    Bot,
}

/// Reasons for a request to make no hit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Skip {
    /// A rule excludes the request.
    Excluded,
    /// No rule matches the request.
    Unmatched,
    /// The request ended with an outcome that is not counted.
    Outcome,
    /// The request was made ahead of a visit that may never come.
    Prefetch,
}

/// Hits by where they are, each counted by its weight.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Hits {
    /// All recorded hits.
    pub recorded: u64,
    /// Hits that the store acknowledged.
    pub applied: u64,
    /// Hits that the store has not acknowledged yet.
    pub pending: u64,
    /// Hits that no precision keeps any more, because they waited for long or were old when they were recorded: the
    /// store has added them to the lifetimes of their counters, and to nothing else.
    pub expired: u64,
    /// Hits that the store refused for good.
    pub dropped: Dropped,
    /// Recorded hits that went to the counter `(other)`.
    pub overflow: u64,
    /// Recorded hits of processes that ended before the store had them, taken over from a
    /// [spool](crate::guide::spool).
    pub recovered: u64,
    /// Applied hits that the store lost after acknowledging them, too old to be sent again.
    pub lost_by_server: u64,
}

/// Hits that are not known to be in the store, by reason; most of them were refused by at least one key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Dropped {
    /// The key holds a value of another type.
    pub wrong_type: u64,
    /// The bucket holds something that is not an integer.
    pub not_a_number: u64,
    /// The sum would not fit in a signed 64-bit integer.
    pub out_of_range: u64,
    /// The clock of this process was so far ahead of the store's that the bucket is still to come.
    pub ahead: u64,
    /// The store did not answer, and lost the fence that would have told whether it counted them.
    pub in_doubt: u64,
    /// Any other reason.
    pub other: u64,
}

/// Reasons for a key of the store to refuse a cell or a sketch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DropReason {
    /// The key holds a value of another type.
    WrongType,
    /// The bucket holds something that is not an integer.
    NotANumber,
    /// The sum would not fit in a signed 64-bit integer.
    OutOfRange,
    /// The bucket begins too far ahead of the store's clock.
    Ahead,
    /// Any other reason.
    Other,
}

impl Requests {
    /// Returns whether the first equation of the ledger holds.
    #[must_use]
    pub const fn balance(&self) -> bool {
        self.observed == self.recorded + self.excluded + self.unmatched + self.ignored.total()
    }
}

impl Ignored {
    /// Returns the sum over all reasons.
    #[must_use]
    pub const fn total(&self) -> u64 {
        self.outcome + self.prefetch
    }
}

impl Hits {
    /// Returns whether the second equation of the ledger holds.
    #[must_use]
    pub const fn balance(&self) -> bool {
        self.recorded == self.applied + self.pending + self.expired + self.dropped.total()
    }
}

impl Dropped {
    /// Returns the sum over all reasons.
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
        self.bots += other.bots;
        self.unidentified += other.unidentified;
        self.unconfirmed += other.unconfirmed;
    }
}
