//! Rankings of counters.

use std::ops::Range;

use super::listing::{PAGE_SIZE, without_labels};
use super::{MAX_UNREADABLE, Stats, buckets};
use crate::error::{Error, ErrorKind};
use crate::family::name::CounterName;
use crate::time::{Precision, Timestamp};
use crate::visits::store::{Extent, Unreadable};

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
    /// accepted by `filter` are ranked. Label values are not included: see [`label`](Self::label).
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
            let page = without_labels(page);
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
