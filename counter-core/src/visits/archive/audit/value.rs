//! Bucket values to be compared in an audit.

use crate::sketch::Sketch;
use crate::visits::distribution::Bins;
use crate::visits::store::{Value, bin_count};

impl Value {
    /// Returns `true` if the other value includes hits that are missing in this value.
    pub(in crate::visits::archive) fn lacks(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Count(this), Self::Count(other)) => this < other,
            (Self::Visitors(this), Self::Visitors(other)) => !this.includes(other),
            (Self::Distribution(this), Self::Distribution(other)) => {
                other.iter().any(|(bin, count)| bin_count(this, *bin) < *count)
            }
            _ => false,
        }
    }

    /// Returns an empty value of the same kind.
    pub(in crate::visits::archive) fn empty(&self) -> Self {
        match self {
            Self::Count(_) => Self::Count(0),
            Self::Visitors(_) => Self::Visitors(Sketch::new()),
            Self::Distribution(_) => Self::Distribution(Bins::new()),
        }
    }

    /// Returns the number to show in a report: the count, the visitor estimate, or the sum of all bins.
    pub(in crate::visits::archive) fn number(&self) -> u64 {
        match self {
            Self::Count(count) => *count,
            Self::Visitors(sketch) => sketch.estimate(),
            Self::Distribution(bins) => bins.iter().fold(0, |sum, (_, count)| sum.saturating_add(*count)),
        }
    }
}
