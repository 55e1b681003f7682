//! The list of known counters.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

use super::{MAX_UNREADABLE, Stats, buckets};
use crate::error::{Error, ErrorKind};
use crate::family::name::CounterName;
use crate::time::{Precision, Timestamp};
use crate::visits::store::{Extent, KnownQuery, KnownReading, Unreadable};

/// A page of known counters.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CounterPage {
    /// Counters by name, with the precisions in which they have samples.
    pub counters: Vec<(CounterName, Vec<Precision>)>,
    /// The name to continue after, if there may be more counters. Pass this to the next call.
    pub next: Option<CounterName>,
    /// List entries that aren't counters, and lists that can't be read.
    pub unreadable: Vec<Unreadable>,
}

/// Maximum number of counters on a page.
pub(super) const PAGE_SIZE: usize = 1000;

impl Stats {
    /// Returns up to `limit` counters, sorted by name, starting after `after`. The limit is at most 1,000.
    /// Label values and views are not included: see [`label`](Self::label) and [`CounterName::views`].
    ///
    /// # Errors
    /// Returns an error if the store can't be read.
    pub async fn list_counters(
        &self,
        after: Option<&CounterName>,
        limit: usize,
    ) -> Result<CounterPage, Error> {
        let precisions: Vec<_> = self.tally.grid.counts.iter().map(|retention| retention.precision).collect();
        let limit = limit.clamp(1, PAGE_SIZE);
        let mut all = listable(self.list(&precisions, after, limit, Timestamp::MIN).await?);
        // The page should also include the counters that follow the labels and the views.
        while let Some(after) = all.next.take_if(|_| all.counters.len() < limit) {
            let rest =
                self.list(&precisions, Some(&after), limit - all.counters.len(), Timestamp::MIN).await?;
            let rest = listable(rest);
            all.counters.extend(rest.counters);
            all.next = rest.next;
        }
        Ok(all)
    }

    pub(super) async fn list(
        &self,
        precisions: &[Precision],
        after: Option<&CounterName>,
        limit: usize,
        since: Timestamp,
    ) -> Result<CounterPage, Error> {
        // Names can't contain control characters, so this is the smallest string greater than `after`.
        let from = after.map_or_else(String::new, |after| format!("{after}\0"));
        let mut counters = BTreeMap::<_, Vec<_>>::new();
        let KnownReading { counters: known, unreadable, .. } =
            self.store.known(KnownQuery { precisions, from: &from, limit: limit + 1, since }).await?;
        for (name, precision) in known {
            counters.entry(name).or_default().push(precision);
        }
        let more = counters.len() > limit;
        let counters: Vec<_> = counters.into_iter().take(limit).collect();
        let last = counters.last().map(|(name, _)| name.clone());
        Ok(CounterPage { counters, next: last.filter(|_| more), unreadable })
    }

    /// Returns whether the given counters exist, either in the store or in this process, i.e. not flushed
    /// yet. This takes a single round trip to the shards. If a list of counters can't be read, the counters
    /// of other shards are unaffected.
    ///
    /// # Errors
    /// Returns an error if the store can't be read.
    pub async fn contains_counters(
        &self,
        counters: &[CounterName],
    ) -> Result<Vec<Result<bool, Unreadable>>, Error> {
        let is_local = |counter: &CounterName| self.tally.find(counter).is_some();
        let remaining: Vec<_> = counters.iter().filter(|counter| !is_local(counter)).cloned().collect();
        let precisions: Vec<_> = self.tally.grid.counts.iter().map(|retention| retention.precision).collect();
        let stored = match remaining.is_empty() {
            true => Vec::new(),
            false => self.store.contains(&remaining, &precisions).await?,
        };
        let stored: HashMap<_, _> = remaining.iter().zip(stored).collect();
        Ok(counters.iter().map(|counter| stored.get(counter).cloned().unwrap_or(Ok(true))).collect())
    }
}

/// Removes label values and views from a page. If the next page starts with one, it will start after all of them.
pub(super) fn listable(mut page: CounterPage) -> CounterPage {
    let kind = |name: &str| {
        [CounterName::LABELS, CounterName::VIEWS].into_iter().find(|kind| name.starts_with(kind))
    };
    page.next = page.next.map(|next| kind(&next).map_or(next, last));
    page.counters.retain(|(name, _)| kind(name).is_none());
    page
}

/// Returns an upper bound for the names with this prefix.
fn last(prefix: &str) -> CounterName {
    CounterName::new(&format!("{prefix}{}", char::MAX)).expect("a name")
}

/// Counters with the most hits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Ranking {
    /// Counters and hits, sorted by descending hits, then by name.
    pub counters: Vec<(CounterName, u64)>,
    /// Entries that can't be read, up to 1,000. Their counters are not ranked.
    pub unreadable: Vec<Unreadable>,
}

/// Maximum number of counters in a ranking.
const MAX_COUNTERS: u64 = 10_000;
/// Maximum number of samples to read for a ranking, over all reads.
pub(super) const MAX_RANKED: u64 = 10_000_000;

impl Stats {
    /// Returns up to `limit` counters with the most hits in the buckets that start in `range`. Only counters
    /// accepted by `filter` are ranked. Label values and views are not included: see [`label`](Self::label) and
    /// [`top_views`](Self::top_views).
    ///
    /// This will read all counters, so the ranking is exact. If a bucket can't be read, the counter is
    /// returned as unreadable instead.
    ///
    /// # Errors
    /// Returns an error if there are more than 10,000 counters, if the accepted counters times buckets exceed
    /// 10,000,000, if the precision is not in the grid, if the range is empty or has more than 10,000
    /// buckets, or if the store can't be read.
    pub async fn top(
        &self,
        precision: Precision,
        range: Range<Timestamp>,
        limit: usize,
        filter: impl Fn(&CounterName) -> bool,
    ) -> Result<Ranking, Error> {
        self.check(precision, &range, 1, Self::MAX_BUCKETS)?;
        let mut ranking = Ranking::default();
        let (mut after, mut listed, mut total_buckets) = (None, 0, 0);
        loop {
            let page = self.list(&[precision], after.as_ref(), PAGE_SIZE, range.start).await?;
            let page = listable(page);
            listed += page.counters.len() as u64;
            if listed > MAX_COUNTERS {
                return Err(Error::new(ErrorKind::TooManyCounters { max: MAX_COUNTERS }));
            }
            ranking.unreadable.extend(page.unreadable);
            let names: Vec<_> = page.counters.into_iter().map(|(name, _)| name).filter(&filter).collect();
            total_buckets += buckets(precision, &range) * names.len() as u64;
            if total_buckets > MAX_RANKED {
                return Err(Error::new(ErrorKind::TooManyBuckets {
                    requested: total_buckets,
                    max: MAX_RANKED,
                }));
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

    /// Reads the hits of these counters, and appends counters with hits to an unsorted ranking.
    pub(super) async fn rank(
        &self,
        names: &[CounterName],
        precision: Precision,
        range: &Range<Timestamp>,
        ranking: &mut Ranking,
    ) -> Result<(), Error> {
        let totals = self.totals(names, precision, range.clone()).await?;
        for (name, total) in names.iter().zip(totals) {
            let count = total.and_then(|total| match total.clone().known() {
                Err(unreadable) if unreadable.extent == Extent::Part => {
                    ranking.unreadable.push(unreadable);
                    Ok(total.count)
                }
                known => known,
            });
            match count {
                Ok(0) => {}
                Ok(count) => ranking.counters.push((name.clone(), count)),
                Err(unreadable) => ranking.unreadable.push(unreadable),
            }
        }
        Ok(())
    }
}

impl Ranking {
    pub(super) fn sort(&mut self) {
        self.counters.sort_by(|(one, a), (other, b)| b.cmp(a).then_with(|| one.cmp(other)));
        // A list that can't be read is reported on every page.
        self.unreadable.sort_by(|one, other| one.key.cmp(&other.key));
        self.unreadable.dedup_by(|one, other| one.key == other.key);
        self.unreadable.truncate(MAX_UNREADABLE);
    }
}
