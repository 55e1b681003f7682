#[cfg(feature = "archive")]
mod archive;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard};

use tokio::time::Instant;

use super::batch::{ApplyOutcome, Batch, Cell, MAX_FUTURE_SECONDS, Part, Remark, Value};
use super::fence::{FenceKind, StoredFence};
use super::read::{MAX_SKETCHES, Read};
use super::reading::{BinReading, CountedReading, KnownReading, Reading, Unreadable};
use super::write::{Cleaned, Write};
use crate::document::DocumentStore;
use crate::document::memory::MemoryDocuments;
use crate::family::future::StoreFuture;
use crate::family::name::CounterName;
use crate::family::shard::Shard;
use crate::family::writer::WriterId;
use crate::sketch::Sketch;
use crate::time::expiry_clock::{Expiry, ExpiryClock};
use crate::time::{Bucket, Grid, Precision, Precisions, Sample, Timestamp};
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
    visitors: HashMap<(CounterName, Bucket), Visitors>,
    bins: BTreeMap<(CounterName, Precision, Timestamp), Bins>,
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

#[derive(Debug)]
struct Visitors {
    expiry: Timestamp,
    sketch: Sketch,
}

#[derive(Debug)]
struct Bins {
    expiry: Timestamp,
    counts: BTreeMap<Bin, u64>,
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
            state.visitors.retain(|(name, _), _| name != counter);
            state.bins.retain(|(name, ..), _| name != counter);
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
    fn kind(&self) -> String {
        "memory".to_owned()
    }

    fn documents(&self) -> Option<&dyn DocumentStore> {
        Some(&self.documents)
    }

    fn samples<'a>(
        &'a self,
        counters: &'a [CounterName],
        precision: Precision,
        range: Range<Timestamp>,
        _: u32,
    ) -> StoreFuture<'a, Vec<Result<Reading, Unreadable>>> {
        Box::pin(async move {
            let state = self.state();
            let samples = |counter: &CounterName| {
                let buckets = state.counts.get(&(precision, counter.clone()));
                let inside = buckets.into_iter().flat_map(|buckets| buckets.range(range.clone()));
                Ok(inside.map(|(&start, &count)| Sample { start, count }).collect::<Vec<_>>().into())
            };
            Ok(counters.iter().map(samples).collect())
        })
    }

    fn lifetimes<'a>(&'a self, counters: &'a [CounterName]) -> StoreFuture<'a, Vec<Result<u64, Unreadable>>> {
        Box::pin(async move {
            let totals = &self.state().totals;
            Ok(counters.iter().map(|counter| Ok(totals.get(counter).copied().unwrap_or_default())).collect())
        })
    }

    fn visitors<'a>(&'a self, counters: &'a [CounterName], buckets: &'a [Bucket]) -> StoreFuture<'a, Sketch> {
        Box::pin(async move {
            let state = self.state();
            let mut union = Sketch::new();
            for counter in counters {
                for bucket in buckets {
                    if let Some(visitors) = state.visitors.get(&(counter.clone(), *bucket)) {
                        union.merge(&visitors.sketch);
                    }
                }
            }
            Ok(union)
        })
    }

    fn bins<'a>(
        &'a self,
        counters: &'a [CounterName],
        precision: Precision,
        range: Range<Timestamp>,
    ) -> StoreFuture<'a, Vec<BinReading>> {
        Box::pin(async move {
            let state = self.state();
            let of = |counter: &CounterName| {
                let key = |start| (counter.clone(), precision, start);
                let inside = range.start < range.end;
                let found = inside.then(|| state.bins.range(key(range.start)..key(range.end)));
                let counts = |bins: &Bins| bins.counts.iter().map(|(bin, count)| (*bin, *count)).collect();
                let buckets = found.into_iter().flatten().map(|((.., start), bins)| (*start, counts(bins)));
                BinReading { buckets: buckets.collect(), unreadable: None }
            };
            Ok(counters.iter().map(of).collect())
        })
    }

    fn sketches<'a>(
        &'a self,
        counters: &'a [CounterName],
        buckets: &'a [Bucket],
    ) -> StoreFuture<'a, Vec<Vec<Result<Sketch, Unreadable>>>> {
        Box::pin(async move {
            let (state, mut found, mut sketches) = (self.state(), 0, Vec::new());
            for bucket in buckets {
                let of = |counter: &CounterName| state.visitors.get(&(counter.clone(), *bucket));
                found += counters.iter().filter(|counter| of(counter).is_some()).count();
                if found > MAX_SKETCHES && !sketches.is_empty() {
                    break;
                }
                let sketch =
                    |counter| Ok(of(counter).map_or_else(Sketch::new, |visitors| visitors.sketch.clone()));
                sketches.push(counters.iter().map(sketch).collect());
            }
            Ok(sketches)
        })
    }

    fn hints(&self) -> Vec<Hint> {
        self.state().clock.is_ahead().then_some(Hint::CLOCK_JUMPED).into_iter().collect()
    }

    fn known<'a>(
        &'a self,
        precisions: &'a [Precision],
        from: &'a str,
        limit: usize,
    ) -> StoreFuture<'a, KnownReading> {
        Box::pin(async move {
            let state = self.state();
            let of = |precision: Precision| {
                let names = state.counts.keys().filter(move |(p, _)| *p == precision);
                let names = names.filter(|(_, name)| &**name >= from).take(limit);
                names.map(move |(_, name)| (name.clone(), precision))
            };
            Ok(precisions.iter().flat_map(|precision| of(*precision)).collect::<Vec<_>>().into())
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
                Value::Visitors(raised) => {
                    self.add_visitors(batch, cell, raised);
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

    fn add_visitors(&mut self, batch: &Batch, cell: &Cell, raised: &Sketch) {
        for (bucket, retention) in batch.buckets(cell) {
            let expiry = retention.removal(bucket.start);
            let visitors = self.visitors.entry((cell.counter.clone(), bucket));
            let visitors = visitors.or_insert_with(|| Visitors { expiry, sketch: Sketch::new() });
            visitors.sketch.merge(raised);
        }
    }

    /// Adds bins. Returns the reason if a bucket rejects one of them.
    fn add_bins(&mut self, batch: &Batch, cell: &Cell, more: &[(Bin, u64)]) -> Option<DropReason> {
        let mut rejected = None;
        for (bucket, retention) in batch.buckets(cell) {
            let key = (cell.counter.clone(), bucket.precision, bucket.start);
            let expiry = retention.removal(bucket.start);
            let bins = self.bins.entry(key).or_insert_with(|| Bins { expiry, counts: BTreeMap::new() });
            for (bin, more) in more {
                let count = bins.counts.entry(*bin).or_default();
                match sum(*count, *more) {
                    Some(sum) => *count = sum,
                    None => rejected = Some(DropReason::OutOfRange),
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
        self.visitors.retain(|(_, bucket), visitors| !expiry.is_expired(bucket.start, visitors.expiry));
        self.bins.retain(|(_, _, start), bins| !expiry.is_expired(*start, bins.expiry));
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
        assert_eq!(visits.hints(), [Hint::CLOCK_JUMPED]);
    }
}
