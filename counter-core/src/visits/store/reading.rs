use std::fmt;

use crate::error::{Error, ErrorKind};
use crate::family::name::CounterName;
use crate::time::{Precision, Sample, Timestamp};
use crate::visits::distribution::Bin;

/// An entry in a store with invalid contents.
///
/// When an entry belongs to another program, or has overwritten a counter, we still need to be able to read
/// everything else. If multiple counters are read, this is therefore returned in place of the affected
/// counter.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Unreadable {
    /// The key in the store.
    pub key: String,
    /// A description of the problem.
    pub reason: String,
    /// The counts that are unknown because of this entry.
    pub extent: Extent,
}

/// The counts that are unknown because of an [`Unreadable`] entry.
///
/// ```
/// use counter_core::Timestamp;
/// use counter_core::visits::Extent;
///
/// let [one, other] = [60, 120].map(Timestamp::from_unix);
/// let bucket = Extent::Buckets(vec![other]);
/// assert_eq!((bucket.includes(one), bucket.includes(other)), (false, true));
/// assert!(Extent::Part.includes(one) && !Extent::Nothing.includes(one));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Extent {
    /// Nothing: the entry does not belong to a count, e.g. a field of another program.
    Nothing,
    /// The counts of these buckets, by their starts in ascending order.
    Buckets(Vec<Timestamp>),
    /// A part of all counts, such as those of a site in a [fleet](crate::fleet). The other counts are a lower
    /// bound, and lists lack entries.
    Part,
    /// All counts of a counter, or all entries of a list.
    All,
}

/// The samples of a counter, as returned by [`Read::samples`](crate::visits::Read::samples).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// Samples that could be read, in ascending order.
    pub samples: Vec<Sample>,
    /// Other entries in the same key that could not be read.
    pub unreadable: Option<Unreadable>,
}

/// The sum of the samples of a counter, as returned by [`Read::totals`](crate::visits::Read::totals).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Total {
    /// The sum of the samples that could be read, up to [`u64::MAX`].
    pub count: u64,
    /// Other entries in the same key that could not be read.
    pub unreadable: Option<Unreadable>,
}

/// The distributions of a counter, as returned by [`Read::bins`](crate::visits::Read::bins).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BinReading {
    /// Non-empty buckets with the bins of all measures, both in ascending order.
    pub buckets: Vec<(Timestamp, Vec<(Bin, u64)>)>,
    /// Other entries that could not be read.
    pub unreadable: Option<Unreadable>,
}

/// A page of known counters, as returned by [`Read::known`](crate::visits::Read::known).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KnownReading {
    /// Counters with a precision, in any order.
    pub counters: Vec<(CounterName, Precision)>,
    /// Lists that could not be read, so that counters are missing, and list entries that are not counters.
    pub unreadable: Vec<Unreadable>,
}

/// A page of counters which have a lifetime, as returned by [`Read::counted`](crate::visits::Read::counted).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CountedReading {
    /// The counters, in any order.
    pub counters: Vec<CounterName>,
    /// The cursor for the next page, or `None` if this was the last page.
    pub next: Option<String>,
    /// Lists that could not be read, so that counters are missing, and list entries that are not counters.
    pub unreadable: Vec<Unreadable>,
}

impl Unreadable {
    /// Creates an entry for a key which can't be read at all.
    #[must_use]
    pub fn new(key: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { key: key.into(), reason: reason.into(), extent: Extent::All }
    }

    /// Returns the entry with a different extent.
    #[must_use]
    pub fn with_extent(self, extent: Extent) -> Self {
        Self { extent, ..self }
    }
}

impl Extent {
    /// Returns `true` if anything is unknown.
    #[must_use]
    pub const fn is_unknown(&self) -> bool {
        match self {
            Self::Nothing => false,
            Self::Buckets(starts) => !starts.is_empty(),
            Self::Part | Self::All => true,
        }
    }

    /// Returns `true` if the count of the bucket that starts here is unknown, completely or in part.
    #[must_use]
    pub fn includes(&self, start: Timestamp) -> bool {
        match self {
            Self::Nothing => false,
            Self::Buckets(starts) => starts.binary_search(&start).is_ok(),
            Self::Part | Self::All => true,
        }
    }

    /// Returns the single buckets that are unknown.
    #[must_use]
    pub fn buckets(&self) -> &[Timestamp] {
        match self {
            Self::Buckets(starts) => starts,
            Self::Nothing | Self::Part | Self::All => &[],
        }
    }

    /// Adds a bucket.
    #[cfg(any(feature = "redis", feature = "sql"))]
    pub(crate) fn add(&mut self, start: Timestamp) {
        self.merge(Self::Buckets(vec![start]));
    }

    /// Adds what is unknown because of another entry.
    pub(crate) fn merge(&mut self, other: Self) {
        *self = match (std::mem::replace(self, Self::Nothing), other) {
            (Self::All, _) | (_, Self::All) => Self::All,
            (Self::Part, _) | (_, Self::Part) => Self::Part,
            (Self::Nothing, extent) | (extent, Self::Nothing) => extent,
            (Self::Buckets(mut starts), Self::Buckets(others)) => {
                starts.extend(others);
                starts.sort_unstable();
                starts.dedup();
                Self::Buckets(starts)
            }
        };
    }
}

impl Total {
    /// Returns the sum, if all buckets are known.
    ///
    /// # Errors
    /// Returns an error if the count of any bucket could not be read.
    pub fn known(self) -> Result<u64, Unreadable> {
        match self.unreadable {
            Some(unreadable) if unreadable.extent.is_unknown() => Err(unreadable),
            _ => Ok(self.count),
        }
    }
}

impl From<Reading> for Total {
    fn from(Reading { samples, unreadable }: Reading) -> Self {
        Self { count: sum(&samples), unreadable }
    }
}

/// Adds up the counts of samples, up to [`u64::MAX`].
pub(crate) fn sum(samples: &[Sample]) -> u64 {
    samples.iter().map(|sample| sample.count).fold(0, u64::saturating_add)
}

impl From<Vec<Sample>> for Reading {
    fn from(samples: Vec<Sample>) -> Self {
        Self { samples, unreadable: None }
    }
}

impl From<Unreadable> for Reading {
    fn from(unreadable: Unreadable) -> Self {
        Self { samples: Vec::new(), unreadable: Some(unreadable) }
    }
}

impl From<Vec<(CounterName, Precision)>> for KnownReading {
    fn from(counters: Vec<(CounterName, Precision)>) -> Self {
        Self { counters, ..Self::default() }
    }
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.extent {
            Extent::Part => write!(f, "{} cannot be read: {}", self.key, self.reason),
            _ => write!(f, "cannot read key {:?}: {}", self.key, self.reason),
        }
    }
}

impl std::error::Error for Unreadable {}

crate::log::debug::debug_in_full!(Unreadable);

impl From<Unreadable> for Error {
    fn from(unreadable: Unreadable) -> Self {
        let Unreadable { key, reason, extent } = unreadable;
        let kind = match extent {
            Extent::Part => ErrorKind::Incomplete { missing: key },
            _ => ErrorKind::Malformed { key },
        };
        Self::new(kind).caused_by(reason)
    }
}
