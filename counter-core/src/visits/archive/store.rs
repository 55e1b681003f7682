use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use crate::family::future::Answer;
use crate::family::handle::for_handles;
use crate::family::writer::WriterId;
use crate::sketch::Sketch;
use crate::time::Retention;
use crate::visits::Bin;
use crate::{CounterName, Precision, Timestamp};

/// A store of visits that accepts absolute values of another store, and keeps the progress of copying.
///
/// It must also be a [`Store`](crate::Store), which reads, cleans and forgets these values.
pub trait ArchiveStore: fmt::Debug + Send + Sync + 'static {
    /// Acquires or renews the lease for copying, for this duration by the store's clock; returns whether the caller holds it. The
    /// lease only saves work: copying is also correct without it. A lease that ends later than a new one would was written by a
    /// clock that was ahead, and is ignored.
    ///
    /// # Errors
    /// Fails if the store is unavailable.
    ///
    /// # Cancel safety
    /// A dropped call may have acquired the lease.
    fn lease(&self, holder: WriterId, time: Duration) -> Answer<'_, bool>;

    /// Releases the lease of this holder, so that another one does not have to wait for its end. The lease of another holder
    /// stays.
    ///
    /// # Errors
    /// Fails if the store is unavailable.
    ///
    /// # Cancel safety
    /// A dropped call may have released the lease.
    fn release(&self, holder: WriterId) -> Answer<'_, ()>;

    /// Returns the time of the store's clock.
    ///
    /// # Errors
    /// Fails if the store cannot be read.
    fn time(&self) -> Answer<'_, Timestamp>;

    /// Returns the progress of copying these values of a precision, if any were copied.
    ///
    /// # Errors
    /// Fails if the store cannot be read.
    fn progress(&self, values: Values, precision: Precision) -> Answer<'_, Option<Progress>>;

    /// Stores the progress of copying these values of a precision.
    ///
    /// # Errors
    /// Fails if the store is unavailable.
    ///
    /// # Cancel safety
    /// A dropped call may have taken effect.
    fn advance(&self, values: Values, precision: Precision, progress: Progress) -> Answer<'_, ()>;

    /// Stores a page: the greater of the stored and the given counts, lifetimes and bins, and the union of visitors. If the page
    /// [replaces](Page::replaces) values, stores the given ones. Ignores counters that were forgotten after the page was
    /// [`read`](Page::read), by this store's clock.
    ///
    /// # Errors
    /// Fails if the result is unknown; call again.
    ///
    /// # Cancel safety
    /// A dropped call may have stored the page; call again with the same one.
    fn put<'a>(&'a self, page: &'a Page) -> Answer<'a, ()>;
}

/// The kinds of copied values, each with its own progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Values {
    /// The samples of counters.
    Counts,
    /// The sketches of visitors.
    Visitors,
    /// The bins of distributions.
    Distributions,
}

/// The progress of copying the buckets of a precision, by their starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The end of the buckets that were copied after they closed.
    pub copied: Timestamp,
    /// The end of the buckets that have their last copy, made as they left the near store, and no longer change.
    pub settled: Timestamp,
}

/// Values of some counters in some buckets of one precision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// The time of the archive's clock before any value was read.
    pub read: Timestamp,
    /// True if the values replace those in the archive, even if they are smaller.
    pub replaces: bool,
    /// The precision, and the number of its samples that the archive keeps.
    pub kept: Retention,
    /// The counters, ordered by name without duplicates.
    pub counters: Vec<CounterName>,
    /// Their lifetimes in the same order, or an empty list.
    pub lifetimes: Vec<u64>,
    /// Counts by start of the bucket and index of the counter.
    pub counts: BTreeMap<Timestamp, Vec<(usize, u64)>>,
    /// Visitors, in the same way.
    pub visitors: BTreeMap<Timestamp, Vec<(usize, Sketch)>>,
    /// Bins of distributions, in the same way.
    pub bins: BTreeMap<Timestamp, Vec<(usize, Bins)>>,
}

/// The bins of a bucket with their counts, ascending.
pub type Bins = Vec<(Bin, u64)>;

impl Page {
    /// Creates an empty page.
    #[must_use]
    pub const fn new(read: Timestamp, kept: Retention) -> Self {
        Self {
            read,
            replaces: false,
            kept,
            counters: Vec::new(),
            lifetimes: Vec::new(),
            counts: BTreeMap::new(),
            visitors: BTreeMap::new(),
            bins: BTreeMap::new(),
        }
    }
}

/// Returns the count of a bin; 0 where it is missing.
pub(super) fn count_of(bins: &[(Bin, u64)], bin: Bin) -> u64 {
    bins.binary_search_by_key(&bin, |(bin, _)| *bin).map_or(0, |place| bins[place].1)
}

for_handles!(ArchiveStore {
    fn lease(holder: WriterId, time: Duration) -> Answer<'a, bool>;
    fn release(holder: WriterId) -> Answer<'a, ()>;
    fn time() -> Answer<'a, Timestamp>;
    fn progress(values: Values, precision: Precision) -> Answer<'a, Option<Progress>>;
    fn advance(values: Values, precision: Precision, progress: Progress) -> Answer<'a, ()>;
    fn put(page: &'a Page) -> Answer<'a, ()>;
});
