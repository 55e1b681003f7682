use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;
use std::ops::Range;

use super::value::{Combine, Value};
use crate::error::{Error, ErrorKind};
use crate::family::name::CounterName;
use crate::time::{Precision, Sample, Timestamp};

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
    /// True if this is a whole store that is unavailable.
    is_unavailable: bool,
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

/// The counters and buckets to [read](crate::visits::store::Read::values).
#[derive(Clone, Debug)]
pub struct Query<'a> {
    /// The counters.
    pub counters: &'a [CounterName],
    /// The width of the buckets.
    pub precision: Precision,
    /// The buckets that start here, excluding the end.
    pub range: Range<Timestamp>,
    /// The retention in samples, to help the store select the best way to read. If it is unknown, this is [`u32::MAX`].
    pub retained: u32,
}

/// The values of the counters of a [`Query`], as returned by [`Read::values`](crate::visits::store::Read::values).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Readings {
    /// The counters, in the order of the query.
    pub counters: Vec<Reading>,
    /// The end of the buckets that were read. If this is before the end of the query, the remaining buckets need further
    /// queries.
    pub end: Timestamp,
}

/// The values of a counter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// The values that could be read by bucket start, in ascending order and without empty values.
    pub values: Vec<(Timestamp, Value)>,
    /// Entries that could not be read. If there are several, this is the key of the first, with the extent of all.
    pub unreadable: Option<Unreadable>,
}

/// The sum of the samples of a counter, as returned by [`Read::totals`](crate::visits::store::Read::totals).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Total {
    /// The sum of the samples that could be read, up to [`u64::MAX`].
    pub count: u64,
    /// Other entries in the same key that could not be read.
    pub unreadable: Option<Unreadable>,
}

/// The counters to list by [`Read::known`](crate::visits::store::Read::known).
#[derive(Clone, Copy, Debug)]
pub struct KnownQuery<'a> {
    /// The precisions. Each has its own list of counters.
    pub precisions: &'a [Precision],
    /// The first name (inclusive).
    pub from: &'a str,
    /// The maximum number of counters in each list.
    pub limit: usize,
    /// Counters may be left out if all of their samples are in buckets before this.
    pub since: Timestamp,
}

/// A page of known counters, as returned by [`Read::known`](crate::visits::store::Read::known).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KnownReading {
    /// Counters with a precision, in any order.
    pub counters: Vec<(CounterName, Precision)>,
    /// Lists that could not be read, so that counters are missing, and list entries that are not counters.
    pub unreadable: Vec<Unreadable>,
}

/// A page of counters which have a lifetime, as returned by [`Read::counted`](crate::visits::store::Read::counted).
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
        Self { key: key.into(), reason: reason.into(), extent: Extent::All, is_unavailable: false }
    }

    /// Creates an entry for a store which is unavailable.
    #[cfg(feature = "archive")]
    pub(crate) fn unavailable(key: &str, reason: impl Into<String>) -> Self {
        Self { is_unavailable: true, ..Self::new(key, reason) }
    }

    /// Returns the entry with a different extent.
    #[must_use]
    pub fn with_extent(self, extent: Extent) -> Self {
        Self { extent, ..self }
    }

    /// Combines two entries. Only the first is named.
    pub(crate) fn merge(one: Option<Self>, other: Option<Self>) -> Option<Self> {
        match (one, other) {
            (Some(mut one), Some(other)) => {
                one.extent.merge(other.extent);
                Some(one)
            }
            (one, other) => one.or(other),
        }
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

    /// Returns the number of counts that are unknown: one for each bucket, or otherwise one for the whole.
    #[cfg(feature = "archive")]
    pub(crate) fn entries(&self) -> u64 {
        if self.is_unknown() { self.buckets().len().max(1) as u64 } else { 0 }
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
    #[cfg(any(feature = "redis", feature = "_sql"))]
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

impl Readings {
    /// Returns the start of the next query, given the start of this one. It is always later, even if a store of the
    /// application returns a wrong end, so that a loop over queries ends.
    pub(crate) fn next(&self, start: Timestamp) -> Timestamp {
        self.end.max(start.plus(1))
    }

    /// Combines these with the values of another store, up to the first of both ends.
    pub(crate) fn merge(&mut self, other: Self, combine: Combine) {
        self.end = self.end.min(other.end);
        for (reading, other) in self.counters.iter_mut().zip(other.counters) {
            reading.merge(other, combine);
            let read = reading.values.partition_point(|(start, _)| *start < self.end);
            reading.values.truncate(read);
        }
    }
}

impl Reading {
    /// Returns the values, or an error if none of them can be read.
    ///
    /// # Errors
    /// Returns the entry because of which nothing is known.
    pub fn readable(self) -> Result<Self, Unreadable> {
        match self.unreadable {
            Some(unreadable) if unreadable.extent == Extent::All => Err(unreadable),
            _ => Ok(self),
        }
    }

    /// Returns whether the value of a bucket is unknown, completely or in part.
    #[must_use]
    pub fn is_unknown(&self, start: Timestamp) -> bool {
        self.unreadable.as_ref().is_some_and(|unreadable| unreadable.extent.includes(start))
    }

    /// Returns the counts.
    pub fn samples(&self) -> impl Iterator<Item = Sample> {
        self.values.iter().filter_map(|(start, value)| Some(Sample { start: *start, count: value.count()? }))
    }

    /// Adds an entry that makes a bucket unknown.
    #[cfg(any(feature = "redis", feature = "_sql"))]
    pub(crate) fn add_unreadable(&mut self, unreadable: Unreadable, start: Timestamp) {
        let first = || unreadable.with_extent(Extent::Nothing);
        self.unreadable.get_or_insert_with(first).extent.add(start);
    }

    /// Combines these with other values of the same counter.
    pub(crate) fn merge(&mut self, other: Self, combine: Combine) {
        self.unreadable = Unreadable::merge(self.unreadable.take(), other.unreadable);
        if self.values.is_empty() {
            self.values = other.values;
            return;
        }
        let mut all: BTreeMap<_, _> = std::mem::take(&mut self.values).into_iter().collect();
        for (start, other) in other.values {
            match all.entry(start) {
                Entry::Occupied(mut value) => value.get_mut().merge(other, combine),
                Entry::Vacant(missing) => _ = missing.insert(other),
            }
        }
        self.values = all.into_iter().collect();
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
    fn from(reading: Reading) -> Self {
        Self { count: sum(reading.samples()), unreadable: reading.unreadable }
    }
}

/// Adds up the counts of samples, up to [`u64::MAX`].
pub(crate) fn sum(samples: impl IntoIterator<Item = Sample>) -> u64 {
    samples.into_iter().map(|sample| sample.count).fold(0, u64::saturating_add)
}

impl From<Unreadable> for Reading {
    fn from(unreadable: Unreadable) -> Self {
        Self { values: Vec::new(), unreadable: Some(unreadable) }
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
        if unreadable.is_unavailable {
            return Self::new(ErrorKind::Unavailable).caused_by(unreadable);
        }
        let Unreadable { key, reason, extent, .. } = unreadable;
        let kind = match extent {
            Extent::Part => ErrorKind::Incomplete { missing: key },
            _ => ErrorKind::Malformed { key },
        };
        Self::new(kind).caused_by(reason)
    }
}
