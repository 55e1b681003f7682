#[cfg(feature = "archive")]
mod archive;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard};

use tokio::time::Instant;

use super::batch::{ApplyOutcome, Batch, Cell, MAX_FUTURE_SECONDS, Part, Remark};
use super::fence::{FenceKind, StoredFence};
use super::read::{Read, StoreInfo, end_of_sketches};
use super::reading::{CountedReading, KnownQuery, KnownReading, Query, Reading, Readings, Unreadable};
use super::value::Value;
use super::write::{Cleaned, Write};
use crate::document::memory::MemoryDocuments;
use crate::family::future::StoreFuture;
use crate::family::name::CounterName;
use crate::family::shard::Shard;
use crate::family::writer::WriterId;
use crate::time::expiry_clock::{Expiry, ExpiryClock};
use crate::time::{Bucket, Grid, Kind, Precision, Precisions, Retention, Timestamp};
use crate::visits::distribution::Bin;
use crate::visits::ledger::{DropReason, Hint};

/// Visits stored in this process.
#[derive(Debug, Default)]
pub(crate) struct MemoryVisits {
    state: Mutex<State>,
    documents: MemoryDocuments,
}

#[derive(Debug, Default)]
struct State {
    fences: HashMap<WriterId, Applied>,
    counts: BTreeMap<(Precision, CounterName), BTreeMap<Timestamp, u64>>,
    totals: HashMap<CounterName, u64>,
    /// Visitors and distributions.
    expiring: BTreeMap<ExpiringKey, Expiring>,
    salts: HashMap<Bucket, Salt>,
    clock: ExpiryClock,
    #[cfg(feature = "archive")]
    archived: archive::Archived,
}

#[derive(Debug, Default)]
struct Applied {
    fence: StoredFence,
    remarks: Vec<Remark>,
    /// When to remove a source, or `None` to retain it forever.
    expiry: Option<Timestamp>,
}

type ExpiringKey = (Kind, CounterName, Precision, Timestamp);

#[derive(Debug)]
struct Expiring {
    expiry: Timestamp,
    value: Value,
}

struct Salt {
    expiry: Timestamp,
    salt: [u8; 16],
}

impl MemoryVisits {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("the lock is never poisoned")
    }
}

impl Write for MemoryVisits {
    fn apply<'a>(&'a self, batch: &'a Batch) -> StoreFuture<'a, ApplyOutcome> {
        Box::pin(async move { Ok(self.state().apply(batch)) })
    }

    fn clean<'a>(&'a self, _: Shard, now: Timestamp, retained: &'a Precisions) -> StoreFuture<'a, Cleaned> {
        Box::pin(async move { Ok(self.state().clean(now, retained)) })
    }

    fn adopt<'a>(
        &'a self,
        _: Shard,
        _: Option<String>,
        _: &'a Precisions,
    ) -> StoreFuture<'a, Option<String>> {
        Box::pin(async move { Ok(None) })
    }

    fn forget<'a>(&'a self, counter: &'a CounterName, _: &'a Grid, _: Timestamp) -> StoreFuture<'a, ()> {
        Box::pin(async move {
            let state = &mut *self.state();
            state.counts.retain(|(_, name), _| name != counter);
            state.expiring.retain(|(_, name, ..), _| name != counter);
            state.totals.remove(counter);
            #[cfg(feature = "archive")]
            state.archived.forget(counter);
            Ok(())
        })
    }

    fn salt<'a>(
        &'a self,
        epoch: Bucket,
        candidate: [u8; 16],
        expiry: Timestamp,
    ) -> StoreFuture<'a, [u8; 16]> {
        Box::pin(async move {
            let state = &mut *self.state();
            let over = state.expiry(Timestamp::now());
            state.salts.retain(|bucket, salt| !over.is_expired(bucket.start, salt.expiry));
            Ok(state.salts.entry(epoch).or_insert(Salt { expiry, salt: candidate }).salt)
        })
    }
}

impl Read for MemoryVisits {
    fn info(&self) -> StoreInfo<'_> {
        StoreInfo {
            kind: "memory".into(),
            documents: Some(&self.documents),
            hints: self.state().clock.is_ahead().then_some(Hint::CLOCK_JUMPED).into_iter().collect(),
            ..StoreInfo::default()
        }
    }

    fn values<'a>(&'a self, kind: Kind, query: Query<'a>) -> StoreFuture<'a, Readings> {
        Box::pin(async move { Ok(self.state().values(kind, &query)) })
    }

    fn lifetimes<'a>(&'a self, counters: &'a [CounterName]) -> StoreFuture<'a, Vec<Result<u64, Unreadable>>> {
        Box::pin(async move {
            let totals = &self.state().totals;
            Ok(counters.iter().map(|counter| Ok(totals.get(counter).copied().unwrap_or_default())).collect())
        })
    }

    fn known<'a>(&'a self, query: KnownQuery<'a>) -> StoreFuture<'a, KnownReading> {
        Box::pin(async move {
            let state = self.state();
            let of = |precision: Precision| {
                let names = state.counts.keys().filter(move |(p, _)| *p == precision);
                let names = names.filter(|(_, name)| &**name >= query.from).take(query.limit);
                names.map(move |(_, name)| (name.clone(), precision))
            };
            Ok(query.precisions.iter().flat_map(|precision| of(*precision)).collect::<Vec<_>>().into())
        })
    }

    fn counted<'a>(&'a self, _: Shard, _: Option<String>) -> StoreFuture<'a, CountedReading> {
        Box::pin(async move {
            let counters = self.state().totals.keys().cloned().collect();
            Ok(CountedReading { counters, ..CountedReading::default() })
        })
    }
}

impl fmt::Debug for Salt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The salt is a secret and must not be logged.
        f.debug_struct("Salt").field("expiry", &self.expiry).finish_non_exhaustive()
    }
}

impl State {
    fn values(&self, kind: Kind, query: &Query<'_>) -> Readings {
        let Query { counters, precision, range, .. } = query;
        let mut end = range.end;
        if kind == Kind::Visitors {
            let mut present = BTreeMap::new();
            for ((.., start), _) in
                counters.iter().flat_map(|counter| self.within(kind, counter, *precision, range.clone()))
            {
                *present.entry(*start).or_default() += 1;
            }
            end = end_of_sketches(&present, range);
        }
        let reading = |counter: &CounterName| {
            let values = match kind {
                Kind::Counts => {
                    let buckets =
                        self.counts.get(&(*precision, counter.clone())).filter(|_| !range.is_empty());
                    let inside = buckets.into_iter().flat_map(|buckets| buckets.range(range.clone()));
                    inside.map(|(&start, &count)| (start, Value::Count(count))).collect()
                }
                Kind::Visitors | Kind::Distributions => {
                    let inside = self.within(kind, counter, *precision, range.start..end);
                    inside.map(|((.., start), found)| (*start, found.value.clone())).collect()
                }
            };
            Reading { values, unreadable: None }
        };
        Readings { counters: counters.iter().map(reading).collect(), end }
    }

    /// Returns the visitors or distributions of a counter in a range that are not empty.
    fn within(
        &self,
        kind: Kind,
        counter: &CounterName,
        precision: Precision,
        range: Range<Timestamp>,
    ) -> impl Iterator<Item = (&ExpiringKey, &Expiring)> {
        let key = |start| (kind, counter.clone(), precision, start);
        let inside = (!range.is_empty()).then(|| self.expiring.range(key(range.start)..key(range.end)));
        inside.into_iter().flatten().filter(|(_, found)| !found.value.is_empty())
    }

    fn apply(&mut self, batch: &Batch) -> ApplyOutcome {
        let fence = batch.fence;
        // We only store a fence if the batch is applied, because a reader can look up any number of sources.
        let applied = self.fences.get(&fence.writer);
        let found = applied.map_or_else(StoredFence::default, |applied| applied.fence);
        let earlier = || applied.map(|applied| applied.remarks.clone()).unwrap_or_default();
        if let Some(outcome) = fence.outcome(found, earlier) {
            return outcome;
        }
        let now = Timestamp::now();
        let expiry = match fence.kind {
            FenceKind::Source { life: Some(life) } => Some(now.plus(life.as_secs())),
            _ => None,
        };
        let (max_start, mut remarks) = (now.plus(MAX_FUTURE_SECONDS), Vec::new());
        for (index, cell) in batch.cells.iter().enumerate() {
            let rejected = match &cell.value {
                _ if cell.start > max_start => Some(DropReason::Ahead),
                Value::Count(count) => self.add_count(batch, index, *count, &mut remarks),
                Value::Visitors(_) => {
                    for bucket in batch.buckets(cell) {
                        self.expiring(cell, bucket).merge(cell.value.clone(), u64::max);
                    }
                    None
                }
                Value::Distribution(bins) => self.add_bins(batch, cell, bins),
            };
            let part = Part::Cell(index);
            remarks.extend(rejected.map(|reason| Remark::Rejected { part, reason, message: None }));
        }
        let outcome = ApplyOutcome::Applied(remarks.clone());
        self.fences.insert(fence.writer, Applied { fence: fence.applied_to(found), remarks, expiry });
        outcome
    }

    /// Adds the count of the cell with this index. Returns the reason if a bucket rejects it.
    fn add_count(
        &mut self,
        batch: &Batch,
        index: usize,
        more: u64,
        remarks: &mut Vec<Remark>,
    ) -> Option<DropReason> {
        let cell = &batch.cells[index];
        let (mut fit, mut targets) = (0, 0);
        for (bucket, _) in batch.buckets(cell) {
            let counter = (bucket.precision, cell.counter.clone());
            let count = self.counts.entry(counter).or_default().entry(bucket.start).or_default();
            targets += 1;
            if let Some(sum) = sum(*count, more) {
                *count = sum;
                fit += 1;
            }
        }
        if batch.adds_to_lifetime(fit, targets) {
            let total = self.totals.entry(cell.counter.clone()).or_default();
            if *total == 0 {
                remarks.push(Remark::NewLifetime { cell: index });
            }
            *total = total.saturating_add(more);
        }
        (fit < targets).then_some(DropReason::OutOfRange)
    }

    /// Returns the visitors or the distribution of a bucket, for the kind of `value`.
    fn expiring(&mut self, cell: &Cell, (bucket, retention): (Bucket, Retention)) -> &mut Value {
        let (kind, expiry) = (cell.value.kind(), retention.removal(bucket.start));
        let entry = self.expiring.entry((kind, cell.counter.clone(), bucket.precision, bucket.start));
        &mut entry.or_insert_with(|| Expiring { expiry, value: Value::empty(kind) }).value
    }

    /// Adds bins. Returns the reason if a bucket rejects one of them.
    fn add_bins(&mut self, batch: &Batch, cell: &Cell, more: &[(Bin, u64)]) -> Option<DropReason> {
        let mut rejected = None;
        for bucket in batch.buckets(cell) {
            let Value::Distribution(bins) = self.expiring(cell, bucket) else { continue };
            for &(bin, more) in more {
                let place = bins.binary_search_by_key(&bin, |(bin, _)| *bin);
                match (place, sum(place.map_or(0, |place| bins[place].1), more)) {
                    (Ok(place), Some(sum)) => bins[place].1 = sum,
                    (Err(place), Some(sum)) => bins.insert(place, (bin, sum)),
                    (_, None) => rejected = Some(DropReason::OutOfRange),
                }
            }
        }
        rejected
    }

    fn expiry(&mut self, now: Timestamp) -> Expiry {
        self.clock.expiry(now, Timestamp::now(), Instant::now())
    }

    fn clean(&mut self, now: Timestamp, retained: &Precisions) -> Cleaned {
        let expiry = self.expiry(now);
        let mut cleaned = Cleaned::default();
        self.counts.retain(|(precision, _), buckets| {
            let retention = retained.retention_or_default(*precision);
            let before = buckets.len();
            for expired in expiry.expired() {
                let oldest = retention.oldest(expired.at);
                buckets.retain(|start, _| *start >= oldest || !expired.contains(*start));
            }
            cleaned.samples += (before - buckets.len()) as u64;
            cleaned.counters += u64::from(buckets.is_empty());
            !buckets.is_empty()
        });
        // Clients can send any label value, so unused values must not accumulate over time.
        let precisions: BTreeSet<_> = self.counts.keys().map(|(precision, _)| *precision).collect();
        let has_samples = |value: &CounterName| {
            precisions.iter().any(|precision| self.counts.contains_key(&(*precision, value.clone())))
        };
        self.totals.retain(|counter, _| counter.label().is_none() || has_samples(counter));
        self.expiring.retain(|(.., start), found| !expiry.is_expired(*start, found.expiry));
        let time = self.expiry(Timestamp::now()).trusted();
        self.fences.retain(|_, applied| applied.expiry.is_none_or(|expiry| expiry > time));
        cleaned
    }
}

/// Adds to a count, unless the sum exceeds `i64::MAX`, which is the limit of other stores.
fn sum(count: u64, more: u64) -> Option<u64> {
    count.checked_add(more).filter(|sum| i64::try_from(*sum).is_ok())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::visits::store::fence::{Fence, Incarnation};

    #[test]
    fn unapplied_batches_leave_no_fence() {
        let mut state = State::default();
        let incarnation = Incarnation::default();
        for kind in [FenceKind::Process { incarnation }, FenceKind::Source { life: None }] {
            let fence = Fence { writer: WriterId::random(), kind, sequence: 6, after: 5 };
            let batch = Batch::empty(Shard::default(), fence, &Arc::default());
            let found = StoredFence::default();
            assert_eq!(state.apply(&batch), ApplyOutcome::SequenceGap { found });
            assert!(state.fences.is_empty());
        }
    }

    #[tokio::test]
    async fn a_clock_jump_does_not_delete_history() {
        let visits = MemoryVisits::default();
        let (day, now) = (86_400, Timestamp::now());
        // This is equivalent to the clock jumping ahead by 200 days.
        let before = now.minus(200 * day);
        visits.state().clock = ExpiryClock::since(before, Instant::now());
        let cell = |start| Cell {
            counter: CounterName::new("a").expect("a name"),
            start,
            finest: Precision::try_from(1).expect("not 0"),
            value: Value::Count(1),
        };
        let kind = FenceKind::Process { incarnation: Incarnation::default() };
        let fence = Fence { writer: WriterId::random(), kind, sequence: 1, after: 0 };
        let cells = vec![cell(before.minus(day)), cell(before.minus(day * 130)), cell(now.minus(3600))];
        let batch = Batch { cells, ..Batch::empty(Shard::default(), fence, &Arc::default()) };
        visits.apply(&batch).await.expect("memory is always available");
        visits
            .clean(Shard::default(), now, &Grid::default().counts)
            .await
            .expect("memory is always available");

        let state = visits.state();
        let starts = |precision: &str| {
            let precision = precision.parse().expect("a precision");
            let buckets = state.counts.iter().filter(|((retained, _), _)| *retained == precision);
            buckets.flat_map(|(_, buckets)| buckets.keys().copied()).collect::<Vec<_>>()
        };
        assert_eq!(starts("86400").len(), 2, "data that expired before the jump is deleted");
        assert_eq!(starts("3600").len(), 2);
        assert_eq!(starts("1"), [], "data written after the jump expires by the clock");
        drop(state);
        assert_eq!(visits.info().hints, [Hint::CLOCK_JUMPED]);
    }
}
