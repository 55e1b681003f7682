use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use super::value::Value;
use crate::family::future::StoreFuture;
use crate::family::handle::for_handles;
use crate::family::name::CounterName;
use crate::family::writer::WriterId;
use crate::time::{Kind, Precision, Retention, Timestamp};

/// A store of visits that accepts absolute values from another store, and tracks copy progress.
///
/// This must also be a [`Store`](crate::Store) in order to read, clean and forget these values.
pub trait ArchiveStore: fmt::Debug + Send + Sync + 'static {
    /// Acquires or renews the copy lease for this duration, by the store clock. Returns whether the lease is
    /// held by the caller. The lease just saves work, as copying is also correct without a lease. If a lease
    /// ends later than a new lease would end, it was written by a clock that was ahead, and will be ignored.
    ///
    /// # Errors
    /// Returns an error if the store is unavailable.
    ///
    /// # Cancel safety
    /// A dropped call may have acquired the lease.
    fn lease(&self, holder: WriterId, time: Duration) -> StoreFuture<'_, bool>;

    /// Releases the lease, so that another holder doesn't need to wait until it expires. This does nothing if
    /// another holder has the lease.
    ///
    /// # Errors
    /// Returns an error if the store is unavailable.
    ///
    /// # Cancel safety
    /// A dropped call may have released the lease.
    fn release(&self, holder: WriterId) -> StoreFuture<'_, ()>;

    /// Returns the store clock.
    ///
    /// # Errors
    /// Returns an error if the store can't be read.
    fn time(&self) -> StoreFuture<'_, Timestamp>;

    /// Returns the copy progress of these values in a precision, if any have been copied.
    ///
    /// # Errors
    /// Returns an error if the store can't be read.
    fn progress(&self, kind: Kind, precision: Precision) -> StoreFuture<'_, Option<Progress>>;

    /// Stores the copy progress of these values in a precision.
    ///
    /// # Errors
    /// Returns an error if the store is unavailable.
    ///
    /// # Cancel safety
    /// A dropped call may have been applied.
    fn advance(&self, kind: Kind, precision: Precision, progress: Progress) -> StoreFuture<'_, ()>;

    /// Stores a page. Keeps the greater of the stored and given counts, lifetimes and bins, and merges
    /// visitors. If the page [replaces](Page::replaces) values, the given values are stored instead. Counters
    /// forgotten since the page was [`read`](Page::read) are ignored, by the clock of this store.
    ///
    /// # Errors
    /// Returns an error if the outcome is unknown. It can be retried.
    ///
    /// # Cancel safety
    /// A dropped call may have stored the page. It can be retried with the same page.
    fn put<'a>(&'a self, page: &'a Page) -> StoreFuture<'a, ()>;
}

/// Copy progress in a precision, by bucket start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Progress {
    /// End of the buckets that were copied after they closed.
    pub copied: Timestamp,
    /// End of the buckets with a final copy, which is made when they leave the near store. They will not
    /// change any more.
    pub settled: Timestamp,
}

/// Values of one kind, in buckets of a single precision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// The kind of the values.
    pub kind: Kind,
    /// Time by the clock of the archive, from before the values were read from the near store.
    pub read: Timestamp,
    /// True if the values must replace the values in the archive, even if they are smaller.
    pub replaces: bool,
    /// The precision, and the archive retention in samples.
    pub retention: Retention,
    /// The counters, sorted by name, with no duplicates.
    pub counters: Vec<CounterName>,
    /// Lifetimes in the order of the counters, or an empty list.
    pub lifetimes: Vec<u64>,
    /// Values by bucket start and counter index.
    pub values: BTreeMap<Timestamp, Vec<(usize, Value)>>,
}

impl Progress {
    /// Creates the progress from these ends.
    #[must_use]
    pub const fn new(copied: Timestamp, settled: Timestamp) -> Self {
        Self { copied, settled }
    }
}

impl Page {
    /// Creates an empty page for values of this kind.
    #[must_use]
    pub const fn new(kind: Kind, read: Timestamp, retention: Retention) -> Self {
        Self {
            kind,
            read,
            replaces: false,
            retention,
            counters: Vec::new(),
            lifetimes: Vec::new(),
            values: BTreeMap::new(),
        }
    }
}

for_handles!(ArchiveStore {
    fn lease(holder: WriterId, time: Duration) -> StoreFuture<'a, bool>;
    fn release(holder: WriterId) -> StoreFuture<'a, ()>;
    fn time() -> StoreFuture<'a, Timestamp>;
    fn progress(kind: Kind, precision: Precision) -> StoreFuture<'a, Option<Progress>>;
    fn advance(kind: Kind, precision: Precision, progress: Progress) -> StoreFuture<'a, ()>;
    fn put(page: &'a Page) -> StoreFuture<'a, ()>;
});
