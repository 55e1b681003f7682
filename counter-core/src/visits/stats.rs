mod distributions;
mod labels;
mod store_record;

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::Arc;

pub use distributions::{Distributions, Slowest};
pub use labels::LabelRanking;

use futures_util::future::try_join_all;

#[cfg(feature = "dump")]
use super::dump::{Dump, Restore};
use super::ledger::{Health, Hint, Ledger, Metric};
use super::source::{SourceStatus, Sources};
use super::store::{KnownReading, Reading, Store, Unreadable};
use super::tally::Tally;
use crate::error::{Error, ErrorKind};
use crate::family::name::CounterName;
use crate::sketch::STANDARD_ERROR;
use crate::time::{Bucket, Grid, Precision, Precisions, Sample, Timestamp};
use crate::visits::ledger::metrics;

/// A handle that reads what the store has, which lags behind what was recorded by one flush.
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
pub struct Stats {
    store: Arc<dyn Store>,
    tally: Arc<Tally>,
    salt_epoch: Precision,
    sources: Sources,
    reach: Arc<Grid>,
}

/// The samples of one counter at one precision.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Series {
    /// The width of the buckets.
    pub precision: Precision,
    /// The range that was asked for: buckets that start in it, with its end left out.
    pub range: Range<Timestamp>,
    /// The buckets that have a count, ascending.
    pub samples: Vec<Sample>,
    /// Entries that the store could not read, if any, with the [buckets](Unreadable::buckets) that are
    /// therefore unknown. Fields that are not the start of a bucket are named here as well, and do no harm.
    pub unreadable: Option<Unreadable>,
}

/// An estimate of how many different visitors there were.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Uniques {
    /// The estimate.
    pub visitors: u64,
    /// The standard error, as a fraction of the estimate: two estimates in three are closer than this.
    pub standard_error: f64,
}

/// A page of the list of known counters.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CounterPage {
    /// The counters by name, each with the precisions that it has samples of.
    pub counters: Vec<(CounterName, Vec<Precision>)>,
    /// The last counter of this page if there may be more: ask for what comes after it.
    pub next: Option<CounterName>,
    /// Entries in the list of counters that are not counters, and lists that cannot be read.
    pub unreadable: Vec<Unreadable>,
}

/// The counters with the most hits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Ranking {
    /// The counters with their hits, in descending order of hits, and by name where these are equal.
    pub counters: Vec<(CounterName, u64)>,
    /// Entries that cannot be read, of counters that are therefore not ranked; 1,000 at most.
    pub unreadable: Vec<Unreadable>,
}

/// The number of counters that a ranking may have to look at.
const COUNTERS: u64 = 10_000;
/// The number of samples that a ranking may have to look at, in several reads.
const MAX_RANKED: u64 = 10_000_000;

/// The portions of a ranking that are read at once.
const AT_ONCE: usize = 4;
/// The number of unreadable entries that a ranking names.
const NAMED: usize = 1000;
/// The number of buckets that may wait for their last copy into an archive before a hint says so.
const WAITING: u32 = 3;
/// The number of counters on a page.
const PAGE: usize = 1000;

impl Stats {
    pub(crate) fn new(
        store: Arc<dyn Store>,
        tally: Arc<Tally>,
        salt_epoch: Precision,
        sources: Sources,
    ) -> Self {
        store.attach(&tally.grid);
        let reach =
            store.reach().map_or_else(|| Arc::clone(&tally.grid), |more| tally.grid.reaching(more).into());
        Self { store, tally, salt_epoch, sources, reach }
    }

    /// Returns the samples of a counter whose buckets start in `range`.
    ///
    /// # Errors
    /// Fails when the precision is not kept, when the range is empty or has more than 10,000 buckets, or when
    /// the store cannot be read, at all or under the key of this counter.
    pub async fn series(
        &self,
        counter: &CounterName,
        precision: Precision,
        range: Range<Timestamp>,
    ) -> Result<Series, Error> {
        self.check(precision, &range, 1, Self::MAX_BUCKETS)?;
        let several = self.series_many(std::slice::from_ref(counter), precision, range.clone()).await?;
        let nothing = || Ok(Series::new(precision, range, Vec::new()));
        Ok(several.into_iter().next().unwrap_or_else(nothing)?)
    }

    /// Returns the samples of several counters, in their order, by one exchange with each shard. A counter
    /// whose key holds something else does not affect the others.
    ///
    /// # Errors
    /// Fails when the precision is not kept, when the range is empty, when counters times buckets exceed
    /// 300,000, or when the store cannot be read.
    pub async fn series_many(
        &self,
        counters: &[CounterName],
        precision: Precision,
        range: Range<Timestamp>,
    ) -> Result<Vec<Result<Series, Unreadable>>, Error> {
        let kept = self.check(precision, &range, counters.len() as u64, Self::MAX_SAMPLES)?;
        let all = self.store.samples(counters, precision, range.clone(), kept).await?;
        let series = |reading: Reading| Series {
            precision,
            range: range.clone(),
            samples: reading.samples,
            unreadable: reading.unreadable,
        };
        Ok(all.into_iter().map(|reading| reading.map(series)).collect())
    }

    /// Returns a [dump](crate::dump) of everything that the store has.
    #[cfg(feature = "dump")]
    #[must_use]
    pub fn dump(&self) -> Dump {
        Dump::new(Arc::clone(&self.store), Arc::clone(&self.reach))
    }

    /// Returns a restore into the store, for [`Counters::restore`](crate::Counters::restore).
    #[cfg(feature = "dump")]
    pub(crate) fn restore(&self) -> Restore {
        Restore::new(Arc::clone(&self.store), Arc::clone(&self.tally.grid))
    }

    /// Returns the state of every source that this process has opened, by name.
    #[must_use]
    pub fn sources(&self) -> Vec<SourceStatus> {
        self.sources.statuses()
    }

    /// Returns everything that each of these counters ever counted, including what has left retention.
    ///
    /// Hits that another program counted in the layout of *Redis in Action* are in samples alone, and in no lifetime:
    /// that layout has no totals. A counter that only such a program feeds has the lifetime 0.
    ///
    /// # Errors
    /// Fails when the store cannot be read, at all or for one of the counters.
    pub async fn lifetimes(&self, counters: &[CounterName]) -> Result<Vec<u64>, Error> {
        self.lifetimes_by_counter(counters).await?.into_iter().map(|total| Ok(total?)).collect()
    }

    /// Returns what [`lifetimes`](Self::lifetimes) does, but a total that is not a number does not affect the
    /// others.
    ///
    /// # Errors
    /// Fails when the store cannot be read.
    pub async fn lifetimes_by_counter(
        &self,
        counters: &[CounterName],
    ) -> Result<Vec<Result<u64, Unreadable>>, Error> {
        self.store.lifetimes(counters).await
    }

    /// Returns the counters with the most hits in the buckets that start in `range`, of those that `wanted`
    /// accepts: at most `limit` of them. Values of labels are not among them: see [`label`](Self::label).
    ///
    /// The ranking is exact, since it looks at every counter. A counter with a bucket that cannot be read is
    /// not ranked, but named.
    ///
    /// # Errors
    /// Fails when there are more than 10,000 counters, when the wanted ones times buckets exceed 10,000,000,
    /// when the precision is not kept, when the range is empty or has more than 10,000 buckets, or when the
    /// store cannot be read.
    pub async fn top(
        &self,
        precision: Precision,
        range: Range<Timestamp>,
        limit: usize,
        wanted: impl Fn(&CounterName) -> bool,
    ) -> Result<Ranking, Error> {
        self.check(precision, &range, 1, Self::MAX_BUCKETS)?;
        let mut ranking = Ranking::default();
        let (mut after, mut seen, mut requested) = (None, 0, 0);
        loop {
            let page = self.list(&[precision], after.as_ref(), PAGE, range.start).await?;
            let page = without_labels(page);
            seen += page.counters.len() as u64;
            if seen > COUNTERS {
                return Err(Error::new(ErrorKind::TooManyCounters { most: COUNTERS }));
            }
            ranking.unreadable.extend(page.unreadable);
            let names: Vec<_> = page.counters.into_iter().map(|(name, _)| name).filter(&wanted).collect();
            requested += buckets(precision, &range) * names.len() as u64;
            if requested > MAX_RANKED {
                return Err(Error::new(ErrorKind::TooManyBuckets { asked: requested, most: MAX_RANKED }));
            }
            self.rank(&names, precision, &range, &mut ranking).await?;
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        ranking.sort();
        ranking.counters.truncate(limit);
        Ok(ranking)
    }

    /// Adds counters with their hits to a ranking.
    async fn rank(
        &self,
        names: &[CounterName],
        precision: Precision,
        range: &Range<Timestamp>,
        ranking: &mut Ranking,
    ) -> Result<(), Error> {
        let buckets = buckets(precision, range);
        let portion = usize::try_from(Self::MAX_SAMPLES / buckets).unwrap_or(PAGE).clamp(1, PAGE);
        for names in names.chunks(portion * AT_ONCE) {
            let portions = names.chunks(portion);
            let series = portions.map(|names| self.series_many(names, precision, range.clone()));
            let series = try_join_all(series).await?.into_iter().flatten();
            for (name, series) in names.iter().zip(series) {
                match series.and_then(|series| series.known_total()) {
                    Ok(0) => {}
                    Ok(total) => ranking.counters.push((name.clone(), total)),
                    Err(unreadable) => ranking.unreadable.push(unreadable),
                }
            }
        }
        Ok(())
    }

    /// Removes a counter: its samples, its visitors, and its lifetime total. Later hits begin it anew, and so
    /// do hits that an instance has not flushed yet.
    ///
    /// # Errors
    /// Fails when the store does not accept it; call again.
    pub async fn forget(&self, counter: &CounterName) -> Result<(), Error> {
        self.store.forget(counter, &self.tally.grid, Timestamp::now()).await?;
        self.tally.forget(counter);
        Ok(())
    }

    /// Returns the sum of the samples of a counter whose buckets start in `range`.
    ///
    /// # Errors
    /// Fails as [`series`](Self::series) does, and when the count of one of the buckets cannot be read.
    pub async fn total(
        &self,
        counter: &CounterName,
        precision: Precision,
        range: Range<Timestamp>,
    ) -> Result<u64, Error> {
        Ok(self.series(counter, precision, range).await?.known_total()?)
    }

    /// Returns how many different visitors these counters had together, in the buckets that start in `range`.
    ///
    /// # Errors
    /// Fails when the precision is not one of those of visitors, when the range is empty, when counters times
    /// buckets exceed 1,000, or when the store cannot be read, at all or under the key of one of these
    /// buckets.
    pub async fn uniques(
        &self,
        counters: &[CounterName],
        precision: Precision,
        range: Range<Timestamp>,
    ) -> Result<Uniques, Error> {
        check(&self.tally.grid.visitors, precision, &range, counters.len() as u64, Self::MAX_SKETCHES)?;
        let starts = precision.starts(range);
        let buckets: Vec<_> = starts.map(|start| Bucket { precision, start }).collect();
        let union = self.store.visitors(counters, &buckets).await?;
        Ok(Uniques { visitors: union.estimate(), standard_error: STANDARD_ERROR })
    }

    /// Returns how many different visitors each of these counters had, in their order, in the buckets that
    /// start in `range`.
    ///
    /// It takes one exchange with each shard, without transferring sketches where the store can count. A
    /// counter whose visitor key holds something else does not affect the others.
    ///
    /// ```
    /// use counter_core::visitor::VisitorKey;
    /// use counter_core::{Counters, MemoryStore, Precision, Timestamp};
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
    /// let uniques = counters.stats().uniques_by_counter(&names, hour, now.minus(3600)..now.plus(3600)).await?;
    /// let visitors: Vec<_> = uniques.into_iter().flatten().map(|uniques| uniques.visitors).collect();
    /// assert_eq!(visitors, [2, 0]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Fails when the precision is not one of those of visitors, when the range is empty, when counters times
    /// buckets exceed 10,000, or when the store cannot be read.
    pub async fn uniques_by_counter(
        &self,
        counters: &[CounterName],
        precision: Precision,
        range: Range<Timestamp>,
    ) -> Result<Vec<Result<Uniques, Unreadable>>, Error> {
        let uniques = self.uniques_by_range(counters, precision, &[range]).await?;
        Ok(uniques.into_iter().flatten().collect())
    }

    /// Returns how many different visitors each of these counters had in each of these ranges, by the buckets that start
    /// in it: for a chart, those of every bucket and those of all of them together.
    ///
    /// It takes one exchange with each shard, as [`uniques_by_counter`](Self::uniques_by_counter) does. An entry that
    /// cannot be read affects those ranges of its counter in which it lies.
    ///
    /// ```
    /// use counter_core::visitor::VisitorKey;
    /// use counter_core::{Counters, MemoryStore, Precision, Timestamp};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let mut counters = Counters::builder(MemoryStore::new()).build()?;
    /// let (recorder, hour) = (counters.recorder(), Precision::try_from(3600)?);
    /// let this = hour.bucket(Timestamp::now()).start;
    /// let visitor = |person: &[u8]| VisitorKey::new([7; 16]).visitor(&[person]);
    /// # let at = |person, at| recorder.record_at(recorder.counter("/"), visitor(person), at, std::num::NonZeroU32::MIN);
    /// # at(b"one", this.minus(3600));
    /// # at(b"two", this.minus(3600));
    /// # at(b"two", this);
    /// // Two visitors in the hour before this one, of whom one came again.
    /// counters.flush().await?;
    ///
    /// let ranges = [this.minus(3600)..this, this..this.plus(1), this.minus(3600)..this.plus(1)];
    /// let uniques = counters.stats().uniques_by_range(&["/".parse()?], hour, &ranges).await?;
    /// let visitors: Vec<_> = uniques.concat().into_iter().flatten().map(|uniques| uniques.visitors).collect();
    /// assert_eq!(visitors, [2, 1, 2]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Fails when the precision is not one of those of visitors, when one of the ranges is empty, when counters times
    /// the buckets of all ranges exceed 10,000, or when the store cannot be read.
    pub async fn uniques_by_range(
        &self,
        counters: &[CounterName],
        precision: Precision,
        ranges: &[Range<Timestamp>],
    ) -> Result<Vec<Vec<Result<Uniques, Unreadable>>>, Error> {
        let mut asked = 0_u64;
        for range in ranges {
            check(&self.tally.grid.visitors, precision, range, 0, 0)?;
            asked = buckets(precision, range).saturating_add(asked);
        }
        let (asked, most) = (asked.saturating_mul(counters.len() as u64), Self::MAX_COUNTED_SKETCHES);
        if asked > most {
            return Err(Error::new(ErrorKind::TooManyBuckets { asked, most }));
        }
        let counts = self.store.visitor_counts(counters, precision, ranges).await?;
        let uniques = |visitors| Uniques { visitors, standard_error: STANDARD_ERROR };
        let each = |counts: Vec<Result<u64, _>>| counts.into_iter().map(|count| count.map(uniques)).collect();
        Ok(counts.into_iter().map(each).collect())
    }

    /// Returns up to `limit` counters, at most 1,000, in the order of their names: those after `after`, or
    /// the first ones. Values of labels are not among them: see [`label`](Self::label).
    ///
    /// # Errors
    /// Fails when the store cannot be read.
    pub async fn list_counters(
        &self,
        after: Option<&CounterName>,
        limit: usize,
    ) -> Result<CounterPage, Error> {
        let precisions: Vec<_> = self.tally.grid.counts.iter().map(|kept| kept.precision).collect();
        let limit = limit.clamp(1, PAGE);
        let mut first = self.list(&precisions, after, limit, Timestamp::MIN).await?;
        let has_labels = first.counters.iter().any(|(name, _)| name.label().is_some());
        first = without_labels(first);
        // What lies behind labels is on the same page.
        if has_labels
            && let Some(after) = &first.next
            && limit > first.counters.len()
        {
            let rest =
                self.list(&precisions, Some(after), limit - first.counters.len(), Timestamp::MIN).await?;
            first.counters.extend(rest.counters);
            first.next = rest.next;
        }
        Ok(first)
    }

    async fn list(
        &self,
        precisions: &[Precision],
        after: Option<&CounterName>,
        limit: usize,
        since: Timestamp,
    ) -> Result<CounterPage, Error> {
        // No name contains a control character, so this is the smallest text after `after`.
        let from = after.map_or_else(String::new, |after| format!("{after}\0"));
        let mut counters = BTreeMap::<_, Vec<_>>::new();
        let KnownReading { counters: known, unreadable, .. } =
            self.store.known_since(precisions, &from, limit + 1, since).await?;
        for (name, precision) in known {
            counters.entry(name).or_default().push(precision);
        }
        let more = counters.len() > limit;
        let counters: Vec<_> = counters.into_iter().take(limit).collect();
        let last = counters.last().map(|(name, _)| name.clone());
        Ok(CounterPage { counters, next: last.filter(|_| more), unreadable })
    }

    /// Returns, for each of these counters, whether there is such a one: in the store, or in this process and
    /// not flushed yet. It takes one exchange with each shard that they belong to. A list of counters that
    /// cannot be read does not affect the counters of other shards.
    ///
    /// # Errors
    /// Fails when the store cannot be read.
    pub async fn contains_counters(
        &self,
        counters: &[CounterName],
    ) -> Result<Vec<Result<bool, Unreadable>>, Error> {
        let is_here = |counter: &CounterName| self.tally.find(counter).is_some();
        let elsewhere: Vec<_> = counters.iter().filter(|counter| !is_here(counter)).cloned().collect();
        let precisions: Vec<_> = self.tally.grid.counts.iter().map(|kept| kept.precision).collect();
        let stored = match elsewhere.is_empty() {
            true => Vec::new(),
            false => self.store.contains(&elsewhere, &precisions).await?,
        };
        let stored: HashMap<_, _> = elsewhere.iter().zip(stored).collect();
        Ok(counters.iter().map(|counter| stored.get(counter).cloned().unwrap_or(Ok(true))).collect())
    }

    /// Returns the buckets that are kept.
    #[must_use]
    pub fn grid(&self) -> &Grid {
        &self.tally.grid
    }

    /// Returns the buckets that can be read: those that are kept, and those that the archive of the store keeps for
    /// longer, if it has one.
    ///
    /// ```
    /// use counter_core::{Counters, MemoryStore};
    ///
    /// let counters = Counters::builder(MemoryStore::new()).build()?;
    /// assert_eq!(counters.stats().reach(), counters.stats().grid());
    /// # Ok::<(), counter_core::BuildError>(())
    /// ```
    #[must_use]
    pub fn reach(&self) -> &Grid {
        &self.reach
    }

    /// Returns the width of a salt epoch. A visitor who comes in several epochs counts once in each, unless
    /// visitors are told apart by something stable.
    #[must_use]
    pub const fn salt_epoch(&self) -> Precision {
        self.salt_epoch
    }

    /// Returns the account of every request and every hit that this process has seen.
    #[must_use]
    pub fn ledger(&self) -> Ledger {
        self.tally.ledger()
    }

    /// Returns the start of the oldest bucket with hits of this process that the store has not acknowledged; `None` if it
    /// has all of them. Buckets that end before it are complete, as far as this process is concerned.
    ///
    /// ```
    /// use counter_core::{Counters, MemoryStore, Timestamp};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let mut counters = Counters::builder(MemoryStore::new()).build()?;
    /// let (recorder, stats, now) = (counters.recorder(), counters.stats(), Timestamp::now());
    /// recorder.record_at(recorder.counter("hits"), None, now, 1.try_into()?);
    /// assert_eq!(stats.held_since(now), Some(now));
    /// counters.flush().await?;
    /// assert_eq!(stats.held_since(now), None);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn held_since(&self, now: Timestamp) -> Option<Timestamp> {
        self.tally.held_since(now)
    }

    /// Returns the state of this process's connection to the store.
    #[must_use]
    pub fn health(&self) -> Health {
        let mut health = self.tally.health(self.store.connections(), self.store.clock_skew());
        health.archive = self.store.archive_health();
        if let Some(archive) = health.archive {
            let hints = [
                (archive.is_foreign, Hint::ARCHIVE_OF_ANOTHER_STORE),
                (archive.waiting_buckets > WAITING, Hint::ARCHIVE_BEHIND),
                (archive.unreadable > 0, Hint::ARCHIVE_INCOMPLETE),
                (archive.differing.is_some_and(|differing| differing > 0), Hint::ARCHIVE_DIFFERS),
            ];
            health.hints.extend(hints.into_iter().filter(|(holds, _)| *holds).map(|(_, hint)| hint));
        }
        health.hints.extend(self.store.hints());
        let sources = self.sources();
        if sources.iter().any(SourceStatus::stands_still) {
            health.hints.push(Hint::SOURCE_STANDS_STILL);
        }
        if sources.iter().any(|source| source.ledger.records.lost > 0) {
            health.hints.push(Hint::RECORDS_LOST);
        }
        health
    }

    /// Returns whether to log a line about this cause now: once a second for each cause, however many requests fail.
    #[doc(hidden)]
    #[must_use]
    pub fn admits_log_line(&self, cause: &'static str) -> bool {
        self.tally.log_limit.admits(cause)
    }

    /// Returns the [ledger](Self::ledger) and the [health](Self::health) as metrics, for an exporter.
    #[must_use]
    pub fn metrics(&self) -> Vec<Metric> {
        metrics(&self.ledger(), &self.health())
    }
}

impl Ranking {
    fn sort(&mut self) {
        self.counters.sort_by(|(one, a), (other, b)| b.cmp(a).then_with(|| one.cmp(other)));
        // Each page names the same unreadable list again.
        self.unreadable.sort_by(|one, other| one.key.cmp(&other.key));
        self.unreadable.dedup_by(|one, other| one.key == other.key);
        self.unreadable.truncate(NAMED);
    }
}

/// Leaves out the values of labels, and those that would follow on the next page.
fn without_labels(mut page: CounterPage) -> CounterPage {
    page.next = page.next.map(|next| if next.starts_with(CounterName::LABELS) { last_label() } else { next });
    page.counters.retain(|(name, _)| name.label().is_none());
    page
}

/// Returns the last of all names that values of labels could have.
fn last_label() -> CounterName {
    CounterName::new(&format!("{}{}", CounterName::LABELS, char::MAX)).expect("a name")
}

impl Series {
    /// Creates a series from samples that were read elsewhere, ascending, such as for a forecast.
    #[must_use]
    pub const fn new(precision: Precision, range: Range<Timestamp>, samples: Vec<Sample>) -> Self {
        Self { precision, range, samples, unreadable: None }
    }

    /// Returns the sum of the samples.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.samples.iter().map(|sample| sample.count).fold(0, u64::saturating_add)
    }

    /// Returns the sum of the samples, provided that every bucket is known.
    ///
    /// # Errors
    /// Fails when the count of a bucket could not be read.
    pub fn known_total(&self) -> Result<u64, Unreadable> {
        match &self.unreadable {
            Some(unreadable) if !unreadable.buckets.is_empty() => Err(unreadable.clone()),
            _ => Ok(self.total()),
        }
    }

    /// Returns whether the count of the bucket that begins here could not be read.
    #[must_use]
    pub fn is_unknown(&self, start: Timestamp) -> bool {
        let unreadable = self.unreadable.as_ref();
        unreadable.is_some_and(|unreadable| unreadable.buckets.binary_search(&start).is_ok())
    }

    /// Returns a sample for every bucket that starts in the range, 0 where nothing was counted; none for
    /// buckets whose count could not be read. Samples between the starts are added to the bucket that they
    /// lie in.
    pub fn zero_filled(&self) -> impl Iterator<Item = Sample> {
        let mut samples = self.samples.iter().peekable();
        let known = self.precision.starts(self.range.clone()).filter(|start| !self.is_unknown(*start));
        known.map(move |start| {
            let end = Bucket { precision: self.precision, start }.end();
            let mut count = 0_u64;
            while let Some(sample) = samples.next_if(|sample| sample.start < end) {
                if sample.start >= start {
                    count = count.saturating_add(sample.count);
                }
            }
            Sample { start, count }
        })
    }
}

impl Stats {
    /// The number of buckets that one read of a counter may touch.
    pub const MAX_BUCKETS: u64 = 10_000;

    /// The number of samples that one read may return, over all its counters.
    pub const MAX_SAMPLES: u64 = 300_000;

    /// The number of sketches that one read of [`uniques`](Self::uniques) may touch: at most 12 MB from the store.
    pub const MAX_SKETCHES: u64 = 1000;

    /// The number of sketches that one read of [`uniques_by_counter`](Self::uniques_by_counter) or
    /// [`uniques_by_range`](Self::uniques_by_range) may have the store count.
    pub const MAX_COUNTED_SKETCHES: u64 = 10_000;

    /// Returns how many samples of a precision of counts are kept, if this range of it may be read.
    fn check(
        &self,
        precision: Precision,
        range: &Range<Timestamp>,
        counters: u64,
        most: u64,
    ) -> Result<u32, Error> {
        check(&self.tally.grid.counts, precision, range, counters, most)
    }
}

/// Returns how many samples of a precision are kept, if this range of it may be read.
fn check(
    set: &Precisions,
    precision: Precision,
    range: &Range<Timestamp>,
    counters: u64,
    most: u64,
) -> Result<u32, Error> {
    let Some(kept) = set.retention(precision) else {
        return Err(Error::new(ErrorKind::UnknownPrecision { asked: precision, kept: set.to_string() }));
    };
    if range.is_empty() {
        return Err(Error::new(ErrorKind::EmptyRange));
    }
    let asked = buckets(precision, range).saturating_mul(counters);
    if asked > most {
        return Err(Error::new(ErrorKind::TooManyBuckets { asked, most }));
    }
    Ok(kept.samples.get())
}

fn buckets(precision: Precision, range: &Range<Timestamp>) -> u64 {
    let seconds = range.end.as_unix().saturating_sub(range.start.as_unix());
    seconds.div_ceil(precision.as_seconds().into())
}
