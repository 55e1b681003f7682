//! A part of the tally with a lock of its own, used by some of the threads: every hit takes it, and nothing
//! else holds it for long.

use std::sync::{Arc, Mutex, MutexGuard};

use crate::visits::bin_table::{BinTable, Together};
use crate::visits::registers::Registers;
use crate::visits::registry::OTHER;
use crate::visits::{Bin, Hit, Requests};
use crate::{Counter, Timestamp};

/// Each stripe has its own cache lines, so that threads on different stripes do not slow each other down.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Stripe(Mutex<Local>);

/// The data under the lock.
#[derive(Debug)]
pub(crate) struct Local {
    pub(crate) requests: Requests,
    pub(crate) recorded: u64,
    pub(crate) overflow: u64,
    pub(crate) latest: Latest,
    /// The slots, by the number of the counter.
    slots: Vec<Slot>,
    /// Cells whose base bucket was followed by another one.
    closed: Vec<Closed>,
    /// The number of closed cells at which they are folded: [`CLOSED`], or 0 when the counts of a label are to be.
    most_closed: usize,
    /// The bins of distributions.
    pub(crate) bins: BinTable,
}

/// The buckets of the last instant: the next hit nearly always has the same ones, and a division takes as
/// long as everything else that is done for a hit.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Latest {
    pub(crate) at: Timestamp,
    pub(crate) start: Timestamp,
    pub(crate) visitors: Timestamp,
    /// The bucket of distributions, if there are any.
    pub(crate) distributions: Option<Timestamp>,
}

#[derive(Debug, Default)]
struct Slot {
    start: Timestamp,
    count: u64,
    visitors: Option<(Timestamp, Arc<Registers>)>,
}

/// A cell that nothing is added to any more.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Closed {
    pub(crate) counter: u32,
    pub(crate) start: Timestamp,
    pub(crate) count: u64,
}

/// The number of closed cells at which the thread that closed the last one folds them: nothing flushes, or
/// instants come in no order.
pub(crate) const CLOSED: usize = 4096;

impl Stripe {
    #[inline]
    pub(crate) fn lock(&self) -> MutexGuard<'_, Local> {
        self.0.lock().expect("nothing panics under this lock")
    }
}

impl Default for Local {
    fn default() -> Self {
        Self {
            requests: Requests::default(),
            recorded: 0,
            overflow: 0,
            latest: Latest::default(),
            slots: Vec::new(),
            closed: Vec::new(),
            most_closed: CLOSED,
            bins: BinTable::default(),
        }
    }
}

impl Local {
    /// Adds hits of the latest instant to counters by their numbers; `open` returns the registers of a
    /// counter and a bucket, and `count_label` counts a hit that is of a label, whose number is that of `(other)`.
    #[inline]
    pub(crate) fn add(
        &mut self,
        hits: &[Hit],
        number: impl Fn(Counter) -> u32,
        open: impl Fn(u32, Timestamp) -> Arc<Registers>,
        count_label: impl Fn((u32, u32), u64, Timestamp) -> Option<bool>,
    ) {
        let Latest { start, visitors: bucket, .. } = self.latest;
        for hit in hits {
            let number = number(hit.counter);
            let weight = u64::from(hit.weight.get());
            if number == OTHER {
                if let Some(is_full) = count_label((hit.counter.tally, hit.counter.number), weight, start) {
                    if is_full {
                        self.most_closed = 0;
                    }
                    continue;
                }
                self.overflow += weight;
            }
            self.recorded += weight;
            let slot = match self.slots.get_mut(number as usize) {
                Some(slot) => slot,
                None => grow(&mut self.slots, number),
            };
            if slot.start != start {
                slot.begin(number, start, &mut self.closed);
            }
            slot.count += weight;
            if let Some(register) = hit.register {
                let registers = match &slot.visitors {
                    Some((of, registers)) if *of == bucket => registers,
                    _ => slot.visit(bucket, open(number, bucket)),
                };
                registers.raise(register);
            }
        }
    }

    /// Adds one request of the latest instant to bins of these hits' counters, if there are distributions.
    #[inline]
    pub(crate) fn measure(&mut self, hits: &[Hit], bins: &[Bin], number: impl Fn(Counter) -> u32) {
        let Some(start) = self.latest.distributions else { return };
        for hits in hits.chunks(2) {
            let counters = (number(hits[0].counter), hits.get(1).map(|hit| number(hit.counter)));
            for bins in bins.chunks(2) {
                self.bins.add(Together::new(counters, (bins[0], bins.get(1).copied())), start);
            }
        }
    }

    /// Returns whether it is time to [`take`](Self::take) the cells.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.closed.len() >= self.most_closed
    }

    /// Returns the number of cells and of bins.
    pub(crate) fn cells(&self) -> usize {
        self.closed.len() + self.slots.iter().filter(|slot| slot.count > 0).count() + self.bins.len()
    }

    /// Returns the sum of the cells.
    pub(crate) fn hits(&self) -> u64 {
        let open = self.slots.iter().map(|slot| slot.count).sum::<u64>();
        open + self.closed.iter().map(|cell| cell.count).sum::<u64>()
    }

    /// Takes all cells, in exchange for the empty list that it is given, and drops the registers of buckets
    /// before `current`.
    pub(crate) fn take(&mut self, cells: &mut Vec<Closed>, current: Timestamp) {
        std::mem::swap(&mut self.closed, cells);
        self.most_closed = CLOSED;
        for (number, slot) in (0..).zip(&mut self.slots) {
            slot.close(number, cells);
            slot.visitors.take_if(|(bucket, _)| *bucket < current);
        }
    }
}

// Out of line: what is done once for a second, a bucket or a counter would otherwise take processor registers
// from what is done for each hit.
#[cold]
fn grow(slots: &mut Vec<Slot>, number: u32) -> &mut Slot {
    let index = number as usize;
    slots.resize_with(index + 1, Slot::default);
    &mut slots[index]
}

impl Slot {
    #[cold]
    fn begin(&mut self, number: u32, start: Timestamp, closed: &mut Vec<Closed>) {
        self.close(number, closed);
        self.start = start;
    }

    fn close(&mut self, number: u32, closed: &mut Vec<Closed>) {
        if self.count > 0 {
            closed.push(Closed { counter: number, start: self.start, count: self.count });
            self.count = 0;
        }
    }

    #[cold]
    fn visit(&mut self, bucket: Timestamp, registers: Arc<Registers>) -> &Registers {
        &self.visitors.insert((bucket, registers)).1
    }
}
