#[cfg(feature = "archive")]
mod archive;

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard};

use super::{Bin, BinReading, Cleaned, CountedReading, KnownReading, Reading, Store, Unreadable};
use crate::future::Answer;
use crate::shard::Shard;
use crate::sketch::Sketch;
use crate::time::{Bucket, Grid};
use crate::visits::batch::AHEAD;
use crate::visits::store::SKETCHES;
use crate::visits::{ApplyOutcome, Batch, DropReason, FenceKind, Part, Remark};
use crate::writer::WriterId;
use crate::{CounterName, Precision, Precisions, Sample, Timestamp};

/// Visits in the process.
#[derive(Debug, Default)]
pub(crate) struct MemoryVisits(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    fences: HashMap<WriterId, Applied>,
    counts: BTreeMap<(Precision, CounterName), BTreeMap<Timestamp, u64>>,
    totals: HashMap<CounterName, u64>,
    visitors: HashMap<(CounterName, Bucket), Visitors>,
    bins: BTreeMap<(CounterName, Precision, Timestamp), Bins>,
    salts: HashMap<Bucket, Salt>,
    #[cfg(feature = "archive")]
    archived: archive::Archived,
}

#[derive(Debug, Default)]
struct Applied {
    sequence: u64,
    remarks: Vec<Remark>,
    /// The end of a source that is not kept for ever.
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
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().expect("nothing panics under this lock")
    }
}

impl Store for MemoryVisits {
    fn apply<'a>(&'a self, batch: &'a Batch) -> Answer<'a, ApplyOutcome> {
        Box::pin(async move { Ok(self.kept().apply(batch)) })
    }

    fn clean<'a>(&'a self, _: Shard, now: Timestamp, kept: &'a Precisions) -> Answer<'a, Cleaned> {
        Box::pin(async move { Ok(self.kept().clean(now, kept)) })
    }

    fn adopt<'a>(&'a self, _: Shard, _: Option<String>, _: &'a Precisions) -> Answer<'a, Option<String>> {
        Box::pin(async move { Ok(None) })
    }

    fn samples<'a>(
        &'a self,
        counters: &'a [CounterName],
        precision: Precision,
        range: Range<Timestamp>,
        _: u32,
    ) -> Answer<'a, Vec<Result<Reading, Unreadable>>> {
        Box::pin(async move {
            let kept = self.kept();
            let samples = |counter: &CounterName| {
                let buckets = kept.counts.get(&(precision, counter.clone()));
                let inside = buckets.into_iter().flat_map(|buckets| buckets.range(range.clone()));
                Ok(inside.map(|(&start, &count)| Sample { start, count }).collect::<Vec<_>>().into())
            };
            Ok(counters.iter().map(samples).collect())
        })
    }

    fn lifetimes<'a>(&'a self, counters: &'a [CounterName]) -> Answer<'a, Vec<Result<u64, Unreadable>>> {
        Box::pin(async move {
            let totals = &self.kept().totals;
            Ok(counters.iter().map(|counter| Ok(totals.get(counter).copied().unwrap_or_default())).collect())
        })
    }

    fn forget<'a>(&'a self, counter: &'a CounterName, _: &'a Grid, _: Timestamp) -> Answer<'a, ()> {
        Box::pin(async move {
            let kept = &mut *self.kept();
            kept.counts.retain(|(_, name), _| name != counter);
            kept.visitors.retain(|(name, _), _| name != counter);
            kept.bins.retain(|(name, ..), _| name != counter);
            kept.totals.remove(counter);
            #[cfg(feature = "archive")]
            kept.archived.forget(counter);
            Ok(())
        })
    }

    fn visitors<'a>(&'a self, counters: &'a [CounterName], buckets: &'a [Bucket]) -> Answer<'a, Sketch> {
        Box::pin(async move {
            let kept = self.kept();
            let mut union = Sketch::new();
            for counter in counters {
                for bucket in buckets {
                    if let Some(visitors) = kept.visitors.get(&(counter.clone(), *bucket)) {
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
    ) -> Answer<'a, Vec<BinReading>> {
        Box::pin(async move {
            let kept = self.kept();
            let of = |counter: &CounterName| {
                let place = |start| (counter.clone(), precision, start);
                let inside = range.start < range.end;
                let found = inside.then(|| kept.bins.range(place(range.start)..place(range.end)));
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
    ) -> Answer<'a, Vec<Vec<Result<Sketch, Unreadable>>>> {
        Box::pin(async move {
            let (kept, mut found, mut sketches) = (self.kept(), 0, Vec::new());
            for bucket in buckets {
                let of = |counter: &CounterName| kept.visitors.get(&(counter.clone(), *bucket));
                found += counters.iter().filter(|counter| of(counter).is_some()).count();
                if found > SKETCHES && !sketches.is_empty() {
                    break;
                }
                let sketch =
                    |counter| Ok(of(counter).map_or_else(Sketch::new, |visitors| visitors.sketch.clone()));
                sketches.push(counters.iter().map(sketch).collect());
            }
            Ok(sketches)
        })
    }

    fn salt<'a>(&'a self, epoch: Bucket, candidate: [u8; 16], expiry: Timestamp) -> Answer<'a, [u8; 16]> {
        Box::pin(async move {
            let now = Timestamp::now();
            let salts = &mut self.kept().salts;
            salts.retain(|_, salt| salt.expiry > now);
            Ok(salts.entry(epoch).or_insert(Salt { expiry, salt: candidate }).salt)
        })
    }

    fn known<'a>(
        &'a self,
        precisions: &'a [Precision],
        from: &'a str,
        limit: usize,
    ) -> Answer<'a, KnownReading> {
        Box::pin(async move {
            let kept = self.kept();
            let of = |precision: Precision| {
                let names = kept.counts.keys().filter(move |(p, _)| *p == precision);
                let names = names.filter(|(_, name)| &**name >= from).take(limit);
                names.map(move |(_, name)| (name.clone(), precision))
            };
            Ok(precisions.iter().flat_map(|precision| of(*precision)).collect::<Vec<_>>().into())
        })
    }

    fn counted<'a>(&'a self, _: Shard, _: Option<String>) -> Answer<'a, CountedReading> {
        Box::pin(async move {
            let counters = self.kept().totals.keys().cloned().collect();
            Ok(CountedReading { counters, ..CountedReading::default() })
        })
    }
}

impl fmt::Debug for Salt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The salt is a secret and belongs in no log.
        f.debug_struct("Salt").field("expiry", &self.expiry).finish_non_exhaustive()
    }
}

impl Kept {
    fn apply(&mut self, batch: &Batch) -> ApplyOutcome {
        let fence = batch.fence;
        let applied = self.fences.entry(fence.writer).or_default();
        if let Some(outcome) = fence.outcome(applied.sequence, || applied.remarks.clone()) {
            return outcome;
        }
        applied.sequence = fence.sequence;
        applied.expiry = match fence.kind {
            FenceKind::Source { life: Some(life) } => Some(Timestamp::now().plus(life.as_secs())),
            _ => None,
        };
        applied.remarks.clear();
        let ahead = Timestamp::now().plus(AHEAD);
        let refuse = |part| Remark::Refused { part, reason: DropReason::Ahead };
        for (index, cell) in batch.cells.iter().enumerate() {
            if cell.start > ahead {
                applied.remarks.push(refuse(Part::Cell(index)));
                continue;
            }
            let (mut fit, mut wanted) = (0, 0);
            for (bucket, _) in batch.buckets(cell) {
                let counter = (bucket.precision, cell.counter.clone());
                let count = self.counts.entry(counter).or_default().entry(bucket.start).or_default();
                wanted += 1;
                if let Some(sum) = count.checked_add(cell.count).filter(|sum| i64::try_from(*sum).is_ok()) {
                    *count = sum;
                    fit += 1;
                }
            }
            if batch.adds_to_lifetime(fit, wanted) {
                let total = self.totals.entry(cell.counter.clone()).or_default();
                if *total == 0 {
                    applied.remarks.push(Remark::Began { cell: index });
                }
                *total = total.saturating_add(cell.count);
            }
            if fit < wanted {
                let (part, reason) = (Part::Cell(index), DropReason::OutOfRange);
                applied.remarks.push(Remark::Refused { part, reason });
            }
        }
        for (index, cell) in batch.sketches.iter().enumerate() {
            if cell.start > ahead {
                applied.remarks.push(refuse(Part::Visitors(index)));
                continue;
            }
            for (bucket, retention) in batch.visitor_buckets(cell) {
                let expiry = retention.expiry(bucket.start);
                let visitors = self.visitors.entry((cell.counter.clone(), bucket));
                let visitors = visitors.or_insert_with(|| Visitors { expiry, sketch: Sketch::new() });
                visitors.sketch.merge(&cell.raised);
            }
        }
        for (index, cell) in batch.bins.iter().enumerate() {
            if cell.start > ahead {
                applied.remarks.push(refuse(Part::Bins(index)));
                continue;
            }
            let mut is_refused = false;
            for (bucket, retention) in batch.bin_buckets(cell) {
                let place = (cell.counter.clone(), bucket.precision, bucket.start);
                let expiry = retention.expiry(bucket.start);
                let bins = self.bins.entry(place).or_insert_with(|| Bins { expiry, counts: BTreeMap::new() });
                for (bin, more) in &cell.bins {
                    let count = bins.counts.entry(*bin).or_default();
                    match count.checked_add(*more).filter(|sum| i64::try_from(*sum).is_ok()) {
                        Some(sum) => *count = sum,
                        None => is_refused = true,
                    }
                }
            }
            if is_refused {
                let (part, reason) = (Part::Bins(index), DropReason::OutOfRange);
                applied.remarks.push(Remark::Refused { part, reason });
            }
        }
        ApplyOutcome::Applied(applied.remarks.clone())
    }

    fn clean(&mut self, now: Timestamp, kept: &Precisions) -> Cleaned {
        let mut cleaned = Cleaned::default();
        self.counts.retain(|(precision, _), buckets| {
            let retention = kept.retention_or_default(*precision);
            let live = buckets.split_off(&retention.oldest(now));
            cleaned.samples += std::mem::replace(buckets, live).len() as u64;
            cleaned.counters += u64::from(buckets.is_empty());
            !buckets.is_empty()
        });
        self.visitors.retain(|_, visitors| visitors.expiry > now);
        self.bins.retain(|_, bins| bins.expiry > now);
        let time = Timestamp::now();
        self.fences.retain(|_, applied| applied.expiry.is_none_or(|expiry| expiry > time));
        cleaned
    }
}
