//! Values of buckets as an audit compares them.

use crate::sketch::Sketch;
use crate::visits::store::{Bins, count_of};

/// The value of a bucket in one store.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Value {
    Count(u64),
    Visitors(Sketch),
    Bins(Bins),
}

impl Value {
    /// Returns whether the other value includes hits that this one does not.
    pub(super) fn lacks(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Count(this), Self::Count(other)) => this < other,
            (Self::Visitors(this), Self::Visitors(other)) => !this.includes(other),
            (Self::Bins(this), Self::Bins(other)) => {
                other.iter().any(|(bin, count)| count_of(this, *bin) < *count)
            }
            _ => false,
        }
    }

    /// Returns the empty value of the same kind.
    pub(super) fn nothing(&self) -> Self {
        match self {
            Self::Count(_) => Self::Count(0),
            Self::Visitors(_) => Self::Visitors(Sketch::new()),
            Self::Bins(_) => Self::Bins(Bins::new()),
        }
    }

    /// Returns the number that reports show.
    pub(super) fn number(&self) -> u64 {
        match self {
            Self::Count(count) => *count,
            Self::Visitors(sketch) => sketch.estimate(),
            Self::Bins(bins) => bins.iter().fold(0, |sum, (_, count)| sum.saturating_add(*count)),
        }
    }
}
