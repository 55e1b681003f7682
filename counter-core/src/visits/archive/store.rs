use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use crate::future::Answer;
use crate::handle::for_handles;
use crate::sketch::Sketch;
use crate::time::Retention;
use crate::visits::Bin;
use crate::writer::WriterId;
use crate::{CounterName, Precision, Timestamp};

/// A store of visits that takes absolute values from another one, and remembers how far that went.
///
/// It also is a [`Store`](crate::Store), by which what it has is read, cleaned and forgotten.
pub trait ArchiveStore: fmt::Debug + Send + Sync + 'static {
    /// Asks to be the only one that copies for this time, by the store's own clock, from now on; returns whether that is
    /// so. The holder prolongs its lease in the same way. It saves others the work: copying is right without it. A lease
    /// that ends later than one that begins now is of a clock that was ahead, and does not count.
    ///
    /// # Errors
    /// Fails when the store cannot do it now.
    ///
    /// # Cancel safety
    /// A call that is dropped may have taken the lease.
    fn lease(&self, holder: WriterId, time: Duration) -> Answer<'_, bool>;

    /// Ends the lease of this holder, so that another one need not wait for its end. The lease of another stays.
    ///
    /// # Errors
    /// Fails when the store cannot do it now.
    ///
    /// # Cancel safety
    /// A call that is dropped may have ended the lease.
    fn release(&self, holder: WriterId) -> Answer<'_, ()>;

    /// Returns the time of the store's clock.
    ///
    /// # Errors
    /// Fails when the store cannot be read.
    fn time(&self) -> Answer<'_, Timestamp>;

    /// Returns how far these values of a precision were copied, if any ever were.
    ///
    /// # Errors
    /// Fails when the store cannot be read.
    fn progress(&self, values: Values, precision: Precision) -> Answer<'_, Option<Progress>>;

    /// Remembers how far these values of a precision were copied.
    ///
    /// # Errors
    /// Fails when the store cannot do it now.
    ///
    /// # Cancel safety
    /// A call that is dropped may have done it.
    fn advance(&self, values: Values, precision: Precision, progress: Progress) -> Answer<'_, ()>;

    /// Takes a page: of counts, lifetimes and bins the greater of what it has and what comes, of visitors the union; or
    /// what comes, if the page [replaces](Page::replaces) values. What comes of a counter that was forgotten since the page was
    /// [`read`](Page::read), by this store's clock, is left out.
    ///
    /// # Errors
    /// Fails when it is not known whether the store has it: call again.
    ///
    /// # Cancel safety
    /// A call that is dropped may have taken the page; call again with the same one.
    fn put<'a>(&'a self, page: &'a Page) -> Answer<'a, ()>;
}

/// The values that are copied, each with a progress of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Values {
    /// The samples of counters.
    Counts,
    /// The sketches of visitors.
    Visitors,
    /// The bins of distributions.
    Distributions,
}

/// The progress of copying the buckets of a precision, by where they start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The end of what was copied after it had closed.
    pub copied: Timestamp,
    /// The end of what was copied once more as it left the near store's retention, and does not change any longer.
    pub settled: Timestamp,
}

/// Values of some counters in some buckets of one precision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// The time of the archive's clock before any of it was read.
    pub read: Timestamp,
    /// Whatever the archive has of these values is replaced, even by less.
    pub replaces: bool,
    /// The precision, with how many samples of it the archive keeps.
    pub kept: Retention,
    /// The counters by name, each once.
    pub counters: Vec<CounterName>,
    /// Everything that each of them ever counted, in the same order; or nothing.
    pub lifetimes: Vec<u64>,
    /// The counts of buckets, by their start, of counters by their index.
    pub counts: BTreeMap<Timestamp, Vec<(usize, u64)>>,
    /// The visitors of buckets, in the same way.
    pub visitors: BTreeMap<Timestamp, Vec<(usize, Sketch)>>,
    /// The bins of the distributions of buckets, in the same way.
    pub bins: BTreeMap<Timestamp, Vec<(usize, Bins)>>,
}

/// The bins of a bucket with their counts, ascending.
pub type Bins = Vec<(Bin, u64)>;

impl Page {
    /// Creates a page without values.
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
