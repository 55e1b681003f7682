use std::fmt;

use crate::error::{Error, ErrorKind};
use crate::family::name::CounterName;
use crate::time::{Precision, Sample, Timestamp};
use crate::visits::distribution::Bin;

/// An entry in a store that is not what belongs there.
///
/// An entry of another program, or one that replaced a counter, must not take away the rest: reads of several
/// counters return it for the counter concerned.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Unreadable {
    /// The key in the store.
    pub key: String,
    /// A description of what is wrong with the key.
    pub reason: String,
    /// The starts of the buckets whose counts are unknown because of this, ascending, when only some of a
    /// counter's buckets are affected; limited to the buckets that were asked for.
    pub buckets: Vec<Timestamp>,
}

/// The samples of one counter, as [`Read::samples`](crate::visits::Read::samples) finds them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// The samples that can be read, ascending.
    pub samples: Vec<Sample>,
    /// Entries beside the samples that cannot be read.
    pub unreadable: Option<Unreadable>,
}

/// The distributions of one counter, as [`Read::bins`](crate::visits::Read::bins) finds them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BinReading {
    /// The bins of each bucket that has any, of all measures: both ascending.
    pub buckets: Vec<(Timestamp, Vec<(Bin, u64)>)>,
    /// Entries beside them that cannot be read.
    pub unreadable: Option<Unreadable>,
}

/// A part of the list of counters, as [`Read::known`](crate::visits::Read::known) finds it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KnownReading {
    /// The counters of each precision, in any order.
    pub counters: Vec<(CounterName, Precision)>,
    /// Lists that cannot be read, and entries in other lists that are not counters.
    pub unreadable: Vec<Unreadable>,
    /// True if a whole list cannot be read, so that counters are missing here.
    pub is_incomplete: bool,
}

/// Some of the counters of a shard that have a lifetime, as [`Read::counted`](crate::visits::Read::counted) finds them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CountedReading {
    /// The counters, in any order.
    pub counters: Vec<CounterName>,
    /// The cursor from which to continue, or `None` after the last.
    pub next: Option<String>,
    /// Lists that cannot be read, and entries in other lists that are not counters.
    pub unreadable: Vec<Unreadable>,
}

impl Unreadable {
    /// Creates an entry for a whole key.
    #[must_use]
    pub fn new(key: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { key: key.into(), reason: reason.into(), buckets: Vec::new() }
    }
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
        write!(f, "the key {:?} cannot be read: {}", self.key, self.reason)
    }
}

impl std::error::Error for Unreadable {}

crate::log::debug::debug_in_full!(Unreadable);

impl From<Unreadable> for Error {
    fn from(unreadable: Unreadable) -> Self {
        let Unreadable { key, reason, .. } = unreadable;
        Self::new(ErrorKind::Malformed { key }).caused_by(reason)
    }
}
