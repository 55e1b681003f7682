mod series;
mod coverage;
mod uniques;
mod listing;
mod distributions;
mod labels;
mod views;

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

pub use coverage::Coverage;
pub use distributions::{Distributions, Slowest};
pub use labels::LabelRanking;
pub use listing::CounterPage;
pub use listing::Ranking;
pub use series::Series;
pub use uniques::{Now, Uniques};

#[cfg(feature = "dump")]
use super::dump::{Dump, Restore};
use super::fleet::Fleet;
use super::ledger::{Health, Hint, Ledger, Metric};
use super::source::{SourceStatus, Sources};
use super::store::{Site, Store};
use super::tally::Tally;
use crate::document::DocumentStore;
use crate::error::{Error, ErrorKind};
use crate::family::errands::Errands;
use crate::family::name::CounterName;
use crate::family::store_id::StoreId;
use crate::time::{Grid, Precision, Precisions, Retention, Timestamp};
use crate::visits::ledger::metrics;
use crate::visits::store::identity::GridMismatch;
use crate::visits::store::{KnownQuery, identity};

/// A handle to read the store, which is up to a flush interval behind the recorded hits.
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
/// let (hits, minute) = ("hits".parse()?, Precision::MINUTE);
/// let last_two_hours = Timestamp::now().minus(7200)..Timestamp::now().plus(60);
/// let series = counters.stats().series(&hits, minute, last_two_hours).await?;
/// assert_eq!(series.total()?, 1);
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

/// Maximum number of unreadable entries in a ranking.
const MAX_UNREADABLE: usize = 1000;
/// Number of buckets that may wait for the final archive copy before we show a hint.
const MAX_WAITING_BUCKETS: u32 = 3;

impl Stats {
    pub(crate) fn new(
        store: Arc<dyn Store>,
        tally: Arc<Tally>,
        salt_epoch: Precision,
        sources: Sources,
    ) -> Self {
        store.attach(&tally.grid);
        let reach = store
            .info()
            .reach
            .map_or_else(|| Arc::clone(&tally.grid), |more| tally.grid.with_longest_retention(more).into());
        Self { store, tally, salt_epoch, sources, reach }
    }

    /// Returns a [dump](crate::dump) of the whole store.
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

    /// Returns the state of the sources opened by this process, sorted by name.
    #[must_use]
    pub fn sources(&self) -> Vec<SourceStatus> {
        self.sources.statuses()
    }

    /// Removes the samples, visitors and lifetime of a counter. However, it will be recreated by later hits,
    /// and also by hits which an instance has not flushed so far.
    ///
    /// In a [fleet](crate::fleet), this applies to all sites.
    ///
    /// If this is a page or a label value, its [views](CounterName::views) and its
    /// [pairs](crate::visits::LabelValues::by_page) will be removed, too. To find the pairs, this reads the names of all
    /// counters in the store.
    ///
    /// # Errors
    /// Returns an error if the store can't do this now, or if it can't list all counters, so that pairs may be
    /// left. It can be retried.
    pub async fn forget(&self, counter: &CounterName) -> Result<(), Error> {
        self.forget_in_store(counter).await?;
        for site in self.sites() {
            self.over(Arc::clone(&site.store)).forget_in_store(counter).await?;
        }
        Ok(())
    }

    async fn forget_in_store(&self, counter: &CounterName) -> Result<(), Error> {
        self.store.forget(counter, &self.tally.grid, Timestamp::now()).await?;
        self.tally.forget(counter);
        if counter.label().is_none()
            && let Some(views) = counter.views()
        {
            self.store.forget(&views, &self.tally.grid, Timestamp::now()).await?;
        }
        // Pairs must be last: if there are hits in the meantime, a page must not have fewer hits than its pairs.
        let (pairs, is_complete) = self.pairs_of(counter).await?;
        for pair in pairs {
            self.store.forget(&pair, &self.tally.grid, Timestamp::now()).await?;
        }
        is_complete
    }

    /// Returns the configured grid.
    #[must_use]
    pub fn grid(&self) -> &Grid {
        &self.tally.grid
    }

    /// Returns the precisions in which all of these counters have samples: those of the grid, or those of
    /// [views](Precisions::of_views) if there are views among the counters.
    ///
    /// ```
    /// use counter_core::{CounterName, Counters, MemoryStore};
    ///
    /// let stats = Counters::builder(MemoryStore::new()).build()?.stats();
    /// let names = ["/a", "view:/a"].map(|name| CounterName::new(name).expect("a name"));
    /// assert_eq!(stats.precisions_of(&names[..1]).to_string(), "1, 5, 60, 300, 3600, 18000, 86400");
    /// assert_eq!(stats.precisions_of(&names).to_string(), "3600, 18000, 86400");
    /// # Ok::<(), counter_core::BuildError>(())
    /// ```
    #[must_use]
    pub fn precisions_of<'a>(
        &self,
        counters: impl IntoIterator<Item = &'a CounterName>,
    ) -> Cow<'_, Precisions> {
        precisions_of(&self.tally.grid.counts, counters)
    }

    /// Returns the buckets that can be read, i.e. the configured grid plus the longer retention of an
    /// archive, if there is an archive.
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

    /// Returns the sites, if the store is a [fleet](crate::fleet).
    #[must_use]
    pub fn sites(&self) -> &[Site] {
        self.store.info().sites
    }

    /// Returns a handle to read a single site of a [fleet](crate::fleet), with its timeout. Returns `None` if the name is unknown.
    /// If the site can't be read, the error is [`ErrorKind::Incomplete`].
    #[must_use]
    pub fn of_site(&self, name: &str) -> Option<Self> {
        let place = self.sites().iter().position(|site| site.name() == name)?;
        Some(self.over(Arc::new(Fleet::single(&self.sites()[..=place])?)))
    }

    /// Checks whether each site can be read and fits the [fleet](crate::fleet), in the order of [`sites`](Self::sites). A read
    /// also does this when a site appears, and then leaves out a site that does not fit.
    ///
    /// ```
    /// use counter_core::fleet::Fleet;
    /// use counter_core::{Counters, ErrorKind, MemoryStore};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let shop = MemoryStore::new();
    /// Counters::builder(shop.clone()).build()?.flush().await?;
    /// let fleet = Fleet::reader(MemoryStore::new(), "shop", shop.clone()).site("copy", shop)?;
    /// let checks = Counters::builder(fleet).build()?.stats().check_sites().await;
    /// assert!(checks[0].is_ok());
    /// assert_eq!(*checks[1].as_ref().unwrap_err().kind(), ErrorKind::Rejected);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The result of a site is [`Rejected`](ErrorKind::Rejected) if it does not fit: its buckets are
    /// [different](crate::visits::GridMismatch), or it is the store of an earlier site. Otherwise it can't be read now.
    pub async fn check_sites(&self) -> Vec<Result<(), Error>> {
        Site::read_all(&[], self.sites(), |_| Box::pin(async { Ok(()) })).await
    }

    fn over(&self, store: Arc<dyn Store>) -> Self {
        Self::new(store, Arc::clone(&self.tally), self.salt_epoch, self.sources.clone())
    }

    /// Returns the width of a salt epoch. A visitor is counted once in each epoch, unless your visitors are
    /// identified by something stable.
    #[must_use]
    pub const fn salt_epoch(&self) -> Precision {
        self.salt_epoch
    }

    /// Returns the ledger for all requests and hits in this process.
    #[must_use]
    pub fn ledger(&self) -> Ledger {
        self.tally.ledger()
    }

    /// Returns the start of the oldest bucket with hits from this process which the store has not
    /// acknowledged, or `None` if all hits are acknowledged. Buckets ending earlier are complete with regard
    /// to this process.
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
        self.tally.folded(now).held_since()
    }

    /// Returns the health of the connection to the store.
    #[must_use]
    pub fn health(&self) -> Health {
        let info = self.store.info();
        let mut health = self.tally.health(info.connections, info.clock_skew);
        health.archive = info.archive;
        if let Some(archive) = health.archive {
            let hints = [
                (archive.is_foreign, Hint::ARCHIVE_OF_ANOTHER_STORE),
                (archive.waiting_buckets > MAX_WAITING_BUCKETS, Hint::ARCHIVE_BEHIND),
                (archive.unreadable > 0, Hint::ARCHIVE_INCOMPLETE),
                (archive.differing.is_some_and(|differing| differing > 0), Hint::ARCHIVE_DIFFERS),
            ];
            health.hints.extend(hints.into_iter().filter(|(holds, _)| *holds).map(|(_, hint)| hint));
        }
        health.hints.extend(info.hints);
        let sources = self.sources();
        if sources.iter().any(SourceStatus::is_stalled) {
            health.hints.push(Hint::SOURCE_STANDS_STILL);
        }
        if sources.iter().any(|source| source.ledger.records.lost > 0) {
            health.hints.push(Hint::RECORDS_LOST);
        }
        health
    }

    /// Returns the writes that the flusher repeats until they succeed.
    pub(crate) fn errands(&self) -> Errands {
        self.tally.errands.clone()
    }

    /// Returns whether this cause should be logged now. Each cause is logged at most once a second, even if
    /// more requests fail.
    pub(crate) fn admits_log_line(&self, cause: &'static str) -> bool {
        self.tally.log_limit.admits(cause)
    }

    /// Returns the [ledger](Self::ledger), the [health](Self::health) and, if it is used, the
    /// [gauge](crate::Recorder::in_flight) of requests in flight as metrics for an exporter.
    #[must_use]
    pub fn metrics(&self) -> Vec<Metric> {
        metrics(&self.ledger(), &self.health(), self.tally.in_flight.get())
    }
}

impl Stats {
    /// Maximum number of buckets in a read for a single counter.
    pub const MAX_BUCKETS: u64 = 10_000;

    /// Maximum number of samples in a read, over all counters.
    pub const MAX_SAMPLES: u64 = 300_000;

    /// Maximum number of sketches in a read via [`uniques`](Self::uniques), to limit the response to 12 MB.
    pub const MAX_SKETCHES: u64 = 1000;

    /// Maximum number of sketches that the store should count for a read via
    /// [`uniques_by_counter`](Self::uniques_by_counter) or [`uniques_by_range`](Self::uniques_by_range).
    pub const MAX_COUNTED_SKETCHES: u64 = 10_000;

    /// Returns the retention in samples, or an error if this range of counts can't be read.
    fn check(
        &self,
        precision: Precision,
        range: &Range<Timestamp>,
        counters: u64,
        max: u64,
    ) -> Result<u32, Error> {
        check(&self.tally.grid.counts, precision, range, counters, max)
    }

    /// Checks a range for these counters. Views have fewer precisions than other counters.
    fn check_counters(
        &self,
        counters: &[CounterName],
        precision: Precision,
        range: &Range<Timestamp>,
        (count, max): (u64, u64),
    ) -> Result<u32, Error> {
        check(&self.precisions_of(counters), precision, range, count, max)
    }
}

/// Returns the precisions in which all of these counters have samples.
fn precisions_of<'a, 'b>(
    counts: &'a Precisions,
    counters: impl IntoIterator<Item = &'b CounterName>,
) -> Cow<'a, Precisions> {
    let has_views = counters.into_iter().any(|counter| counter.viewed().is_some());
    if has_views { Cow::Owned(counts.of_views()) } else { Cow::Borrowed(counts) }
}

/// Returns the retention in samples, or an error if this range can't be read.
fn check(
    set: &Precisions,
    precision: Precision,
    range: &Range<Timestamp>,
    counters: u64,
    max: u64,
) -> Result<u32, Error> {
    let Some(retained) = set.retention(precision) else {
        return Err(Error::new(ErrorKind::UnknownPrecision {
            requested: precision,
            retained: set.to_string(),
        }));
    };
    if range.is_empty() {
        return Err(Error::new(ErrorKind::EmptyRange));
    }
    let requested = buckets(precision, range).saturating_mul(counters);
    if requested > max {
        return Err(Error::new(ErrorKind::TooManyBuckets { requested, max }));
    }
    Ok(retained.samples.get())
}

fn buckets(precision: Precision, range: &Range<Timestamp>) -> u64 {
    let seconds = range.end.as_unix().saturating_sub(range.start.as_unix());
    seconds.div_ceil(precision.as_seconds().into())
}

/// The documents of a store, for callers which only have a `dyn Store`.
#[derive(Debug)]
struct StoreDocuments(Arc<dyn Store>);

impl AsRef<dyn DocumentStore> for StoreDocuments {
    fn as_ref(&self) -> &(dyn DocumentStore + 'static) {
        self.0.info().documents.expect("support for documents does not change")
    }
}

impl Stats {
    /// Returns the [documents](crate::document) of the store, or `None` if the store doesn't support
    /// documents.
    ///
    /// ```
    /// use counter_core::{Counters, MemoryStore};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let stats = Counters::builder(MemoryStore::new()).build()?.stats();
    /// let documents = stats.documents().expect("all stores of this crate have documents");
    /// assert_eq!(documents.read("greeting").await?.version, 0);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn documents(&self) -> Option<Arc<dyn DocumentStore>> {
        self.store.info().documents?;
        Some(Arc::new(StoreDocuments(Arc::clone(&self.store))))
    }

    /// Returns the store id, which will be created if needed. Returns `None` if the store doesn't support
    /// [documents](crate::visits::store::StoreInfo::documents).
    ///
    /// # Errors
    /// Returns an error if the store doesn't respond.
    pub async fn store_id(&self) -> Result<Option<StoreId>, Error> {
        Ok(identity::read(&*self.store).await?.map(|(record, _)| record.id))
    }

    /// Compares the configured grid to the stored grid, i.e. to the grid of the first process that flushed
    /// into this store.
    ///
    /// Call this on startup in order to reject a configuration that would hide older counts. At runtime, a
    /// difference will be shown as the hint [`GRID_DIFFERS`](crate::visits::Hint::GRID_DIFFERS).
    ///
    /// # Errors
    /// Returns an error if the store doesn't respond.
    pub async fn grid_mismatch(&self) -> Result<Option<GridMismatch>, Error> {
        let Some((record, _)) = identity::read(&*self.store).await? else { return Ok(None) };
        let stored = match record.grid {
            Some(stored) => stored,
            None => match self.grid_without_offsets().await? {
                Some(stored) => stored,
                None => return Ok(None),
            },
        };
        Ok(GridMismatch::between(&stored, &self.tally.grid))
    }

    async fn has_counters(&self, precision: Precision) -> Result<bool, Error> {
        let query = KnownQuery { precisions: &[precision], from: "", limit: 1, since: Timestamp::MIN };
        Ok(!self.store.known(query).await?.counters.is_empty())
    }

    /// Returns the configured grid with all offsets removed, if the store only has counts in buckets with no
    /// offset. We need this for stores filled by older versions, which did not store the grid.
    async fn grid_without_offsets(&self) -> Result<Option<Grid>, Error> {
        let configured = &self.tally.grid;
        for retained in configured.counts.iter().filter(|retention| retention.precision.offset() != 0) {
            let plain = retained.precision.starting_at(Timestamp::MIN);
            if self.has_counters(plain).await? && !self.has_counters(retained.precision).await? {
                let without = |set: &Precisions| {
                    let plain = |retention: Retention| Retention {
                        precision: retention.precision.starting_at(Timestamp::MIN),
                        ..retention
                    };
                    Precisions::new(set.iter().map(plain)).expect("the number of widths is unchanged")
                };
                let distributions = configured.distributions.as_ref().map(without);
                return Ok(Some(Grid {
                    counts: without(&configured.counts),
                    visitors: without(&configured.visitors),
                    distributions,
                }));
            }
        }
        Ok(None)
    }

    /// Replaces the stored grid by the configured grid.
    pub(in crate::visits) async fn change_grid(&self) -> Result<(), Error> {
        let grid = &self.tally.grid;
        identity::update(&*self.store, |record, _| record.grid = Some((**grid).clone())).await?;
        Ok(())
    }
}
