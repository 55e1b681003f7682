use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, timeout};

use super::Archive;
use super::listed::{self, Listed};
use crate::error::Error;
use crate::family::future::BoxFuture;
use crate::family::name::CounterName;
use crate::family::passes::{Passes, until};
use crate::family::writer::WriterId;
use crate::log::unwind::{catch_panic, emit};
use crate::time::{Grid, Kind, Precision, Retention, Timestamp};
use crate::visits::source::LATENESS;
use crate::visits::store::{Page, Progress};

/// Copies closed buckets from the near store of an [`Archive`] to the far store.
///
/// You can run a copier in every instance. To save work, only the instance that holds a lease in the far
/// store will copy; copying is also correct without the lease.
///
/// ```no_run
/// use counter_core::archive::Archive;
/// use counter_core::{Counters, RedisStore, SqlStore, stores::Namespace};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let near = RedisStore::connect("redis://127.0.0.1", Namespace::default()).await?;
/// let far = SqlStore::builder().create_tables().connect("sqlite:archive.db").await?;
/// let archive = Archive::new(near, far);
/// let counters = Counters::builder(archive.clone()).build()?;
/// let mut copier = archive.copier(counters.stats().grid());
/// # let shutdown = std::future::pending();
/// tokio::spawn(async move { copier.run(shutdown).await });
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Copier {
    archive: Archive,
    listed: Listed,
    holder: WriterId,
    interval: Duration,
    lateness: Duration,
    /// True if this copier may hold the lease.
    is_held: bool,
    needs_lease: bool,
}

/// The number of entries that were copied by a pass of a [`Copier`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Copied {
    /// Copied samples, including samples that the far store already has.
    pub samples: u64,
    /// Copied sketches, including sketches that the far store already has.
    pub sketches: u64,
    /// Copied distributions, including distributions that the far store already has.
    pub distributions: u64,
    /// Entries of the near store that were skipped, because they are unreadable.
    pub unreadable: u64,
}

/// Maximum number of buckets to copy before the progress is stored.
const BUCKETS_PER_PAGE: usize = 24;
/// Number of closed buckets to copy again with later buckets, in order to include late hits.
const RECOPIED_BUCKETS: u64 = 2;
/// Number of buckets that are copied before the end of the retention, in case no copier is active when visitors and
/// distributions are removed.
const EXPIRING_BUCKETS: u64 = 2;
/// Lease duration. The lease is renewed at half of this time.
const LEASE_TTL: Duration = Duration::from_secs(120);
/// Time to wait on shutdown until the lease is released.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(2);

impl Copied {
    fn values(&mut self, kind: Kind) -> &mut u64 {
        match kind {
            Kind::Counts => &mut self.samples,
            Kind::Visitors => &mut self.sketches,
            Kind::Distributions => &mut self.distributions,
        }
    }
}

impl Copier {
    pub(super) fn new(archive: Archive, grid: &Grid) -> Self {
        Self {
            listed: Listed::new(&archive, grid),
            archive,
            holder: WriterId::random(),
            interval: Duration::from_secs(30),
            lateness: Duration::from_secs(120),
            is_held: false,
            needs_lease: true,
        }
    }

    /// Copies even if another copier holds the lease, e.g. one that was killed. This is correct, but may do the same work
    /// twice.
    #[must_use]
    pub const fn without_lease(mut self) -> Self {
        self.needs_lease = false;
        self
    }

    /// Sets the interval between passes. Default: 30 s.
    #[must_use]
    pub const fn interval(mut self, interval: Duration) -> Self {
        self.interval = interval;
        self
    }

    /// Sets the time from the end of a bucket until it counts as closed. Default: 2 minutes.
    ///
    /// Later hits will also be copied, either with one of the next buckets or when the bucket leaves the near
    /// store. Until then, these hits are only in the near store. A bucket leaves the near store at least a minute after the
    /// end of its retention. If sources count old records into the archive, this should be at least 2 minutes.
    #[must_use]
    pub const fn lateness(mut self, lateness: Duration) -> Self {
        self.lateness = lateness;
        self
    }

    /// Copies the buckets that are closed at `now`, or by the far store clock if it is behind. If no new
    /// bucket is closed, this only needs a few short reads of the far store.
    ///
    /// # Errors
    /// Fails if one of the stores fails. The next pass will continue with the remaining buckets.
    ///
    /// # Cancel safety
    /// If you drop the future, the next pass will do the rest.
    pub async fn copy_once(&mut self, now: Timestamp) -> Result<Copied, Error> {
        let copied = self.copy_closed(now).await;
        self.archive.state().is_copy_failing = copied.is_err();
        copied
    }

    async fn copy_closed(&mut self, now: Timestamp) -> Result<Copied, Error> {
        let mut copied = Copied::default();
        self.archive.check().await?;
        let far = &self.archive.far;
        if self.needs_lease {
            // Must be set first, in case the call is dropped.
            self.is_held = true;
            self.is_held = far.lease(self.holder, LEASE_TTL).await?;
            if !self.is_held {
                return Ok(copied);
            }
        }
        // Use the earlier of the two clocks: a clock that is ahead would close buckets too early.
        let now = now.min(far.time().await?);
        let renewed_at = Instant::now();
        let mut pass = Pass { copier: self, renewed_at, is_incomplete: false, copied: &mut copied };
        // Counts are copied last: when they are settled, the near store may remove the counter from its list.
        for &(kind, retention) in self.listed.retained.iter().rev() {
            pass.copy(kind, retention, now).await?;
        }
        Ok(copied)
    }

    /// Runs a pass at the configured interval until `shutdown` completes. Then releases the lease, within 2
    /// s, to allow another copier to continue immediately.
    ///
    /// An error does not stop the loop; the start and the end of a failure are logged.
    ///
    /// # Cancel safety
    /// Same as for [`copy_once`](Self::copy_once). If you drop the future, the lease will expire in 2
    /// minutes.
    pub async fn run(&mut self, shutdown: impl Future<Output = ()>) {
        until(shutdown, self.copy_forever()).await;
        self.release().await;
    }

    fn release(&mut self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            if !std::mem::take(&mut self.is_held) {
                return;
            }
            let released = timeout(RELEASE_TIMEOUT, catch_panic(self.archive.far.release(self.holder))).await;
            if !matches!(released, Ok(Ok(()))) {
                emit(|| tracing::debug!("the archive lease was not released and will expire"));
            }
        })
    }

    fn copy_forever(&mut self) -> BoxFuture<'_, ()> {
        Passes::of("copying into the archive").repeat(self.interval, self, |copier| {
            Box::pin(async move {
                let copied = copier.copy_once(Timestamp::now()).await?;
                emit(|| {
                    if copied.unreadable > 0 {
                        let unreadable = copied.unreadable;
                        tracing::warn!(unreadable, "unreadable entries were not copied into the archive");
                    }
                    if copied != Copied::default() {
                        tracing::debug!(copied.samples, copied.sketches, "copied into the archive");
                    }
                });
                Ok(())
            })
        })
    }
}

/// A pass of a copier, which copies the closed buckets of all precisions.
struct Pass<'a> {
    copier: &'a Copier,
    /// Time of the latest lease renewal.
    renewed_at: Instant,
    /// True if counters are missing, because a counter list of the near store can't be read.
    is_incomplete: bool,
    copied: &'a mut Copied,
}

impl Pass<'_> {
    /// Copies the closed values of a precision, and stores the progress.
    async fn copy(&mut self, kind: Kind, retention: Retention, now: Timestamp) -> Result<(), Error> {
        let (precision, lateness) = (retention.precision, self.copier.lateness.as_secs());
        let width = u64::from(precision.as_seconds());
        let closed = precision.bucket(now.minus(lateness)).start;
        // Until then, sources may still count in the bucket.
        let oldest = retention.oldest(now.minus(lateness.max(LATENESS)));
        // The earliest bucket that the near store could have.
        let first = oldest.minus(width * u64::from(retention.samples.get()));
        let far = &self.copier.archive.far;
        // A later position was written by a clock that is ahead.
        let known = |progress: &Progress| {
            progress.copied <= closed.plus(width) && progress.settled <= oldest.plus(width)
        };
        let progress = far.progress(kind, precision).await?.filter(known);
        let mut progress = progress.unwrap_or(Progress { copied: first, settled: first });
        let key = (kind, precision);
        if progress.copied >= closed && (progress.settled >= oldest || self.is_still_incomplete(key).await?) {
            return Ok(());
        }
        let unreadable = self.copied.unreadable;
        self.is_incomplete = false;
        let leaving =
            progress.settled.max(first)..retention.oldest(now).plus(EXPIRING_BUCKETS * width).min(closed);
        let recent = progress.copied.minus(RECOPIED_BUCKETS * width).max(first)..closed;
        for starts in chunks(precision, leaving) {
            self.copy_buckets(kind, retention, &starts).await?;
            // If counters are missing in a list, they stay in the near store until the list can be read.
            if !self.is_incomplete {
                let end = starts.last().map_or(oldest, |last| last.plus(width));
                progress.settled = end.min(oldest).max(progress.settled);
                // If the pass is interrupted, the next pass will continue here.
                far.advance(kind, precision, progress).await?;
            }
        }
        let is_incomplete = self.is_incomplete;
        if !is_incomplete {
            progress.settled = oldest.max(progress.settled);
        }
        for starts in chunks(precision, recent) {
            self.copy_buckets(kind, retention, &starts).await?;
            let end = starts.last().map_or(closed, |last| last.plus(width));
            progress.copied = end.max(progress.copied);
            far.advance(kind, precision, progress).await?;
        }
        progress.copied = closed;
        far.advance(kind, precision, progress).await?;
        self.copier.archive.record_settled(kind, precision, progress.settled);
        let mut state = self.copier.archive.state();
        state.unreadable.insert(key, self.copied.unreadable - unreadable);
        match is_incomplete {
            true => _ = state.incomplete.insert(key),
            false => _ = state.incomplete.remove(&key),
        }
        Ok(())
    }

    /// Returns `true` if the most recent copy lacks counters from a list that still can't be read.
    async fn is_still_incomplete(&self, key: (Kind, Precision)) -> Result<bool, Error> {
        let (archive, (kind, precision)) = (&self.copier.archive, key);
        if !archive.state().incomplete.contains(&key) {
            return Ok(false);
        }
        let first_page = self.copier.listed.counters(&*archive.near, kind, precision, "", Timestamp::MIN);
        Ok(first_page.await?.is_incomplete)
    }

    /// Copies consecutive buckets of all counters.
    async fn copy_buckets(
        &mut self,
        kind: Kind,
        retention: Retention,
        starts: &[Timestamp],
    ) -> Result<(), Error> {
        let (mut next, near) = (Some(String::new()), &*self.copier.archive.near);
        while let Some(from) = next {
            self.renew_lease().await?;
            let read = self.copier.archive.far.time().await?;
            let Some(&first) = starts.first() else { return Ok(()) };
            let page = self.copier.listed.counters(near, kind, retention.precision, &from, first).await?;
            // Unreadable entries are skipped.
            self.copied.unreadable += page.unreadable;
            self.is_incomplete |= page.is_incomplete;
            self.copy_values(kind, retention, &page.counters, starts, read).await?;
            next = page.next;
        }
        Ok(())
    }

    async fn copy_values(
        &mut self,
        kind: Kind,
        retention: Retention,
        counters: &[CounterName],
        starts: &[Timestamp],
        read: Timestamp,
    ) -> Result<(), Error> {
        let mut starts = starts;
        while !starts.is_empty() {
            self.renew_lease().await?;
            let near = Arc::clone(&self.copier.archive.near);
            let readings = listed::values(&*near, kind, retention, counters, starts).await?;
            starts = &starts[starts.partition_point(|start| *start < readings.end)..];
            // Sketches and distributions are large, so each bucket has its own page.
            let mut pages = BTreeMap::new();
            for (counter, reading) in counters.iter().zip(readings.counters) {
                self.copied.unreadable +=
                    reading.unreadable.map_or(0, |unreadable| unreadable.extent.entries());
                *self.copied.values(kind) += reading.values.len() as u64;
                for (start, value) in reading.values {
                    let key = if kind == Kind::Counts { Timestamp::MIN } else { start };
                    let page = pages.entry(key).or_insert_with(|| self.page(kind, retention.precision, read));
                    if page.counters.last() != Some(counter) {
                        page.counters.push(counter.clone());
                    }
                    page.values.entry(start).or_default().push((page.counters.len() - 1, value));
                }
            }
            for mut page in pages.into_values() {
                if kind == Kind::Counts {
                    let lifetimes = near.lifetimes(&page.counters).await?;
                    page.lifetimes = lifetimes.into_iter().map(|lifetime| lifetime.unwrap_or(0)).collect();
                }
                self.renew_lease().await?;
                self.copier.archive.far.put(&page).await?;
            }
        }
        Ok(())
    }

    /// Returns an empty page with the retention of the far store.
    fn page(&self, kind: Kind, precision: Precision, read: Timestamp) -> Page {
        let retained = self.copier.archive.far_retention(kind, precision).unwrap_or(precision.into());
        Page::new(kind, read, retained)
    }

    /// Renews the lease at half of the duration. It is not an error to lose the lease.
    async fn renew_lease(&mut self) -> Result<(), Error> {
        if self.renewed_at.elapsed() > LEASE_TTL / 2 {
            self.renewed_at = Instant::now();
            self.copier.archive.far.lease(self.copier.holder, LEASE_TTL).await?;
        }
        Ok(())
    }
}

/// Returns the buckets that start in a range, in order, in chunks that should be copied together.
fn chunks(precision: Precision, range: Range<Timestamp>) -> impl Iterator<Item = Vec<Timestamp>> {
    let mut starts = precision.starts(range);
    std::iter::from_fn(move || {
        let some: Vec<_> = starts.by_ref().take(BUCKETS_PER_PAGE).collect();
        (!some.is_empty()).then_some(some)
    })
}
