//! Folding: moving hits from stripes and labels into the backlog.

use std::sync::MutexGuard;

use super::Tally;
use super::bins::{BinSlot, BinSums};
use super::label::{LabelCount, NewPerson};
use super::registry::{OTHER, PAGE_FLAG, Registry};
use super::stripe::{ClosedCell, Stripe};
use super::visitors::{MAX_CHUNK, OpenBuckets, Visit};
use crate::family::shard::Shard;
use crate::time::Timestamp;
use crate::visits::pending::{Queues, VIEW_FLAG, Waiting};

/// State of folding, protected by the backlog lock.
#[derive(Debug, Default)]
pub(crate) struct Folding {
    /// Shards by counter number.
    pub(super) shards: Vec<Shard>,
    /// Registers of the open visitor buckets.
    pub(super) open: OpenBuckets,
    /// The current visitor bucket as of the latest time a stripe was drained.
    current: Timestamp,
    /// Set for counters with visitors in the store, by number.
    pub(super) visited: Vec<bool>,
    /// Empty list, swapped with the list of closed cells in a stripe to reuse the allocation.
    spare: Vec<ClosedCell>,
    spare_bins: Vec<BinSlot>,
    spare_labels: Vec<LabelCount>,
    spare_people: Vec<NewPerson>,
    /// All bins since the process started, because exported histograms must never shrink.
    pub(super) bins: BinSums,
}

impl Tally {
    /// Moves hits from the stripes to the backlog, and coarsens the backlog if it is large.
    pub(crate) fn fold(&self, now: Timestamp) {
        self.fold_into(&mut self.backlog.lock(), now);
    }

    /// Locks the backlog after [folding](Self::fold).
    pub(crate) fn folded(&self, now: Timestamp) -> MutexGuard<'_, Queues<Folding>> {
        let mut backlog = self.backlog.lock();
        self.fold_into(&mut backlog, now);
        backlog
    }

    pub(super) fn fold_into(&self, backlog: &mut Queues<Folding>, now: Timestamp) {
        let mut spare = std::mem::take(&mut backlog.folding.spare);
        let mut bins = std::mem::take(&mut backlog.folding.spare_bins);
        for stripe in self.stripes.iter() {
            // A thread adds the hit before the visitor, so we need to drain visitors first. Otherwise, we
            // could fold a visitor before the hit.
            self.drain_into(backlog, stripe, now);
            stripe.take(&mut spare, || self.registry.counters());
            stripe.take_bins(&mut bins);
            for slot in bins.drain(..) {
                backlog.folding.bins.add(slot);
                for (counter, bin) in slot.parts() {
                    let waiting = self.waiting(backlog, counter);
                    waiting.each(|pending| {
                        pending.measure(counter, slot.start, bin, slot.count, &self.grid);
                    });
                }
            }
            for ClosedCell { mut counter, start, count } in spare.drain(..) {
                if counter & VIEW_FLAG > 0 && !self.registry.has_views(counter & !VIEW_FLAG) {
                    counter = OTHER | VIEW_FLAG;
                }
                let waiting = self.waiting(backlog, counter & !VIEW_FLAG);
                waiting.each(|pending| _ = pending.add(counter, start, count, &self.grid));
            }
        }
        (backlog.folding.spare, backlog.folding.spare_bins) = (spare, bins);
        self.collect(backlog);
        let is_crowded = backlog.waiting.iter().any(|waiting| waiting.pending.is_crowded());
        let mut labels = std::mem::take(&mut backlog.folding.spare_labels);
        let mut people = std::mem::take(&mut backlog.folding.spare_people);
        for label in self.labels.iter() {
            let shard = label.take(&mut labels, &mut people, is_crowded);
            for LabelCount { name, shard, start, count } in labels.drain(..) {
                let waiting = &mut backlog.waiting[shard.index()];
                waiting.each(|pending| _ = pending.add_label(&name, start, count, &self.grid));
            }
            for NewPerson { value, at, register } in people.drain(..) {
                let waiting = &mut backlog.waiting[shard.index()];
                waiting.each(|pending| _ = pending.raise_label(&value, at, register, &self.grid));
            }
        }
        (backlog.folding.spare_labels, backlog.folding.spare_people) = (labels, people);
        backlog.coarsen(now, &self.grid);
    }

    pub(super) fn drain_into(&self, backlog: &mut Queues<Folding>, stripe: &Stripe, now: Timestamp) {
        let current = self.grid.visitors.base().bucket(now).start;
        if std::mem::replace(&mut backlog.folding.current, current) != current {
            // Bucket numbers are eventually reused.
            self.recent.forget(|_| true);
            self.collect(backlog);
            backlog.folding.open.close(current, &self.recent.busy);
        }
        stripe.visitors.drain(|bucket, visits| {
            if bucket >= current && !backlog.folding.open.has(bucket) {
                self.collect(backlog);
                backlog.folding.open.open(bucket, &self.recent.busy);
            }
            let (mut each, mut count) = ([Visit::default(); 2 * MAX_CHUNK], 0);
            for visit in visits {
                let everything = self.everything.get().filter(|_| visit.counter() & PAGE_FLAG > 0);
                for counter in [Some(&(visit.counter() & !PAGE_FLAG)), everything].into_iter().flatten() {
                    each[count] = visit.on(*counter);
                    count += 1;
                }
            }
            let visits = &each[..count];
            if !backlog.folding.open.raise(bucket, visits, &self.recent.busy) {
                for visit in visits {
                    let (counter, register) = (visit.counter(), visit.register());
                    let waiting = self.waiting(backlog, counter);
                    waiting.each(|pending| _ = pending.raise(counter, bucket, register, &self.grid));
                }
            }
        });
    }

    /// Moves raised registers to the pending hits.
    pub(super) fn collect(&self, backlog: &mut Queues<Folding>) {
        let mut open = std::mem::take(&mut backlog.folding.open);
        open.collect(|number, bucket, raised| {
            let waiting = self.waiting(backlog, number);
            waiting.each(|pending| pending.raise_all(number, bucket, raised, &self.grid));
        });
        backlog.folding.open = open;
    }

    fn waiting<'a>(&self, backlog: &'a mut Queues<Folding>, counter: u32) -> &'a mut Waiting {
        let shard = backlog.folding.shard(counter, &self.registry);
        &mut backlog.waiting[shard.index()]
    }
}

impl Folding {
    fn shard(&mut self, counter: u32, registry: &Registry) -> Shard {
        let index = counter as usize;
        if index >= self.shards.len() {
            registry.shards(&mut self.shards);
        }
        self.shards[index]
    }
}
