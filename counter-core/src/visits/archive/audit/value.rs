//! Values of buckets as an audit compares them.

use crate::sketch::Sketch;
use crate::visits::store::{Bins, count_of};

/// Value that one store has of a bucket.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Value {
    Count(u64),
    Visitors(Sketch),
    Bins(Bins),
}

impl Value {
    /// Returns whether the other has something that this has not.
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

    /// Returns the value of a bucket that has none, beside one that has this.
    pub(super) fn nothing(&self) -> Self {
        match self {
            Self::Count(_) => Self::Count(0),
            Self::Visitors(_) => Self::Visitors(Sketch::new()),
            Self::Bins(_) => Self::Bins(Bins::new()),
        }
    }

    /// Returns what is told of it.
    pub(super) fn number(&self) -> u64 {
        match self {
            Self::Count(count) => *count,
            Self::Visitors(sketch) => sketch.estimate(),
            Self::Bins(bins) => bins.iter().fold(0, |sum, (_, count)| sum.saturating_add(*count)),
        }
    }
}
