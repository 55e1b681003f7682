//! Pending counts, in a list that is only sorted on demand.
//!
//! Cells arrive in runs: for a thread and a second, all counters by number. Merging such runs takes two
//! fifths of the time needed to look up the cells in a table, and cells must be sorted to be sent anyway.

use super::key::Key;
use crate::time::{Precisions, Timestamp};

/// A list of counts by counter number, bucket start and finest precision.
#[derive(Clone, Debug, Default)]
pub(super) struct Cells {
    list: Vec<(Key, u64)>,
    /// Length of the sorted prefix without duplicates. The rest may contain duplicates.
    ordered: usize,
    /// Cached positions of cells in the list, which may be outdated. A source adds to a small number of cells
    /// very often.
    recent: Vec<u32>,
    /// Number of cells taken by the previous `take`.
    previous_len: usize,
}

/// Number of cached positions. This must be a power of two, and is larger than the batches of a source.
const RECENT_SLOTS: usize = 1 << RECENT_BITS;
const RECENT_BITS: u32 = 9;

impl Cells {
    /// Adds a count at an instant, in all precisions. Returns `true` if the cell may be new.
    pub(super) fn add(&mut self, counter: u32, at: Timestamp, count: u64, set: &Precisions) -> bool {
        // Consecutive cells almost always have the same start, and a division would cost as much as
        // everything else here.
        let is_start = self.list.last().is_some_and(|(last, _)| last.finest == 0 && last.start == at);
        let start = if is_start { at } else { set.start(0, at) };
        self.push(Key { counter, finest: 0, start }, count)
    }

    /// Adds a count to the cell with this key. Returns `true` if the cell may be new.
    pub(super) fn push(&mut self, key: Key, count: u64) -> bool {
        if self.list.len() == self.list.capacity() {
            self.grow();
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

    /// Merges duplicates to keep the list within a small multiple of the required memory, and grows the list
    /// if it is still more than half full.
    #[cold]
    fn grow(&mut self) {
        if self.list.is_empty() {
            self.recent.resize(RECENT_SLOTS, 0);
            self.list.reserve(self.previous_len);
        }
        self.order();
        if self.list.len() > self.list.capacity() / 2 {
            self.list.reserve(self.list.len());
        }
    }

    /// Returns the number of cells, including duplicates.
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

    /// Folds cells past the retention of fine precisions into coarser cells, and merges duplicates.
    pub(super) fn coarsen(&mut self, set: &Precisions, now: Timestamp) {
        // We only need to check a single cell per run, and almost always all runs are within retention.
        let mut runs = self.list.chunk_by(|(one, _), (other, _)| one.place() == other.place());
        if !runs.all(|run| run[0].0.coarsened(set, now) == run[0].0) {
            self.ordered = 0;
            self.list.iter_mut().for_each(|(key, _)| *key = key.coarsened(set, now));
        }
        self.order();
    }

    /// Takes all cells, sorted.
    pub(super) fn take(&mut self) -> Vec<(Key, u64)> {
        self.order();
        (self.ordered, self.previous_len) = (0, self.list.len());
        std::mem::take(&mut self.list)
    }

    fn order(&mut self) {
        if self.ordered == self.list.len() {
            return;
        }
        // The stable sort detects and merges runs.
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

/// Returns the index of a cell in the position cache, which may collide with other cells.
fn recent(key: &Key) -> usize {
    let hash = key.number().wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (64 - RECENT_BITS);
    usize::try_from(hash).unwrap_or(0)
}

/// Adds a count. This saturates because a count from a file could be anything.
pub(super) const fn merge(sum: &mut u64, count: u64) {
    *sum = sum.saturating_add(count);
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;
    use crate::time::Precision;

    #[test]
    fn repeated_adds_do_not_grow_the_list() {
        let (set, mut cells) = (Precisions::default(), Cells::default());
        // More counters than cached positions.
        let counters = 3 * u32::try_from(RECENT_SLOTS).expect("few");
        for _ in 0..1_000 {
            for counter in 0..counters {
                cells.add(counter, Timestamp::from_unix(9), 1, &set);
            }
        }
        assert!(cells.list.capacity() <= 4 * counters as usize, "{}", cells.list.capacity());
        let taken = cells.take();
        assert_eq!((taken.len(), taken.iter().all(|(_, count)| *count == 1_000)), (counters as usize, true));
    }

    /// Takes everything, and checks that cells are sorted and unique.
    fn taken(cells: &mut Cells) -> BTreeMap<(u32, Timestamp, usize), u64> {
        let taken = cells.take();
        assert!(taken.is_sorted_by(|(one, _), (other, _)| one.order(other).is_lt()), "{taken:?}");
        taken.into_iter().map(|(key, count)| ((key.counter, key.start, key.finest), count)).collect()
    }

    proptest! {
        /// Compares with a map as the model, with folding in between.
        #[test]
        fn taken_cells_are_sorted_and_unique(
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
