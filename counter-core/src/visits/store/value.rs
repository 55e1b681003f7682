use std::collections::BTreeMap;

use crate::sketch::Sketch;
use crate::time::Kind;
use crate::visits::distribution::Bins;

/// A value of a bucket, or a value to add to a bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// Hits.
    Count(u64),
    /// Visitors. In a batch, these are the registers that were raised since the previous batch with visitors of this
    /// counter and bucket.
    Visitors(Sketch),
    /// The number of values in each bin. A batch contains at most 60 bins per cell.
    Distribution(Bins),
}

/// How to combine two numbers for the same bucket: the sum, or the maximum.
pub(crate) type Combine = fn(u64, u64) -> u64;

impl Value {
    /// Returns an empty value of a kind.
    #[must_use]
    pub fn empty(kind: Kind) -> Self {
        match kind {
            Kind::Counts => Self::Count(0),
            Kind::Visitors => Self::Visitors(Sketch::new()),
            Kind::Distributions => Self::Distribution(Bins::new()),
        }
    }

    /// Returns the kind of the value.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        match self {
            Self::Count(_) => Kind::Counts,
            Self::Visitors(_) => Kind::Visitors,
            Self::Distribution(_) => Kind::Distributions,
        }
    }

    /// Returns `true` if there are no hits, visitors or bins.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        match self {
            Self::Count(count) => *count == 0,
            Self::Visitors(sketch) => sketch.is_empty(),
            Self::Distribution(bins) => bins.is_empty(),
        }
    }

    /// Returns the count, if this is one.
    #[must_use]
    pub const fn count(&self) -> Option<u64> {
        match self {
            Self::Count(count) => Some(*count),
            _ => None,
        }
    }

    /// Returns the visitors, if there are any.
    #[must_use]
    pub const fn visitors(&self) -> Option<&Sketch> {
        match self {
            Self::Visitors(sketch) => Some(sketch),
            _ => None,
        }
    }

    /// Returns the bins, if this is a distribution.
    #[must_use]
    pub const fn bins(&self) -> Option<&Bins> {
        match self {
            Self::Distribution(bins) => Some(bins),
            _ => None,
        }
    }

    /// Combines this with another value of the same kind. Visitors are always merged.
    pub(crate) fn merge(&mut self, other: Self, combine: Combine) {
        match (self, other) {
            (Self::Count(count), Self::Count(other)) => *count = combine(*count, other),
            (Self::Visitors(sketch), Self::Visitors(other)) => sketch.merge(&other),
            (Self::Distribution(bins), Self::Distribution(others)) => {
                let mut all: BTreeMap<_, _> = std::mem::take(bins).into_iter().collect();
                for (bin, other) in others {
                    all.entry(bin).and_modify(|count| *count = combine(*count, other)).or_insert(other);
                }
                *bins = all.into_iter().collect();
            }
            _ => debug_assert!(false, "these are different kinds"),
        }
    }
}

#[cfg(feature = "archive")]
impl Value {
    /// Returns `true` if the other value includes hits that are missing in this value.
    pub(crate) fn lacks(&self, other: &Self) -> bool {
        self.missing(other).is_some()
    }

    /// Returns the part of another value of the same kind that is missing in this value: the remaining hits, all visitors
    /// of the other sketch, or the remaining values of each bin.
    pub(crate) fn missing(&self, other: &Self) -> Option<Self> {
        match (self, other) {
            (Self::Count(count), Self::Count(other)) => {
                other.checked_sub(*count).filter(|more| *more > 0).map(Self::Count)
            }
            (Self::Visitors(sketch), Self::Visitors(other)) => {
                (!sketch.includes(other)).then(|| Self::Visitors(other.clone()))
            }
            (Self::Distribution(bins), Self::Distribution(others)) => {
                let count = |bin| bins.binary_search_by_key(&bin, |(bin, _)| *bin).map_or(0, |at| bins[at].1);
                let more = others.iter().map(|(bin, other)| (*bin, other.saturating_sub(count(*bin))));
                let more: Bins = more.filter(|(_, more)| *more > 0).collect();
                (!more.is_empty()).then_some(Self::Distribution(more))
            }
            _ => None,
        }
    }

    /// Returns the number to show in a report: the count, the visitor estimate, or the sum of all bins.
    pub(crate) fn number(&self) -> u64 {
        match self {
            Self::Count(count) => *count,
            Self::Visitors(sketch) => sketch.estimate(),
            Self::Distribution(bins) => bins.iter().fold(0, |sum, (_, count)| sum.saturating_add(*count)),
        }
    }
}
