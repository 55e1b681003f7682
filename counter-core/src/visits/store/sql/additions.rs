//! Adds the counts of a batch to buckets and lifetimes.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::names::LockedCounter;
use super::{unix, width};
use crate::sql::dialect::Dialect;
use crate::sql::{Failure, Session, Value};
use crate::visits::ledger::DropReason;
use crate::visits::store::batch::{Adds, Batch, Cell, Part, Remark};

/// Encoded precision (see `width`) and start of a stored bucket, in Unix seconds.
pub(crate) type BucketKey = (i64, i64);

/// A cell with a count, and the index in the batch.
pub(crate) type Counted<'a> = (usize, &'a Cell, u64);

/// Counter ids with the amounts to add, in ascending order with no duplicates.
pub(crate) type Pairs = Vec<(i64, i64)>;

/// The sums to add for a batch.
#[derive(Debug, Default)]
pub(crate) struct Additions {
    /// Amounts by bucket, in the order in which we write buckets, to avoid deadlocks between batches.
    buckets: BTreeMap<BucketKey, Pairs>,
    totals: Pairs,
}

impl Additions {
    /// Sums the counts of a batch. Returns `None` on overflow.
    pub(crate) fn fold(
        batch: &Batch,
        counts: &[Counted<'_>],
        known: &HashMap<&str, LockedCounter>,
    ) -> Option<Self> {
        let mut additions = Self::default();
        for group in counts.chunk_by(|(_, a, _), (_, b, _)| (a.start, a.finest) == (b.start, b.finest)) {
            let pair = |(_, cell, count): &Counted<'_>| {
                Some((known[&*cell.counter].id, i64::try_from(*count).ok()?))
            };
            let pairs = group.iter().map(pair).collect::<Option<Pairs>>()?;
            for (bucket, _) in batch.buckets(group[0].1) {
                let bucket_key = (width(bucket.precision), unix(bucket.start));
                additions.buckets.entry(bucket_key).or_default().extend_from_slice(&pairs);
            }
            if batch.adds != Adds::Samples {
                additions.totals.extend(pairs);
            }
        }
        additions.buckets.values_mut().try_for_each(sum)?;
        sum(&mut additions.totals)?;
        additions.clamp(known);
        Some(additions)
    }

    /// Sums cells individually, and adds a remark for each cell which would overflow. `stored` contains the
    /// current counts of the buckets.
    pub(crate) fn fit(
        batch: &Batch,
        counts: &[Counted<'_>],
        known: &HashMap<&str, LockedCounter>,
        mut stored: HashMap<(BucketKey, i64), i64>,
        remarks: &mut Vec<Remark>,
    ) -> Self {
        let (mut buckets, mut totals) = (BTreeMap::<BucketKey, BTreeMap<i64, i64>>::new(), BTreeMap::new());
        for (index, cell, more) in counts {
            let (mut fit, mut targets) = (0, 0);
            let id = known[&*cell.counter].id;
            for (bucket, _) in batch.buckets(cell) {
                let bucket_key = (width(bucket.precision), unix(bucket.start));
                let count = stored.entry((bucket_key, id)).or_default();
                targets += 1;
                if let Some((more, sum)) =
                    i64::try_from(*more).ok().and_then(|more| Some((more, count.checked_add(more)?)))
                {
                    *count = sum;
                    *buckets.entry(bucket_key).or_default().entry(id).or_default() += more;
                    fit += 1;
                }
            }
            if batch.adds_to_lifetime(fit, targets) {
                let total: &mut i64 = totals.entry(id).or_default();
                *total = total.saturating_add_unsigned(*more);
            }
            if fit < targets {
                remarks.push(Remark::Rejected {
                    part: Part::Cell(*index),
                    reason: DropReason::OutOfRange,
                    message: None,
                });
            }
        }
        let buckets = buckets
            .into_iter()
            .map(|(bucket_key, pairs)| (bucket_key, pairs.into_iter().collect()))
            .collect();
        let mut additions = Self { buckets, totals: totals.into_iter().collect() };
        additions.clamp(known);
        additions
    }

    /// Limits the amounts for lifetimes, so that lifetimes do not exceed `i64::MAX`.
    fn clamp(&mut self, known: &HashMap<&str, LockedCounter>) {
        let totals: HashMap<_, _> = known.values().map(|counter| (counter.id, counter.total)).collect();
        for (id, more) in &mut self.totals {
            *more = (*more).min(i64::MAX - totals.get(id).copied().unwrap_or(0));
        }
    }

    /// Returns the ids of the counters with an amount for the lifetime.
    pub(crate) fn counters(&self) -> HashSet<i64> {
        self.totals.iter().map(|(id, _)| *id).collect()
    }

    pub(crate) async fn write(
        &self,
        session: &mut Session,
        dialect: &Dialect,
        adds: Adds,
    ) -> Result<(), Failure> {
        if !self.totals.is_empty() {
            let text = dialect.update_by_pairs(
                "access_counter",
                "total",
                "kept.total + pair.n",
                "kept.id = pair.id",
            );
            session.execute(&text, &[Value::Pairs(&self.totals)]).await?;
        }
        if self.buckets.is_empty() {
            return Ok(());
        }
        let condition = "kept.width = ? AND kept.bucket = ? AND kept.counter = pair.id";
        let update = dialect.update_by_pairs("access_sample", "hits", "kept.hits + pair.n", condition);
        let pairs = dialect.pairs;
        let rows = format!("SELECT ?, ?, pair.id, pair.n FROM {pairs} WHERE pair.n > 0");
        let insert = dialect.insert_new("access_sample (width, bucket, counter, hits)", &rows);
        let add = dialect.upsert(
            "access_sample",
            "width, bucket, counter, hits",
            &rows,
            "width, bucket, counter",
            &[("hits", "{old} + {new}")],
        );
        let enter = dialect.upsert(
            "access_known",
            "width, counter, latest",
            &format!("SELECT ?, pair.id, pair.n FROM {pairs} WHERE pair.n >= 0"),
            "width, counter",
            &[("latest", &format!("{}({{old}}, {{new}})", dialect.greatest))],
        );
        // The latest new bucket of each counter by width.
        let mut latest = BTreeMap::<i64, BTreeMap<i64, i64>>::new();
        for (&(width, bucket), pairs) in &self.buckets {
            let values = Value::Pairs(pairs);
            let (count, [wide, start]) = (pairs.len() as u64, [width, bucket].map(Value::Int));
            if adds == Adds::Samples {
                // Samples of another store are mostly in new buckets.
                session.execute(&add, &[wide, start, values]).await?;
            } else if session.execute(&update, &[values, wide, start]).await? < count {
                // The counters are locked by this transaction, so rows can't be inserted between these
                // statements.
                session.execute(&insert, &[wide, start, values]).await?;
            } else {
                // All rows existed, so they are also in the list of known counters.
                continue;
            }
            // Buckets are in ascending order.
            let new = pairs.iter().filter(|(_, more)| *more > 0).map(|(id, _)| (*id, bucket));
            latest.entry(width).or_default().extend(new);
        }
        for (width, latest) in latest {
            let latest: Pairs = latest.into_iter().collect();
            session.execute(&enter, &[Value::Int(width), Value::Pairs(&latest)]).await?;
        }
        Ok(())
    }
}

/// Reads the current counts of the buckets in a batch.
pub(crate) async fn stored(
    session: &mut Session,
    dialect: &Dialect,
    batch: &Batch,
    counts: &[Counted<'_>],
    known: &HashMap<&str, LockedCounter>,
) -> Result<HashMap<(BucketKey, i64), i64>, Failure> {
    let mut counters = BTreeMap::<BucketKey, Vec<i64>>::new();
    for (_, cell, _) in counts {
        for (bucket, _) in batch.buckets(cell) {
            let bucket_key = (width(bucket.precision), unix(bucket.start));
            counters.entry(bucket_key).or_default().push(known[&*cell.counter].id);
        }
    }
    let text = format!(
        "SELECT counter, hits FROM access_sample WHERE width = ? AND bucket = ? AND counter {}",
        dialect.in_list
    );
    let mut stored = HashMap::new();
    for (bucket_key, mut ids) in counters {
        ids.sort_unstable();
        ids.dedup();
        let values = [Value::Int(bucket_key.0), Value::Int(bucket_key.1), Value::Ints(&ids)];
        for row in session.fetch(&text, &values).await? {
            stored.insert((bucket_key, row.int(0)?), row.int(1)?);
        }
    }
    Ok(stored)
}

/// Sorts pairs, and merges pairs of the same counter. Returns `None` on overflow.
fn sum(pairs: &mut Pairs) -> Option<()> {
    pairs.sort_unstable();
    let mut overflows = false;
    pairs.dedup_by(|next, retained| {
        let is_same = next.0 == retained.0;
        if is_same {
            let (sum, overflow) = retained.1.overflowing_add(next.1);
            retained.1 = sum;
            overflows |= overflow;
        }
        is_same
    });
    (!overflows).then_some(())
}
