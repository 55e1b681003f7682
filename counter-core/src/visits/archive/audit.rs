use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use super::listed::Listed;
use super::restore::restore;
use super::{Archive, CALM, Page, Values};
use crate::future::BoxFuture;
use crate::sketch::Sketch;
use crate::time::{Bucket, Grid, Retention};
use crate::unwind::{caught, tell};
use crate::visits::{Adds, Reading};
use crate::{CounterName, Error, Precision, Sample, Store, Timestamp};

/// Compares the two stores of an [`Archive`], bucket by bucket, and repairs one of them when asked to.
///
/// It compares what both should have: buckets that were copied and have not left the near store's retention. What the near
/// store has and the far one lacks came late; it is copied by the way and is no difference. The other way round the near
/// store has lost what it had: after its data were lost, this is how they return.
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
/// // The near store was lost, and a new one is in its place.
/// let archive = Archive::new(MemoryStore::new(), far);
/// let mut auditor = archive.auditor(counters.stats().grid());
/// let found = auditor.audit(Timestamp::now(), None).await?;
/// assert_eq!((found.differing, found.differences[0].near, found.differences[0].far), (2, 0, 1));
/// auditor.audit(Timestamp::now(), Some(Side::Far)).await?; // is right
/// assert_eq!(auditor.audit(Timestamp::now(), None).await?.differing, 0);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Auditor {
    archive: Archive,
    listed: Listed,
    interval: Duration,
    /// The far store's clock when the audit began.
    began: Timestamp,
}

/// One of the two stores of an [`Archive`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The near store.
    Near,
    /// The far store.
    Far,
}

/// The result of an audit.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Audit {
    /// Time at which it began, by the clock of the process.
    pub at: Timestamp,
    /// The number of values that at least one of the stores has.
    pub compared: u64,
    /// The number of values that came late into the near store, and were copied.
    pub late: u64,
    /// The number of values that the near store has less of.
    pub differing: u64,
    /// The first of these differences, 1,000 at most, as they were before a repair.
    pub differences: Vec<Difference>,
    /// Entries that cannot be read in one of the stores, and were not compared.
    pub unreadable: u64,
    /// Values that a repaired store refused.
    pub refused: u64,
    /// The side that the other was repaired from.
    pub repaired_from: Option<Side>,
}

/// A value of which the near store has less than the far one.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Difference {
    /// The kind of the value.
    pub values: Values,
    /// The counter.
    pub counter: CounterName,
    /// The bucket.
    pub bucket: Bucket,
    /// Count in the near store, or the estimate of its visitors.
    pub near: u64,
    /// Count or estimate in the far store. Two estimates may be equal although the visitors are not.
    pub far: u64,
}

/// The number of differences that are named.
const NAMED: usize = 1000;
/// The number of buckets of counts that are compared at once, of a page of counters: a database looks for so many samples
/// one by one.
const BUCKETS: usize = 20;
/// The number of buckets that are left out since they are about to leave the near store.
const LEAVING: u64 = 2;

impl Auditor {
    pub(super) fn new(archive: Archive, grid: &Grid) -> Self {
        let listed = Listed::new(&archive, grid);
        Self { archive, listed, interval: Duration::from_secs(3600), began: Timestamp::MIN }
    }

    /// Sets the pause between two audits. Default: an hour.
    #[must_use]
    pub const fn interval(mut self, interval: Duration) -> Self {
        self.interval = interval;
        self
    }

    /// Makes an audit; where one side is named as the right one, repairs the other from it.
    ///
    /// From the near side, the far one gets the values that the near one has, even if they are less. From the far side,
    /// what is missing is added to the near one, so hits that come meanwhile are not lost; what is added to the coarsest
    /// precision is added to lifetimes, which stay without what is older than that. Several that repair at once add nothing
    /// twice.
    ///
    /// A [source](crate::source) whose position was lost with the data is read again from there: let its readers come to
    /// the end of their logs before a repair from the far side, or its hits count once more.
    ///
    /// The result is also that of [`Archive::last_audit`].
    ///
    /// # Errors
    /// Fails when one of the stores does. What was repaired stays repaired.
    ///
    /// # Cancel safety
    /// Dropping the future leaves the rest to the next audit.
    pub async fn audit(&mut self, now: Timestamp, right: Option<Side>) -> Result<Audit, Error> {
        let mut audit = Audit {
            at: now,
            compared: 0,
            late: 0,
            differing: 0,
            differences: Vec::new(),
            unreadable: 0,
            refused: 0,
            repaired_from: right,
        };
        self.began = self.archive.far.time().await?;
        // Distributions are copied, and not compared.
        let compared = self.listed.kept.iter().filter(|(values, _)| *values != Values::Distributions);
        for &(values, kept) in compared {
            self.compare(values, kept, right, &mut audit).await?;
        }
        *self.archive.audited.lock().expect(CALM) = Some(Arc::new(audit.clone()));
        Ok(audit)
    }

    /// Makes an audit at every interval until `shutdown` completes, and repairs nothing.
    ///
    /// Differences are logged, and are in the [health](crate::visits::ArchiveHealth). An error does not end the loop; it
    /// is logged when failures begin and again when they end.
    ///
    /// # Cancel safety
    /// As with [`audit`](Self::audit).
    pub async fn run(&mut self, shutdown: impl Future<Output = ()>) {
        let mut shutdown = pin!(shutdown);
        tokio::select! {
            biased;
            () = &mut shutdown => {}
            () = self.audit_for_ever() => {}
        }
    }

    fn audit_for_ever(&mut self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let mut failing = false;
            loop {
                sleep(self.interval).await;
                let audit = caught(self.audit(Timestamp::now(), None)).await;
                tell(|| match audit {
                    Ok(audit) => {
                        if std::mem::replace(&mut failing, false) {
                            tracing::info!("audits of the archive work again");
                        }
                        if let Some(first) = audit.differences.first() {
                            let differing = audit.differing;
                            tracing::warn!(differing, ?first, "the near store has less than the archive");
                        }
                    }
                    Err(error) => {
                        if !std::mem::replace(&mut failing, true) {
                            tracing::warn!(
                                ?error,
                                "an audit of the archive failed; the next one tries again"
                            );
                        }
                    }
                });
            }
        })
    }

    async fn compare(
        &self,
        values: Values,
        kept: Retention,
        right: Option<Side>,
        audit: &mut Audit,
    ) -> Result<(), Error> {
        let precision = kept.precision;
        let Some(progress) = self.archive.far.progress(values, precision).await? else { return Ok(()) };
        let first = self.first(kept);
        let starts: Vec<_> = precision.starts(first..progress.copied.min(self.began)).collect();
        let mut next = Some(String::new());
        while let Some(from) = next {
            let page = self.listed.counters(&self.archive, values, precision, &from, first).await?;
            audit.unreadable += page.unreadable;
            let at_once = if values == Values::Counts { BUCKETS } else { 1 };
            for starts in starts.chunks(at_once) {
                self.compare_page(values, kept, &page.counters, starts, right, audit).await?;
            }
            next = page.next;
        }
        Ok(())
    }

    /// Returns the first bucket that the near store has for a while yet, by the later of two clocks.
    fn first(&self, kept: Retention) -> Timestamp {
        let now = Timestamp::now().max(self.began);
        kept.oldest(now).plus(LEAVING * u64::from(kept.precision.as_seconds()))
    }

    async fn compare_page(
        &self,
        values: Values,
        kept: Retention,
        counters: &[CounterName],
        starts: &[Timestamp],
        right: Option<Side>,
        audit: &mut Audit,
    ) -> Result<(), Error> {
        let mut found = self.read(values, kept.precision, counters, starts).await?;
        if found.all.values().any(|[near, far]| near.lacks(far)) {
            // A counter may have been forgotten between the two reads, which only another can tell.
            found = self.read(values, kept.precision, counters, starts).await?;
        }
        // What has begun to leave the near store meanwhile is no difference.
        let first = self.first(kept);
        found.all.retain(|(_, start), _| *start >= first);
        audit.compared += found.all.len() as u64;
        audit.unreadable += found.unreadable;
        let (mut late, mut less) = (BTreeMap::new(), BTreeMap::new());
        for ((index, start), [near, far]) in found.all {
            if near.lacks(&far) {
                audit.differing += 1;
                if audit.differences.len() < NAMED {
                    audit.differences.push(Difference {
                        values,
                        counter: counters[index].clone(),
                        bucket: Bucket { precision: kept.precision, start },
                        near: near.number(),
                        far: far.number(),
                    });
                }
                less.insert((index, start), near);
            } else if far.lacks(&near) {
                audit.late += 1;
                late.insert((index, start), near);
            }
        }
        self.put(values, kept.precision, counters, late, false).await?;
        match right {
            Some(Side::Near) => self.put(values, kept.precision, counters, less, true).await,
            Some(Side::Far) if !less.is_empty() => {
                let affected: BTreeSet<_> = less.keys().map(|(index, _)| counters[*index].clone()).collect();
                let affected: Vec<_> = affected.into_iter().collect();
                // With hits of the coarsest precision returns what they were of the lifetime.
                let counts = self.listed.kept.iter().filter(|(values, _)| *values == Values::Counts);
                let is_coarsest = counts.map(|(_, kept)| kept.precision).max() == Some(kept.precision);
                let adds = if is_coarsest { Adds::Hits } else { Adds::Samples };
                let starts: Vec<_> = starts.iter().copied().filter(|start| *start >= first).collect();
                audit.refused += restore(&self.archive, values, kept, adds, &affected, &starts).await?;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Reads what at least one of the stores has: the far one first, since the near one only gets more meanwhile.
    async fn read(
        &self,
        values: Values,
        precision: Precision,
        counters: &[CounterName],
        starts: &[Timestamp],
    ) -> Result<Found, Error> {
        let mut found = Found::default();
        let (near, far): (&dyn Store, &dyn Store) = (&*self.archive.near, &*self.archive.far);
        for (side, store) in [(1, far), (0, near)] {
            match values {
                Values::Counts => found.counts(side, store, precision, counters, starts).await?,
                Values::Visitors => found.visitors(side, store, precision, counters, starts).await?,
                // They are not compared.
                Values::Distributions => {}
            }
        }
        for place in std::mem::take(&mut found.unknown) {
            found.all.remove(&place);
        }
        Ok(found)
    }

    /// Puts values of the near store into the far one.
    async fn put(
        &self,
        values: Values,
        precision: Precision,
        counters: &[CounterName],
        some: BTreeMap<Place, Value>,
        replaces: bool,
    ) -> Result<(), Error> {
        let (Some(kept), false) = (self.archive.kept_of(values, precision), some.is_empty()) else {
            return Ok(());
        };
        let mut page = Page::new(self.began, kept);
        page.replaces = replaces;
        for ((index, start), value) in some {
            if page.counters.last() != Some(&counters[index]) {
                page.counters.push(counters[index].clone());
            }
            let index = page.counters.len() - 1;
            match value {
                Value::Count(count) => page.counts.entry(start).or_default().push((index, count)),
                Value::Visitors(sketch) => page.visitors.entry(start).or_default().push((index, sketch)),
            }
        }
        if values == Values::Counts && !replaces {
            // They grew by what came late.
            let lifetimes = self.archive.near.lifetimes(&page.counters).await?;
            page.lifetimes = lifetimes.into_iter().map(|lifetime| lifetime.unwrap_or(0)).collect();
        }
        self.archive.far.put(&page).await
    }
}

/// A counter by its index on a page, and the start of a bucket.
type Place = (usize, Timestamp);

/// Value that one store has of a bucket.
#[derive(Debug)]
enum Value {
    Count(u64),
    Visitors(Sketch),
}

impl Value {
    /// Returns whether the other has something that this has not.
    fn lacks(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Count(this), Self::Count(other)) => this < other,
            (Self::Visitors(this), Self::Visitors(other)) => {
                let mut union = this.clone();
                union.merge(other);
                union != *this
            }
            _ => false,
        }
    }

    fn number(&self) -> u64 {
        match self {
            Self::Count(count) => *count,
            Self::Visitors(sketch) => sketch.estimate(),
        }
    }
}

/// Values that the near and the far store have of a page.
#[derive(Debug, Default)]
struct Found {
    all: BTreeMap<Place, [Value; 2]>,
    unknown: BTreeSet<Place>,
    unreadable: u64,
}

impl Found {
    fn note(&mut self, side: usize, place: Place, value: Value) {
        let nothing = || match value {
            Value::Count(_) => [Value::Count(0), Value::Count(0)],
            Value::Visitors(_) => [Value::Visitors(Sketch::new()), Value::Visitors(Sketch::new())],
        };
        let both = self.all.entry(place).or_insert_with(nothing);
        both[side] = value;
    }

    fn note_unreadable(&mut self, counter: usize, starts: &[Timestamp]) {
        self.unreadable += 1;
        self.unknown.extend(starts.iter().map(|start| (counter, *start)));
    }

    async fn counts(
        &mut self,
        side: usize,
        store: &dyn Store,
        precision: Precision,
        counters: &[CounterName],
        starts: &[Timestamp],
    ) -> Result<(), Error> {
        let (Some(&first), Some(last)) = (starts.first(), starts.last()) else { return Ok(()) };
        let readings = store.samples(counters, precision, first..last.plus(1), u32::MAX).await?;
        for (index, reading) in readings.into_iter().enumerate() {
            match reading {
                Ok(Reading { samples, unreadable }) => {
                    for Sample { start, count } in samples {
                        self.note(side, (index, start), Value::Count(count));
                    }
                    unreadable.iter().for_each(|unreadable| self.note_unreadable(index, &unreadable.buckets));
                }
                Err(_) => self.note_unreadable(index, starts),
            }
        }
        Ok(())
    }

    async fn visitors(
        &mut self,
        side: usize,
        store: &dyn Store,
        precision: Precision,
        counters: &[CounterName],
        starts: &[Timestamp],
    ) -> Result<(), Error> {
        for &start in starts {
            let sketches = store.sketches(counters, Bucket { precision, start }).await?;
            for (index, sketch) in sketches.into_iter().enumerate() {
                match sketch {
                    Ok(sketch) if sketch.is_empty() => {}
                    Ok(sketch) => self.note(side, (index, start), Value::Visitors(sketch)),
                    Err(_) => self.note_unreadable(index, &[start]),
                }
            }
        }
        Ok(())
    }
}
