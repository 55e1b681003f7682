//! The counts that wait, as a list that is put in order when it has to be.
//!
//! Cells come in runs: of each thread and each second those of all its counters, by number. To merge such runs takes
//! two fifths of what it takes to find each cell in a table, and what is sent has to be in order in any case.

use super::key::Key;
use crate::time::{Precisions, Timestamp};

/// Counts of counters, by number.
#[derive(Clone, Debug, Default)]
pub(super) struct Cells {
    list: Vec<(Key, u64)>,
    /// The length of the first part of the list, which is ascending and has each cell once. What came later may have some of
    /// them again.
    ordered: usize,
    /// Places that some cells have in the list, or had: a source adds to few cells many times.
    recent: Vec<u32>,
    /// The number of cells that were taken last.
    usual: usize,
}

/// The number of cells whose place is known, a power of two: several times as many as a batch of a source has.
const RECENT: usize = 1 << RECENT_BITS;
const RECENT_BITS: u32 = 9;

impl Cells {
    /// Adds to the cell of a start that is the finest precision's; returns whether it may be a new one.
    pub(super) fn add(&mut self, counter: u32, at: Timestamp, count: u64, set: &Precisions) -> bool {
        // The next one nearly always has the same start, and a division takes as long as everything else.
        let is_start = self.list.last().is_some_and(|(last, _)| last.finest == 0 && last.start == at);
        let start = if is_start { at } else { set.start(0, at) };
        self.push(Key { counter, finest: 0, start }, count)
    }

    /// Adds to a cell; returns whether it may be a new one.
    pub(super) fn push(&mut self, key: Key, count: u64) -> bool {
        if self.list.len() == self.list.capacity() {
            self.make_room();
        }
        let place = &mut self.recent[recent(&key)];
        match self.list.get_mut(*place as usize) {
            Some((known, sum)) if *known == key => {
                merge(sum, count);
                false
            }
            _ => {
                *place = u32::try_from(self.list.len()).unwrap_or(u32::MAX);
                self.list.push((key, count));
                true
            }
        }
    }

    /// Merges what is there several times, so that the list has at most a few times the memory that its cells need, and grows if
    /// there is still little room.
    #[cold]
    fn make_room(&mut self) {
        if self.list.is_empty() {
            self.recent.resize(RECENT, 0);
            self.list.reserve(self.usual);
        }
        self.order();
        if self.list.len() > self.list.capacity() / 2 {
            self.list.reserve(self.list.len());
        }
    }

    /// Returns the number of cells; some may be among them again.
    pub(super) const fn len(&self) -> usize {
        self.list.len()
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = &Key> {
        self.list.iter().map(|(key, _)| key)
    }

    /// Returns the sum of all counts.
    pub(super) fn sum(&self) -> u64 {
        self.list.iter().fold(0, |sum, (_, count)| sum.saturating_add(*count))
    }

    /// Folds what fine precisions no longer keep into coarser ones, and what is there several times.
    pub(super) fn coarsen(&mut self, set: &Precisions, now: Timestamp) {
        // Of a run all have the same place, and nearly always all are kept.
        let mut runs = self.list.chunk_by(|(one, _), (other, _)| one.place() == other.place());
        if !runs.all(|run| run[0].0.coarsened(set, now) == run[0].0) {
            self.ordered = 0;
            self.list.iter_mut().for_each(|(key, _)| *key = key.coarsened(set, now));
        }
        self.order();
    }

    /// Takes everything, in order.
    pub(super) fn take(&mut self) -> Vec<(Key, u64)> {
        self.order();
        (self.ordered, self.usual) = (0, self.list.len());
        std::mem::take(&mut self.list)
    }

    fn order(&mut self) {
        if self.ordered == self.list.len() {
            return;
        }
        // The stable sort finds runs and merges them.
        self.list.sort_by(|(one, _), (other, _)| one.order(other));
        self.list.dedup_by(|(key, count), (before, sum)| {
            let is_same = key == before;
            if is_same {
                merge(sum, *count);
            }
            is_same
        });
        self.ordered = self.list.len();
    }
}

/// Returns where the place of a cell is kept; others may have the same.
fn recent(key: &Key) -> usize {
    let hash = key.number().wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (64 - RECENT_BITS);
    usize::try_from(hash).unwrap_or(0)
}

/// Adds a count, of a file that may say anything.
const fn merge(sum: &mut u64, count: u64) {
    *sum = sum.saturating_add(count);
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;
    use crate::time::Precision;

    #[test]
    fn what_is_added_again_and_again_takes_the_memory_of_what_there_is() {
        let (set, mut cells) = (Precisions::default(), Cells::default());
        // More than those whose place is known.
        let counters = 3 * u32::try_from(RECENT).expect("few");
        for _ in 0..1_000 {
            for counter in 0..counters {
                cells.add(counter, Timestamp::from_unix(9), 1, &set);
            }
        }
        assert!(cells.list.capacity() <= 4 * counters as usize, "{}", cells.list.capacity());
        let taken = cells.take();
        assert_eq!((taken.len(), taken.iter().all(|(_, count)| *count == 1_000)), (counters as usize, true));
    }

    /// Takes everything, and checks that it is in order and each cell is there once.
    fn taken(cells: &mut Cells) -> BTreeMap<(u32, Timestamp, usize), u64> {
        let taken = cells.take();
        assert!(taken.is_sorted_by(|(one, _), (other, _)| one.order(other).is_lt()), "{taken:?}");
        taken.into_iter().map(|(key, count)| ((key.counter, key.start, key.finest), count)).collect()
    }

    proptest! {
        /// A table of cells says what must be there, whatever is folded in between.
        #[test]
        fn what_is_taken_is_in_order_and_has_each_cell_once(
            steps in prop::collection::vec(
                (0_u8..16, prop_oneof![0_u32..3, 0_u32..2_000], 0_u64..40, 1_u64..5),
                0..600,
            ),
        ) {
            let widths = [2, 6, 18].map(|width| Precision::try_from(width).expect("not 0"));
            let set = Precisions::new(widths).expect("a set");
            let (mut cells, mut model, mut second) = (Cells::default(), BTreeMap::new(), 1_000_000);
            for (step, counter, ago, count) in steps {
                let at = Timestamp::from_unix(second - ago);
                match step {
                    0 => {
                        second += 13 * ago;
                        let now = Timestamp::from_unix(second);
                        let mut folded = BTreeMap::new();
                        for ((counter, start, finest), count) in std::mem::take(&mut model) {
                            let Key { finest, start, .. } =
                                (Key { counter: (), finest, start }).coarsened(&set, now);
                            *folded.entry((counter, start, finest)).or_insert(0) += count;
                        }
                        model = folded;
                        cells.coarsen(&set, now);
                        prop_assert_eq!(cells.len(), model.len());
                    }
                    1 => {
                        cells.push(Key { counter, finest: 2, start: set.start(2, at) }, count);
                        *model.entry((counter, set.start(2, at), 2)).or_insert(0) += count;
                    }
                    2 => {
                        prop_assert_eq!(taken(&mut cells), std::mem::take(&mut model));
                        prop_assert_eq!(cells.len(), 0);
                    }
                    3 => cells = cells.clone(),
                    _ => {
                        cells.add(counter, at, count, &set);
                        *model.entry((counter, set.start(0, at), 0)).or_insert(0) += count;
                    }
                }
                prop_assert_eq!(cells.sum(), model.values().sum::<u64>());
            }
            prop_assert_eq!(taken(&mut cells), model);
        }
    }
}
