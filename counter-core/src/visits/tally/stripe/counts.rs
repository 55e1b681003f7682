//! The counts of a stripe.

use std::sync::OnceLock;

use crate::visits::tally::single_writer::SingleWriter;

/// The counts of a thread, by counter number. More parts are allocated on demand, because counts can't be
/// moved while a thread adds to them.
#[derive(Debug)]
pub(super) struct Counts {
    pub(super) first: Box<[Slot]>,
    pub(super) parts: Box<[OnceLock<Box<[Slot]>>]>,
}

/// The hits of a counter in the current bucket and in the previous bucket.
#[derive(Debug, Default)]
pub(super) struct Slot(pub(super) [Count; SIDES]);

pub(super) const SIDES: usize = 2;

/// The hits of a counter in a bucket.
#[derive(Debug, Default)]
pub(super) struct Count {
    pub(super) direct: SingleWriter,
    /// Page hits, which also count for the total counter.
    pub(super) of_page: SingleWriter,
}

/// The folded part of a [`Count`].
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CountSnapshot {
    pub(super) direct: u64,
    pub(super) of_page: u64,
}

/// Maximum number of counters in a part: 64 KB.
pub(super) const PART_COUNTERS: usize = 2048;

impl Count {
    pub(super) fn get(&self) -> CountSnapshot {
        CountSnapshot { direct: self.direct.get(), of_page: self.of_page.get() }
    }
}

impl Counts {
    pub(super) fn new(counters: usize) -> Self {
        let more = counters.saturating_sub(PART_COUNTERS).div_ceil(PART_COUNTERS);
        Self {
            first: slots(counters.min(PART_COUNTERS)),
            parts: (0..more).map(|_| OnceLock::new()).collect(),
        }
    }

    #[inline]
    pub(super) fn slot(&self, counter: u32) -> &Slot {
        self.first.get(counter as usize).unwrap_or_else(|| self.slot_in_part(counter as usize))
    }

    #[inline(never)]
    fn slot_in_part(&self, counter: usize) -> &Slot {
        &self.parts[counter / PART_COUNTERS - 1].get_or_init(|| slots(PART_COUNTERS))[counter % PART_COUNTERS]
    }

    /// Returns the allocated slots of the counters below this number, along with their numbers.
    pub(super) fn of(&self, counters: u32) -> impl Iterator<Item = (u32, &Slot)> {
        let parts = (0..).step_by(PART_COUNTERS).skip(1).zip(&self.parts);
        let parts = parts.filter_map(|(first, part)| Some((first, part.get()?)));
        let all = (0..).zip(&self.first).chain(parts.flat_map(|(first, part)| (first..).zip(part)));
        all.take_while(move |(counter, _)| *counter < counters)
    }
}

fn slots(count: usize) -> Box<[Slot]> {
    (0..count).map(|_| Slot::default()).collect()
}
