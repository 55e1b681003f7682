use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use crate::ledger::Ledger;
use crate::sketch::STANDARD_ERROR;
use crate::tally::Tally;
use crate::{
    Bucket, CounterName, Error, ErrorKind, Grid, Health, Precision, Precisions, Sample, Store, Timestamp,
};

/// The reader's face: what the store has, which lags behind what was recorded by one flush.
///
/// ```
/// use counter_core::{Counters, MemoryStore, Precision, Timestamp};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mut counters = Counters::builder(MemoryStore::new()).build()?;
/// let recorder = counters.recorder();
/// recorder.record(recorder.counter("hits"), None);
/// counters.flush().await?;
///
/// let (hits, minute) = ("hits".parse()?, Precision::try_from(60)?);
/// let last_two_hours = Timestamp::now().minus(7200)..Timestamp::now().plus(60);
/// let series = counters.stats().series(&hits, minute, last_two_hours).await?;
/// assert_eq!(series.total(), 1);
/// assert_eq!(series.samples.len(), 1);
/// assert_eq!(series.zero_filled().count(), 121);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Stats<S> {
    store: S,
    tally: Arc<Tally>,
    salt_epoch: Precision,
}

/// The samples of one counter at one precision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Series {
    /// The width of the buckets.
    pub precision: Precision,
    /// What was asked for: buckets that start in here, the end left out.
    pub range: Range<Timestamp>,
    /// The buckets that have a count, ascending.
    pub samples: Vec<Sample>,
}

/// An estimate of how many different visitors there were.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Uniques {
    /// The estimate.
    pub visitors: u64,
    /// Its standard error, as a fraction of it: two estimates in three are closer than this.
    pub standard_error: f64,
}

/// A page of the list of known counters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Known {
    /// The counters by name, with the precisions that they have samples of.
    pub counters: Vec<(CounterName, Vec<Precision>)>,
    /// The last of them when there may be more: ask for what comes after it.
    pub next: Option<CounterName>,
}

/// Buckets that one read may touch, over all its counters.
const BUCKETS: u64 = 10_000;
/// Samples that one read may return, over all its counters.
const SAMPLES: u64 = 300_000;
/// Counters that a ranking may have to look at.
const COUNTERS: u64 = 10_000;
/// Sketches that one read may touch: 12 MB from the store at most.
const SKETCHES: u64 = 1000;
/// Sketches that one read may have the store count.
const COUNTED: u64 = 10_000;
/// Counters on a page.
const PAGE: usize = 1000;

impl<S: Store> Stats<S> {
    pub(crate) const fn new(store: S, tally: Arc<Tally>, salt_epoch: Precision) -> Self {
        Self { store, tally, salt_epoch }
    }

    /// The samples of a counter whose buckets start in `range`.
    ///
    /// # Errors
    /// When the precision is not kept, the range is empty or has more than 10,000 buckets, or the store
    /// cannot be read.
    pub async fn series(
        &self,
        counter: &CounterName,
        precision: Precision,
        range: Range<Timestamp>,
    ) -> Result<Series, Error> {
        check(&self.tally.grid.counts, precision, &range, 1, BUCKETS)?;
        let series = self.several(std::slice::from_ref(counter), precision, range.clone()).await?;
        let samples = series.into_iter().next().map_or_else(Vec::new, |series| series.samples);
        Ok(Series { precision, range, samples })
    }

    /// The samples of several counters, in their order, by one exchange with each shard.
    ///
    /// # Errors
    /// When the precision is not kept, the range is empty, counters times buckets are more than 300,000,
    /// or the store cannot be read.
    pub async fn several(
        &self,
        counters: &[CounterName],
        precision: Precision,
        range: Range<Timestamp>,
    ) -> Result<Vec<Series>, Error> {
        check(&self.tally.grid.counts, precision, &range, counters.len() as u64, SAMPLES)?;
        let all = self.store.samples(counters, precision, range.clone()).await?;
        Ok(all.into_iter().map(|samples| Series { precision, range: range.clone(), samples }).collect())
    }

    /// All that each of these counters ever counted, also of what has left retention.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn lifetimes(&self, counters: &[CounterName]) -> Result<Vec<u64>, Error> {
        self.store.lifetimes(counters).await
    }

    /// The counters with the most hits in the buckets that start in `range`, of those that `wanted`
    /// accepts: at most `limit` of them, the first first, and by name where they are equal. Exact, since
    /// it looks at every counter.
    ///
    /// # Errors
    /// When there are more than 10,000 counters, or as [`several`](Self::several).
    pub async fn top(
        &self,
        precision: Precision,
        range: Range<Timestamp>,
        limit: usize,
        wanted: impl Fn(&CounterName) -> bool,
    ) -> Result<Vec<(CounterName, u64)>, Error> {
        let mut sums = Vec::new();
        let (mut after, mut seen) = (None, 0);
        loop {
            let page = self.known(after.as_ref(), PAGE).await?;
            seen += page.counters.len() as u64;
            if seen > COUNTERS {
                return Err(Error::new(ErrorKind::TooManyCounters { most: COUNTERS }));
            }
            let names: Vec<_> = page.counters.into_iter().map(|(name, _)| name).filter(&wanted).collect();
            let series = self.several(&names, precision, range.clone()).await?;
            sums.extend(names.into_iter().zip(series).map(|(name, series)| (name, series.total())));
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        sums.retain(|(_, sum)| *sum > 0);
        sums.sort_by(|(one, a), (other, b)| b.cmp(a).then_with(|| one.cmp(other)));
        sums.truncate(limit);
        Ok(sums)
    }

    /// Removes a counter: samples, visitors, and its lifetime total. Hits that come later begin it anew,
    /// and so do those that some instance has not flushed yet.
    ///
    /// # Errors
    /// When the store does not take it; call again.
    pub async fn forget(&self, counter: &CounterName) -> Result<(), Error> {
        self.store.forget(counter, &self.tally.grid, Timestamp::now()).await?;
        self.tally.forget(counter);
        Ok(())
    }

    /// The sum of the samples of a counter whose buckets start in `range`.
    ///
    /// # Errors
    /// As [`series`](Self::series).
    pub async fn total(
        &self,
        counter: &CounterName,
        precision: Precision,
        range: Range<Timestamp>,
    ) -> Result<u64, Error> {
        Ok(self.series(counter, precision, range).await?.total())
    }

    /// How many different visitors these counters had together, in the buckets that start in `range`.
    ///
    /// # Errors
    /// When the precision is not one of those of visitors, the range is empty, counters times buckets
    /// are more than 1,000, or the store cannot be read.
    pub async fn uniques(
        &self,
        counters: &[CounterName],
        precision: Precision,
        range: Range<Timestamp>,
    ) -> Result<Uniques, Error> {
        check(&self.tally.grid.visitors, precision, &range, counters.len() as u64, SKETCHES)?;
        let starts = precision.starts(range);
        let buckets: Vec<_> = starts.map(|start| Bucket { precision, start }).collect();
        let union = self.store.visitors(counters, &buckets).await?;
        Ok(Uniques { visitors: union.estimate(), standard_error: STANDARD_ERROR })
    }

    /// How many different visitors each of these counters had, in their order, in the buckets that start in
    /// `range`: by one exchange with each shard, and without their sketches where the store can count.
    ///
    /// ```
    /// use counter_core::{Counters, MemoryStore, Precision, Timestamp, VisitorKey};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let mut counters = Counters::builder(MemoryStore::new()).build()?;
    /// let recorder = counters.recorder();
    /// let (home, about) = (recorder.counter("/"), recorder.counter("/about"));
    /// for person in [b"one", b"two"] {
    ///     recorder.record(home, Some(VisitorKey::new([7; 16]).visitor(&[person])));
    /// }
    /// recorder.record(about, None);
    /// counters.flush().await?;
    ///
    /// let (hour, now) = (Precision::try_from(3600)?, Timestamp::now());
    /// let names = ["/".parse()?, "/about".parse()?];
    /// let uniques = counters.stats().uniques_of_each(&names, hour, now.minus(3600)..now.plus(3600)).await?;
    /// assert_eq!((uniques[0].visitors, uniques[1].visitors), (2, 0));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// When the precision is not one of those of visitors, the range is empty, counters times buckets
    /// are more than 10,000, or the store cannot be read.
    pub async fn uniques_of_each(
        &self,
        counters: &[CounterName],
        precision: Precision,
        range: Range<Timestamp>,
    ) -> Result<Vec<Uniques>, Error> {
        check(&self.tally.grid.visitors, precision, &range, counters.len() as u64, COUNTED)?;
        let starts = precision.starts(range.start..range.end);
        let buckets: Vec<_> = starts.map(|start| Bucket { precision, start }).collect();
        let counts = self.store.visitor_counts(counters, &buckets).await?;
        let uniques = |visitors| Uniques { visitors, standard_error: STANDARD_ERROR };
        Ok(counts.into_iter().map(uniques).collect())
    }

    /// Up to `limit` counters, at most 1,000, in the order of their names: those after `after`, or the
    /// first ones.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn known(&self, after: Option<&CounterName>, limit: usize) -> Result<Known, Error> {
        let limit = limit.clamp(1, PAGE);
        // No name contains a control character, so this is the smallest text after `after`.
        let from = after.map_or_else(String::new, |after| format!("{after}\0"));
        let precisions: Vec<_> = self.tally.grid.counts.iter().map(|kept| kept.precision).collect();
        let mut counters = BTreeMap::<_, Vec<_>>::new();
        for (name, precision) in self.store.known(&precisions, &from, limit + 1).await? {
            counters.entry(name).or_default().push(precision);
        }
        let more = counters.len() > limit;
        let counters: Vec<_> = counters.into_iter().take(limit).collect();
        let last = counters.last().map(|(name, _)| name.clone());
        Ok(Known { counters, next: last.filter(|_| more) })
    }

    /// Whether there is such a counter: in the store, or in this process and not flushed yet.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn knows(&self, counter: &CounterName) -> Result<bool, Error> {
        if self.tally.contains(counter) {
            return Ok(true);
        }
        let precisions: Vec<_> = self.tally.grid.counts.iter().map(|kept| kept.precision).collect();
        let first = self.store.known(&precisions, counter, 1).await?;
        Ok(first.iter().any(|(name, _)| name == counter))
    }

    /// The buckets that are kept.
    #[must_use]
    pub fn grid(&self) -> &Grid {
        &self.tally.grid
    }

    /// The width of a salt epoch: somebody who comes in several of them counts as a visitor in each,
    /// unless visitors are told apart by something stable.
    #[must_use]
    pub const fn salt_epoch(&self) -> Precision {
        self.salt_epoch
    }

    /// What happened to everything this process has seen.
    #[must_use]
    pub fn ledger(&self) -> Ledger {
        self.tally.ledger()
    }

    /// How this process's way to the store is doing.
    #[must_use]
    pub fn health(&self) -> Health {
        self.tally.health(self.store.connections(), self.store.clock_skew())
    }
}

impl Series {
    /// The sum of the samples.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.samples.iter().map(|sample| sample.count).fold(0, u64::saturating_add)
    }

    /// A sample for every bucket that starts in the range, 0 where nothing was counted.
    pub fn zero_filled(&self) -> impl Iterator<Item = Sample> {
        let mut samples = self.samples.iter().copied().peekable();
        self.precision.starts(self.range.clone()).map(move |start| {
            samples.next_if(|sample| sample.start == start).unwrap_or(Sample { start, count: 0 })
        })
    }
}

fn check(
    set: &Precisions,
    precision: Precision,
    range: &Range<Timestamp>,
    counters: u64,
    most: u64,
) -> Result<(), Error> {
    if set.retention(precision).is_none() {
        return Err(Error::new(ErrorKind::UnknownPrecision { asked: precision, kept: set.to_string() }));
    }
    if range.is_empty() {
        return Err(Error::new(ErrorKind::EmptyRange));
    }
    let seconds = range.end.as_unix() - range.start.as_unix();
    let asked = seconds.div_ceil(precision.as_seconds().into()).saturating_mul(counters);
    if asked > most { Err(Error::new(ErrorKind::TooManyBuckets { asked, most })) } else { Ok(()) }
}
