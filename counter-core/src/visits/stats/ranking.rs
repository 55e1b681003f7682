//! Rankings of counters.

use std::ops::Range;

use futures_util::future::try_join_all;

use super::listing::{PAGE, without_labels};
use super::{NAMED, Stats, buckets};
use crate::error::{Error, ErrorKind};
use crate::family::name::CounterName;
use crate::time::{Precision, Timestamp};
use crate::visits::store::Unreadable;

/// The counters with the most hits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Ranking {
    /// The counters with their hits, in descending order of hits, and by name where these are equal.
    pub counters: Vec<(CounterName, u64)>,
    /// Entries that cannot be read, of counters that are therefore not ranked; 1,000 at most.
    pub unreadable: Vec<Unreadable>,
}

/// The maximum number of counters in a ranking.
const COUNTERS: u64 = 10_000;
/// The maximum number of samples in a ranking, over several reads.
pub(super) const MAX_RANKED: u64 = 10_000_000;

/// The number of portions of a ranking that are read concurrently.
const AT_ONCE: usize = 4;

impl Stats {
    /// Returns at most `limit` counters with the most hits in the buckets that start in `range`, if `wanted` accepts them.
    /// Values of labels are not included: see [`label`](Self::label).
    ///
    /// The ranking is exact, because it reads every counter. A counter with a bucket that cannot be read is listed as
    /// unreadable instead.
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
    pub(super) async fn rank(
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
}

impl Ranking {
    pub(super) fn sort(&mut self) {
        self.counters.sort_by(|(one, a), (other, b)| b.cmp(a).then_with(|| one.cmp(other)));
        // Each page names the same unreadable list again.
        self.unreadable.sort_by(|one, other| one.key.cmp(&other.key));
        self.unreadable.dedup_by(|one, other| one.key == other.key);
        self.unreadable.truncate(NAMED);
    }
}
