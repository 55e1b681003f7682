mod found;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use found::Found;

use super::listed::{self, Listed};
use super::restore::restore;
use super::{Archive, LOCK_POISONED};
use crate::error::Error;
use crate::family::future::BoxFuture;
use crate::family::name::CounterName;
use crate::family::passes::{Passes, until};
use crate::log::unwind::emit;
use crate::time::{Bucket, Grid, Kind, Precision, Retention, Timestamp};
use crate::visits::store::{Adds, Page, Value};

/// Compares the two stores of an [`Archive`] bucket by bucket, and optionally repairs one of the stores.
///
/// Only buckets that should be in both stores are compared, i.e. copied buckets within the retention of the
/// near store. If hits are missing in the far store, they arrived late; the audit will copy these hits, and
/// doesn't report a difference. If hits are missing in the near store, it lost data, which can be restored by
/// a repair.
///
/// ```
/// use std::num::NonZeroU32;
/// use counter_core::archive::{Archive, Side};
/// use counter_core::{Counters, MemoryStore, Store, Timestamp};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let count = async |archive: &Archive| {
/// #     let mut counters = Counters::builder(archive.clone()).build()?;
/// #     let recorder = counters.recorder();
/// #     recorder.record_at(recorder.counter("/"), None, Timestamp::now().minus(86_400), NonZeroU32::MIN);
/// #     counters.flush().await?;
/// #     archive.copier(counters.stats().grid()).copy_once(Timestamp::now()).await?;
/// #     Ok::<_, Box<dyn std::error::Error>>(counters)
/// # };
/// let far = MemoryStore::new();
/// let archive = Archive::new(MemoryStore::new(), far.clone());
/// let counters = count(&archive).await?; // yesterday's hit is copied
/// let found = archive.auditor(counters.stats().grid()).audit(Timestamp::now(), None).await?;
/// assert_eq!((found.compared, found.differing), (2, 0));
///
/// // The near store is lost, and replaced by a new store.
/// let archive = Archive::new(MemoryStore::new(), far);
/// let mut auditor = archive.auditor(counters.stats().grid());
/// let found = auditor.audit(Timestamp::now(), None).await?;
/// assert_eq!((found.differing, found.differences[0].near, found.differences[0].far), (2, 0, 1));
/// auditor.audit(Timestamp::now(), Some(Side::Far)).await?; // repairs the near store
/// assert_eq!(auditor.audit(Timestamp::now(), None).await?.differing, 0);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Auditor {
    archive: Archive,
    listed: Listed,
    interval: Duration,
    /// Start time of the audit, by the far store clock.
    started_at: Timestamp,
}

/// One of the two stores of an [`Archive`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The near store.
    Near,
    /// The far store.
    Far,
}

/// The result of an audit, as returned by [`Auditor::audit`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Audit {
    /// Start time, by the clock of this process.
    pub at: Timestamp,
    /// Number of values in at least one of the stores.
    pub compared: u64,
    /// Number of copied values that arrived late in the near store.
    pub late: u64,
    /// Number of values that are smaller in the near store.
    pub differing: u64,
    /// Details of up to 1,000 differing values, from before a repair.
    pub differences: Vec<Difference>,
    /// Entries that could not be compared, because they are unreadable in one of the stores.
    pub unreadable: u64,
    /// Number of values that the near store rejected during a repair.
    pub rejected: u64,
    /// The side that was used as the source of the repair.
    pub repaired_from: Option<Side>,
}

/// A value that is smaller in the near store than in the far store.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Difference {
    /// The kind of value: a count, visitors or a distribution.
    pub kind: Kind,
    /// The counter that the value belongs to.
    pub counter: CounterName,
    /// The bucket that the value belongs to.
    pub bucket: Bucket,
    /// The count, the visitor estimate, or the sum of all bins in the near store.
    pub near: u64,
    /// The count, the visitor estimate, or the sum of all bins in the far store. Estimates and sums might be
    /// equal in both stores, although the visitors or bins are not.
    pub far: u64,
}

/// Maximum number of differences to list.
const MAX_DIFFERENCES: usize = 1000;
/// Number of buckets to compare at a time for a page of counters. A database needs a lookup for every bucket.
const BUCKETS_PER_READ: usize = 20;
/// Number of buckets to skip because they are about to leave the near store.
const EXPIRING_BUCKETS: u64 = 2;

/// A counter, as an index into a page, and a bucket start.
type ValueKey = (usize, Timestamp);

impl Auditor {
    pub(super) fn new(archive: Archive, grid: &Grid) -> Self {
        let listed = Listed::new(&archive, grid);
        Self { archive, listed, interval: Duration::from_secs(3600), started_at: Timestamp::MIN }
    }

    /// Sets the interval between audits. Default: an hour.
    #[must_use]
    pub const fn interval(mut self, interval: Duration) -> Self {
        self.interval = interval;
        self
    }

    /// Audits both stores. If `source` is set, the other side is repaired from it.
    ///
    /// When repairing from the near side, the values replace those in the far store, even if they are
    /// smaller. When repairing from the far side, missing hits are added to the near store, so hits that
    /// arrive during the repair are not lost. A lifetime is increased if it is lower than in the far store,
    /// or lower than the sum of the coarsest buckets in both stores. Concurrent repairs can't add the same
    /// hits more than once.
    ///
    /// If the position of a [source](crate::source) was also lost, the log will be reread. In this case, you
    /// should wait until the readers reach the end of the log before a repair from the far side. Otherwise,
    /// these hits will be double-counted.
    ///
    /// The result is also available from [`Archive::last_audit`].
    ///
    /// # Errors
    /// Fails if one of the stores fails. Repairs that are already done stay in effect.
    ///
    /// # Cancel safety
    /// If you drop the future, the next audit will do the rest.
    pub async fn audit(&mut self, now: Timestamp, source: Option<Side>) -> Result<Audit, Error> {
        let mut audit = Audit {
            at: now,
            compared: 0,
            late: 0,
            differing: 0,
            differences: Vec::new(),
            unreadable: 0,
            rejected: 0,
            repaired_from: source,
        };
        self.archive.check().await?;
        self.started_at = self.archive.far.time().await?;
        for &(kind, retention) in &self.listed.retained {
            self.compare(kind, retention, source, &mut audit).await?;
        }
        *self.archive.audited.lock().expect(LOCK_POISONED) = Some(Arc::new(audit.clone()));
        Ok(audit)
    }

    /// Audits both stores at the configured interval until `shutdown` completes. Doesn't repair anything.
    ///
    /// Differences are logged, and reported by the [health](crate::visits::ArchiveHealth). An error does not
    /// stop the loop; the start and the end of a failure are logged.
    ///
    /// # Cancel safety
    /// Same as for [`audit`](Self::audit).
    pub async fn run(&mut self, shutdown: impl Future<Output = ()>) {
        until(shutdown, self.audit_forever()).await;
    }

    fn audit_forever(&mut self) -> BoxFuture<'_, ()> {
        Passes::of("the audit of the archive").repeat(self.interval, self, |auditor| {
            Box::pin(async move {
                let audit = auditor.audit(Timestamp::now(), None).await?;
                if let Some(first) = audit.differences.first() {
                    let differing = audit.differing;
                    emit(|| {
                        tracing::warn!(
                            differing,
                            ?first,
                            "the near store lacks hits that are in the archive"
                        );
                    });
                }
                Ok(())
            })
        })
    }

    async fn compare(
        &self,
        kind: Kind,
        retention: Retention,
        source: Option<Side>,
        audit: &mut Audit,
    ) -> Result<(), Error> {
        let precision = retention.precision;
        let Some(progress) = self.archive.far.progress(kind, precision).await? else { return Ok(()) };
        let first = self.first(retention);
        let starts: Vec<_> = precision.starts(first..progress.copied.min(self.started_at)).collect();
        let mut next = Some(String::new());
        while let Some(from) = next {
            let page = self.listed.counters(&self.archive, kind, precision, &from, first).await?;
            audit.unreadable += page.unreadable;
            let (mut starts, mut max_buckets) = (&starts[..], BUCKETS_PER_READ);
            while !starts.is_empty() {
                let some = &starts[..max_buckets.min(starts.len())];
                let compared =
                    self.compare_page(kind, retention, &page.counters, some, source, audit).await?;
                starts = &starts[compared..];
                // Sketches and bins might be too large to read this number of buckets.
                max_buckets = (2 * compared).min(BUCKETS_PER_READ);
            }
            next = page.next;
        }
        Ok(())
    }

    /// Returns the first bucket that will stay in the near store for now, by the process clock or the far
    /// store clock, depending on which is later.
    fn first(&self, retention: Retention) -> Timestamp {
        let now = Timestamp::now().max(self.started_at);
        retention.oldest(now).plus(EXPIRING_BUCKETS * u64::from(retention.precision.as_seconds()))
    }

    /// Compares the first buckets of `starts`, and repairs a store if `source` is set. Returns the number of
    /// compared buckets.
    async fn compare_page(
        &self,
        kind: Kind,
        retention: Retention,
        counters: &[CounterName],
        starts: &[Timestamp],
        source: Option<Side>,
        audit: &mut Audit,
    ) -> Result<usize, Error> {
        let (mut found, compared) = self.read(kind, retention, counters, starts).await?;
        let starts = &starts[..compared];
        // If a counter was forgotten in between, the values might differ, so we need to reread them.
        let lacks = |found: &Found| found.different.iter().any(|(_, [near, far])| near.lacks(far));
        let rechecked: Vec<_> = (0..counters.len()).filter(|index| lacks(&found[*index])).collect();
        if !rechecked.is_empty() {
            let some: Vec<_> = rechecked.iter().map(|index| counters[*index].clone()).collect();
            let (second, _) = self.read(kind, retention, &some, starts).await?;
            rechecked.into_iter().zip(second).for_each(|(index, second)| found[index] = second);
        }
        let (mut late, mut less) = (BTreeMap::new(), BTreeMap::new());
        for (index, found) in found.into_iter().enumerate() {
            audit.compared += found.compared;
            audit.unreadable += found.unreadable;
            for (start, [near, far]) in found.different {
                if near.lacks(&far) {
                    audit.differing += 1;
                    if audit.differences.len() < MAX_DIFFERENCES {
                        audit.differences.push(Difference {
                            kind,
                            counter: counters[index].clone(),
                            bucket: Bucket { precision: retention.precision, start },
                            near: near.number(),
                            far: far.number(),
                        });
                    }
                    less.insert((index, start), near);
                } else {
                    audit.late += 1;
                    late.insert((index, start), near);
                }
            }
        }
        self.put(kind, retention.precision, counters, late, false).await?;
        match source {
            Some(Side::Near) => self.put(kind, retention.precision, counters, less, true).await?,
            Some(Side::Far) if !less.is_empty() => {
                let affected: BTreeSet<_> = less.keys().map(|(index, _)| counters[*index].clone()).collect();
                let affected: Vec<_> = affected.into_iter().collect();
                audit.rejected += self.repair_near(kind, retention, &affected, starts).await?;
            }
            _ => {}
        }
        Ok(compared)
    }

    /// Adds the hits that only the far store has to the near store. Returns the number of rejected values.
    async fn repair_near(
        &self,
        kind: Kind,
        retention: Retention,
        counters: &[CounterName],
        starts: &[Timestamp],
    ) -> Result<u64, Error> {
        let first = self.first(retention);
        let starts: Vec<_> = starts.iter().copied().filter(|start| *start >= first).collect();
        let values_of = |adds| restore(&self.archive, kind, retention, adds, counters, &starts);
        let mut rejected = 0;
        // Lifetimes are compared with the buckets of the coarsest precision. They come first: if the repair
        // is interrupted, the next audit only returns here if buckets still differ.
        let counts = self.listed.retained.iter().filter(|(kind, _)| *kind == Kind::Counts);
        let coarsest = counts.map(|(_, retention)| retention.precision).max();
        if kind == Kind::Counts && coarsest == Some(retention.precision) {
            rejected += values_of(Adds::Lifetimes).await?;
        }
        rejected += values_of(Adds::Samples).await?;
        Ok(rejected)
    }

    /// Reads the first buckets of `starts` from both stores, and compares them. Returns the differences by
    /// counter, and the number of compared buckets. The far store is read first, because the near store can
    /// only grow in between.
    async fn read(
        &self,
        kind: Kind,
        retention: Retention,
        counters: &[CounterName],
        starts: &[Timestamp],
    ) -> Result<(Vec<Found>, usize), Error> {
        let far = listed::values(&*self.archive.far, kind, retention, counters, starts).await?;
        let read = starts.partition_point(|start| *start < far.end);
        let near = listed::values(&*self.archive.near, kind, retention, counters, &starts[..read]).await?;
        // It is not a difference if a bucket is just about to leave the near store.
        let compared = self.first(retention)..near.end;
        let pairs = near.counters.into_iter().zip(far.counters);
        let buckets = starts[..read].partition_point(|start| *start < near.end);
        Ok((pairs.map(|(near, far)| Found::of(near, far, &compared)).collect(), buckets))
    }

    /// Writes values of the near store to the far store. If `replaces` is set, this also overwrites greater
    /// values.
    async fn put(
        &self,
        kind: Kind,
        precision: Precision,
        counters: &[CounterName],
        some: BTreeMap<ValueKey, Value>,
        replaces: bool,
    ) -> Result<(), Error> {
        let (Some(retained), false) = (self.archive.far_retention(kind, precision), some.is_empty()) else {
            return Ok(());
        };
        let mut page = Page::new(kind, self.started_at, retained);
        page.replaces = replaces;
        for ((index, start), value) in some {
            if page.counters.last() != Some(&counters[index]) {
                page.counters.push(counters[index].clone());
            }
            page.values.entry(start).or_default().push((page.counters.len() - 1, value));
        }
        if kind == Kind::Counts && !replaces {
            // Late hits also increase the lifetimes.
            let lifetimes = self.archive.near.lifetimes(&page.counters).await?;
            page.lifetimes = lifetimes.into_iter().map(|lifetime| lifetime.unwrap_or(0)).collect();
        }
        self.archive.far.put(&page).await
    }
}
