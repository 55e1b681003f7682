//! Hits and visitors to be sent, folded as far as the grid allows.
//!
//! If the fine bucket of a count is past retention, only coarser precisions keep the count. Even after a very
//! long outage, a counter thus has at most about two starts per sample and precision.

mod key;
mod cells;
mod cutter;
#[cfg_attr(not(feature = "spool"), allow(dead_code, reason = "only read by a spool"))]
mod journal;
mod delivery;
mod group_commit;
mod backlog;

use std::borrow::Cow;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{BuildHasher, Hash};
use std::sync::Arc;

pub(crate) use backlog::{Backlog, Queues, Waiting};
use cells::{Cells, merge};
pub(crate) use cutter::Chunk;
use cutter::{Cutter, sketch_work};
#[cfg(feature = "dump")]
pub(crate) use cutter::{bytes, work};
pub(crate) use delivery::Account;
use foldhash::{fast, quality};
pub(crate) use group_commit::{CommitTicket, GroupCommit};
pub(crate) use journal::Journal;
#[cfg(feature = "spool")]
pub(crate) use journal::JournalEntry;
use key::Key;
pub(crate) use key::VIEW_FLAG;

use super::distribution::{Bin, Bins};
use crate::family::name::CounterName;
use crate::sketch::{Register, Sketch};
use crate::time::{Grid, Precisions, Timestamp};
#[cfg(feature = "spool")]
use crate::visits::store::Value;

#[derive(Clone, Debug, Default)]
pub(crate) struct Pending {
    cells: Cells,
    /// Counts of label values by name, because label values do not have numbers.
    labels: LabelMap<u64>,
    /// Raised registers of label values.
    label_people: LabelMap<Arc<Sketch>>,
    /// Raised registers, shared with copies that a spool is about to write.
    sketches: Map<Arc<Sketch>>,
    bins: Map<Bins>,
}

/// A map with a cheap hash. This is safe because clients can't choose the keys: they consist of instants and
/// numbers assigned by this process.
type Map<V> = HashMap<Key, V, fast::RandomState>;

/// A map with names as keys, which clients can choose.
type LabelMap<V> = HashMap<Key<CounterName>, V, quality::RandomState>;

/// Bytes on the wire that a batch may have per sample that it may change. With 1,000 samples, this is 64 KiB,
/// which will not stall a slow connection.
pub(crate) const BYTES_PER_SAMPLE: usize = 64;

/// Maximum number of bins in a cell. Even with 16 precisions, this does not exceed the samples that a batch
/// may change.
pub(crate) const MAX_CELL_BINS: usize = 60;

/// Maximum number of pending bins, about 16 MB. Above this limit, fine buckets are folded into coarser ones.
const MAX_BINS: usize = 1_000_000;

/// Maximum number of pending label cells, about 20 MB. Above this limit, fine buckets are folded into coarser
/// ones. Above half of it, label values are no longer replaced.
const MAX_LABEL_CELLS: usize = 200_000;

/// Maximum number of pending sketches of label values. Above this limit, which is only reached if the store does not respond for
/// days, people of further values are not counted.
const MAX_LABEL_PEOPLE: usize = 20_000;

impl Pending {
    /// Adds hits to a counter. Returns an upper bound on the work that this adds to a batch.
    pub(crate) fn add(&mut self, counter: u32, start: Timestamp, count: u64, grid: &Grid) -> usize {
        if counter & VIEW_FLAG > 0 {
            return self.add_views(counter, start, count, &grid.counts);
        }
        let is_new = self.cells.add(counter, start, count, &grid.counts);
        if is_new { grid.counts.iter().len() } else { 0 }
    }

    /// Adds views, which only have samples by the hour and coarser ones.
    fn add_views(&mut self, counter: u32, start: Timestamp, count: u64, set: &Precisions) -> usize {
        let finest = set.hours();
        let key = Key { counter, finest, start: set.start(finest, start) };
        if self.cells.push(key, count) { key.precisions(set) } else { 0 }
    }

    /// Adds hits to a label value. Returns the work that this adds to a batch.
    pub(crate) fn add_label(
        &mut self,
        counter: &CounterName,
        start: Timestamp,
        count: u64,
        grid: &Grid,
    ) -> usize {
        let key = Key { counter: counter.clone(), finest: 0, start: grid.counts.start(0, start) };
        match self.labels.entry(key) {
            Entry::Occupied(mut cell) => {
                merge(cell.get_mut(), count);
                0
            }
            Entry::Vacant(cell) => {
                let work = cell.key().precisions(&grid.counts);
                cell.insert(count);
                work
            }
        }
    }

    /// Raises a register in the visitors of a label value, which are kept by the day. Returns an estimate of the work that
    /// this adds to a batch.
    pub(crate) fn raise_label(
        &mut self,
        counter: &CounterName,
        at: Timestamp,
        register: Register,
        grid: &Grid,
    ) -> usize {
        let finest = grid.visitors.days();
        let key = Key { counter: counter.clone(), finest, start: grid.visitors.start(finest, at) };
        let work = key.precisions(&grid.visitors).div_ceil(3);
        let entries = self.label_people.len();
        let raised = match self.label_people.entry(key) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(_) if entries >= MAX_LABEL_PEOPLE => return 0,
            Entry::Vacant(entry) => entry.insert(Arc::default()),
        };
        if Arc::make_mut(raised).raise(register) { work } else { 0 }
    }

    /// Raises a register in the visitors of a counter. Returns an estimate of the work that this adds to a
    /// batch, which is too high if the sketch has many registers.
    pub(crate) fn raise(&mut self, counter: u32, start: Timestamp, register: Register, grid: &Grid) -> usize {
        let key = Key { counter, finest: 0, start: grid.visitors.start(0, start) };
        let is_raised = Arc::make_mut(self.sketches.entry(key).or_default()).raise(register);
        if is_raised { key.precisions(&grid.visitors).div_ceil(3) } else { 0 }
    }

    /// Raises registers, which must be unique and ascending, in the visitors of a counter.
    pub(crate) fn raise_all(&mut self, counter: u32, start: Timestamp, raised: &[Register], grid: &Grid) {
        let key = Key { counter, finest: 0, start: grid.visitors.start(0, start) };
        Arc::make_mut(self.sketches.entry(key).or_default()).raise_all(raised);
    }

    /// Adds to a bin in a distribution of a counter. Returns the work that this adds to a batch.
    pub(crate) fn measure(
        &mut self,
        counter: u32,
        start: Timestamp,
        bin: Bin,
        count: u64,
        grid: &Grid,
    ) -> usize {
        let Some(set) = &grid.distributions else { return 0 };
        let key = Key { counter, finest: 0, start: set.start(0, start) };
        let is_new = add_bin(self.bins.entry(key).or_default(), bin, count);
        if is_new { key.precisions(set) } else { 0 }
    }

    /// Returns the work to send all pending data in a batch, in units of about 3 µs of store time.
    pub(crate) fn work(&self, grid: &Grid) -> usize {
        let cells = self.cells.keys().map(|key| key.precisions(&grid.counts));
        let labels = self.labels.keys().map(|key| key.precisions(&grid.counts));
        let work = |raised: &Sketch, precisions: usize| sketch_work(raised) * precisions;
        let sketches = self.sketches.iter();
        let sketches = sketches.map(|(key, raised)| work(raised, key.precisions(&grid.visitors)));
        let people = self.label_people.iter();
        let sketches =
            sketches.chain(people.map(|(key, raised)| work(raised, key.precisions(&grid.visitors))));
        let bins = self.bins.iter();
        let bins = bins
            .map(|(key, bins)| grid.distributions.as_ref().map_or(0, |set| bins.len() * key.precisions(set)));
        cells.chain(labels).sum::<usize>() + sketches.sum::<usize>() + bins.sum::<usize>()
    }

    /// Adds a value from a spool file, with the start and the index of the finest precision in the file.
    #[cfg(feature = "spool")]
    pub(crate) fn restore(&mut self, counter: u32, finest: usize, start: Timestamp, value: Value) {
        let key = Key { counter, finest, start };
        match value {
            Value::Count(count) => {
                self.cells.push(key, count);
            }
            Value::Visitors(raised) => Arc::make_mut(self.sketches.entry(key).or_default()).merge(&raised),
            Value::Distribution(bins) => merge_bins(self.bins.entry(key).or_default(), &bins),
        }
    }

    /// Returns the number of cells, sketches and distribution buckets.
    pub(crate) fn len(&self) -> usize {
        self.cells.len() + self.labels.len() + self.label_people.len() + self.sketches.len() + self.bins.len()
    }

    /// Returns `true` if there are too many pending label cells, so that label values must not be replaced.
    pub(crate) fn is_crowded(&self) -> bool {
        self.labels.len() > MAX_LABEL_CELLS / 2 || self.label_people.len() > MAX_LABEL_PEOPLE / 2
    }

    /// Returns the sum of all cells.
    pub(crate) fn hits(&self) -> u64 {
        self.labels.values().fold(self.cells.sum(), |sum, count| sum.saturating_add(*count))
    }

    /// Returns the start of the oldest bucket with hits. Views are left out: their cells start at the hour, and a view comes
    /// with a hit.
    pub(crate) fn oldest(&self) -> Option<Timestamp> {
        let cells = self.cells.keys().filter(|key| key.counter & VIEW_FLAG == 0).map(|key| key.start);
        cells.chain(self.labels.keys().map(|key| key.start)).min()
    }

    /// Folds data past the retention of fine precisions into coarser buckets. Hits past all retentions will
    /// only be added to the lifetimes of their counters.
    pub(crate) fn coarsen(&mut self, now: Timestamp, grid: &Grid) {
        self.cells.coarsen(&grid.counts, now);
        let expired = grid.counts.iter().len();
        coarsen(&mut self.labels, &grid.counts, now, Some(expired), merge);
        compact(&mut self.labels, &grid.counts, MAX_LABEL_CELLS, |_| 1, merge);
        coarsen(&mut self.label_people, &grid.visitors, now, None, |all, some| {
            Arc::make_mut(all).merge(&some);
        });
        coarsen(&mut self.sketches, &grid.visitors, now, None, |all, some| Arc::make_mut(all).merge(&some));
        if let Some(set) = &grid.distributions {
            coarsen(&mut self.bins, set, now, None, |all, some| merge_bins(all, &some));
            compact(&mut self.bins, set, MAX_BINS, Vec::len, |all, some| merge_bins(all, &some));
        }
    }

    /// Takes everything, in chunks that change at most `samples` samples.
    pub(crate) fn take(&mut self, names: &[CounterName], grid: &Grid, samples: usize) -> Vec<Chunk> {
        let name = |counter: u32| {
            let name = &names[(counter & !VIEW_FLAG) as usize];
            let views =
                (counter & VIEW_FLAG > 0).then(|| name.views().expect("a counter without views has none"));
            views.map_or(Cow::Borrowed(name), Cow::Owned)
        };
        let mut cutter = Cutter::new(grid, samples);
        let cells = self.cells.take();
        for cells in cells.chunk_by(|(one, _), (other, _)| one.counter == other.counter) {
            let counter = name(cells[0].0.counter);
            cutter.counts(&counter, cells.iter().map(|(key, count)| (key.place(), *count)));
        }
        let mut labels: Vec<_> = self.labels.drain().collect();
        labels.sort_unstable_by(|(one, _), (other, _)| {
            one.counter.cmp(&other.counter).then(one.start.cmp(&other.start))
        });
        for cells in labels.chunk_by(|(one, _), (other, _)| one.counter == other.counter) {
            let counter = &cells[0].0.counter;
            cutter.counts(counter, cells.iter().map(|(key, count)| (key.place(), *count)));
        }
        let mut people: Vec<_> = self.label_people.drain().collect();
        people.sort_unstable_by(|(one, _), (other, _)| {
            one.counter.cmp(&other.counter).then(one.start.cmp(&other.start))
        });
        for (key, raised) in people {
            cutter.visitors(&key.counter, key.place(), Arc::unwrap_or_clone(raised));
        }
        for (key, raised) in sorted(&mut self.sketches) {
            cutter.visitors(&name(key.counter), key.place(), Arc::unwrap_or_clone(raised));
        }
        if let Some(set) = &grid.distributions {
            for (key, bins) in sorted(&mut self.bins) {
                cutter.bins(&name(key.counter), key.place(), &bins, set);
            }
        }
        cutter.finish()
    }
}

fn sorted<V>(map: &mut Map<V>) -> Vec<(Key, V)> {
    let mut entries: Vec<_> = map.drain().collect();
    entries.sort_unstable_by_key(|(key, _)| key.number());
    entries
}

/// Adds a count to a bin in a sorted list. Returns `true` if the bin is new.
fn add_bin(bins: &mut Bins, bin: Bin, count: u64) -> bool {
    match bins.binary_search_by_key(&bin, |(bin, _)| *bin) {
        Ok(place) => {
            bins[place].1 = bins[place].1.saturating_add(count);
            false
        }
        Err(place) => {
            bins.insert(place, (bin, count));
            true
        }
    }
}

fn merge_bins(all: &mut Bins, some: &[(Bin, u64)]) {
    for (bin, count) in some {
        add_bin(all, *bin, *count);
    }
}

/// Folds fine buckets into coarser ones until the size is at most `max`, or until everything has the coarsest
/// precision.
fn compact<C: Clone + Eq + Hash, V: Default, S: BuildHasher>(
    map: &mut HashMap<Key<C>, V, S>,
    set: &Precisions,
    max: usize,
    size: impl Fn(&V) -> usize,
    mut merge: impl FnMut(&mut V, V),
) {
    for finest in 1..set.iter().len() {
        if map.values().map(&size).sum::<usize>() <= max {
            return;
        }
        let finer: Vec<_> = map.keys().filter(|key| key.finest < finest).cloned().collect();
        for key in finer {
            let Some(value) = map.remove(&key) else { continue };
            let start = set.start(finest, key.start);
            merge(map.entry(Key { finest, start, ..key }).or_default(), value);
        }
    }
}

/// Folds data past the retention of fine precisions into coarser buckets. Data past all retentions gets the
/// index `expired`, or is dropped if this is `None`.
fn coarsen<C: Clone + Eq + Hash, V: Default, S: BuildHasher>(
    map: &mut HashMap<Key<C>, V, S>,
    set: &Precisions,
    now: Timestamp,
    expired: Option<usize>,
    mut merge: impl FnMut(&mut V, V),
) {
    let wanted = |key: &Key<C>| set.finest_retained(key.finest, key.start, now).or(expired);
    let stale: Vec<_> = map.keys().filter(|key| wanted(key) != Some(key.finest)).cloned().collect();
    for key in stale {
        let Some(value) = map.remove(&key) else { continue };
        if let Some(finest) = wanted(&key) {
            let start = set.start(finest, key.start);
            merge(map.entry(Key { finest, start, ..key }).or_default(), value);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::time::Precision;
    use crate::visits::store::{Cell, DEFAULT_BATCH_SAMPLES, hits};

    fn names() -> Vec<CounterName> {
        ["(other)", "a", "b"].map(|name| CounterName::new(name).expect("a name")).to_vec()
    }

    fn grid() -> Grid {
        let set = |widths: &[u32]| {
            let widths = widths.iter().map(|w| Precision::try_from(*w).expect("not 0"));
            Precisions::new(widths).expect("a set")
        };
        Grid {
            counts: set(&[1, 5, 18, 60]),
            visitors: set(&[10, 40]),
            distributions: Some(set(&[6, 15, 60])),
        }
    }

    #[test]
    fn a_long_outage_leaves_a_bounded_number_of_cells() {
        let (grid, mut pending) = (grid(), Pending::default());
        for second in 0..40_000 {
            let now = Timestamp::from_unix(1_000_000 + second);
            pending.add(1, now, 1, &grid);
            pending.raise(1, now, Register::of(&second.to_le_bytes()), &grid);
            pending.measure(1, now, Bin::status(200), 1, &grid);
            if second % 100 == 0 {
                pending.coarsen(now, &grid);
                assert!(pending.len() <= 120 * (4 + 2 + 3) * 2 + 100, "{}", pending.len());
            }
        }
        assert_eq!(pending.hits(), 40_000);
        let chunks = pending.take(&names(), &grid, DEFAULT_BATCH_SAMPLES);
        let expired = chunks.iter().flat_map(|chunk| &chunk.cells);
        let expired: Vec<_> = expired.filter(|cell| cell.finest == Precision::COARSEST).collect();
        assert!(
            matches!(&expired[..], [one] if one.count().is_some_and(|count| (30_000..33_000).contains(&count))),
            "{expired:?}"
        );
    }

    #[test]
    fn a_clone_shares_sketches_until_a_register_is_raised() {
        let (grid, mut pending) = (grid(), Pending::default());
        for counter in 0..2 {
            pending.raise(counter, Timestamp::from_unix(1000), Register::of(b"one"), &grid);
        }
        let copy = pending.clone();
        pending.raise(1, Timestamp::from_unix(1000), Register::of(b"another"), &grid);
        let is_shared = |(key, sketch): (&Key, &Arc<Sketch>)| Arc::ptr_eq(sketch, &copy.sketches[key]);
        assert_eq!(pending.sketches.iter().filter(|one| is_shared(*one)).count(), 1);
        assert!(copy.sketches.values().all(|sketch| sketch.registers().count() == 1));
    }

    #[test]
    fn chunks_stay_within_their_bounds() {
        let (grid, mut pending) = (grid(), Pending::default());
        for second in 0..3000 {
            pending.add(second % 3, Timestamp::from_unix(u64::from(second)), 2, &grid);
        }
        for n in 0..30_000_u64 {
            pending.raise(2, Timestamp::from_unix(n % 70), Register::of(&n.to_le_bytes()), &grid);
        }
        for n in 0..3000 {
            pending.measure(1, Timestamp::from_unix(0), Bin::status(n % 700), 1, &grid);
        }
        let chunks = pending.take(&names(), &grid, DEFAULT_BATCH_SAMPLES);
        assert!(chunks.len() > 5, "{}", chunks.len());
        assert!(chunks.iter().all(|chunk| chunk.cost.work <= DEFAULT_BATCH_SAMPLES
            && chunk.cost.bytes <= DEFAULT_BATCH_SAMPLES * BYTES_PER_SAMPLE));
        let cells = || chunks.iter().flat_map(|chunk| &chunk.cells);
        assert_eq!((hits(cells()), pending.len()), (6000, 0));
        let bins = || cells().filter_map(Cell::bins);
        assert!(bins().all(|bins| bins.len() <= MAX_CELL_BINS && bins.is_sorted()));
        assert_eq!(bins().flatten().map(|(_, count)| count).sum::<u64>(), 3000);
    }

    #[test]
    fn the_cost_of_a_chunk_is_the_number_of_changed_samples() {
        let (grid, mut pending) = (grid(), Pending::default());
        for n in 0..9000_u64 {
            let counter = u32::try_from(n % 3).expect("small");
            pending.add(counter, Timestamp::from_unix(n * n % 4001), 1, &grid);
        }
        pending.coarsen(Timestamp::from_unix(4500), &grid);
        for chunk in pending.take(&names(), &grid, 100) {
            let mut changed = std::collections::BTreeSet::new();
            for cell in &chunk.cells {
                let retained = grid.counts.iter().filter(|retention| retention.precision >= cell.finest);
                changed.extend(
                    retained.map(|retention| (cell.counter.clone(), retention.precision.bucket(cell.start))),
                );
            }
            assert_eq!(chunk.cost.work, changed.len());
        }
    }

    #[test]
    fn excess_bins_are_folded_into_coarser_precisions_without_loss() {
        let (grid, mut pending) = (grid(), Pending::default());
        let set = grid.distributions.as_ref().expect("there are distributions");
        for n in 0..6000_u16 {
            pending.measure(1, Timestamp::from_unix(u64::from(n)), Bin::status(n % 7), 1, &grid);
        }
        let compact_bins = |pending: &mut Pending, max| {
            compact(&mut pending.bins, set, max, Vec::len, |all, some| merge_bins(all, &some));
        };
        let bins = |pending: &Pending| pending.bins.values().map(Vec::len).sum::<usize>();
        let count = |pending: &Pending| pending.bins.values().flatten().map(|(_, count)| count).sum::<u64>();
        let before = bins(&pending);
        compact_bins(&mut pending, before);
        assert_eq!((bins(&pending), count(&pending)), (before, 6000));
        compact_bins(&mut pending, before / 2);
        assert!(bins(&pending) <= before / 2 && pending.bins.keys().all(|key| key.finest == 1));
        compact_bins(&mut pending, 10);
        assert_eq!((bins(&pending), count(&pending)), (7 * 100, 6000));
    }

    proptest! {
        #[test]
        fn folding_keeps_hits_in_the_buckets_of_retained_precisions(
            hits in prop::collection::vec((1_u32..3, 0_u64..4000, 1_u64..5), 0..200),
            now in 0_u64..9000,
        ) {
            let (grid, mut pending) = (grid(), Pending::default());
            let (epoch, names) = (1_000_003, names());
            let now = Timestamp::from_unix(epoch + now);
            let mut expected = std::collections::BTreeMap::new();
            let mut unwanted = std::collections::BTreeMap::new();
            for (counter, at, count) in hits {
                let at = Timestamp::from_unix(epoch + at);
                pending.add(counter, at, count, &grid);
                match grid.counts.finest_retained(0, at, now) {
                    None => *unwanted.entry(names[counter as usize].clone()).or_insert(0) += count,
                    Some(finest) => for (_, retained) in grid.counts.from(finest) {
                        let bucket = retained.precision.bucket(at);
                        *expected.entry((names[counter as usize].clone(), bucket)).or_insert(0) += count;
                    }
                }
            }
            pending.coarsen(now, &grid);
            let (mut sums, mut expired) = (std::collections::BTreeMap::new(), std::collections::BTreeMap::new());
            for cell in pending.take(&names, &grid, DEFAULT_BATCH_SAMPLES).iter().flat_map(|chunk| &chunk.cells) {
                let count = cell.count().expect("a count");
                if cell.finest == Precision::COARSEST {
                    *expired.entry(cell.counter.clone()).or_insert(0) += count;
                }
                for retained in grid.counts.iter().filter(|retention| retention.precision >= cell.finest) {
                    let bucket = retained.precision.bucket(cell.start);
                    *sums.entry((cell.counter.clone(), bucket)).or_insert(0) += count;
                }
            }
            prop_assert_eq!((sums, expired), (expected, unwanted));
        }

        #[test]
        fn folding_keeps_bins_in_the_buckets_of_retained_precisions(
            measured in prop::collection::vec((1_u32..3, 0_u64..4000, 200..203_u16), 0..200),
            now in 0_u64..9000,
        ) {
            let (grid, mut pending) = (grid(), Pending::default());
            let set = grid.distributions.as_ref().expect("there are distributions");
            let (epoch, names) = (1_000_003, names());
            let now = Timestamp::from_unix(epoch + now);
            let mut expected = std::collections::BTreeMap::new();
            for (counter, at, status) in measured {
                let (at, bin) = (Timestamp::from_unix(epoch + at), Bin::status(status));
                pending.measure(counter, set.base().bucket(at).start, bin, 1, &grid);
                for (_, retained) in set.finest_retained(0, at, now).into_iter().flat_map(|finest| set.from(finest)) {
                    let bucket = retained.precision.bucket(at);
                    *expected.entry((names[counter as usize].clone(), bucket, bin)).or_insert(0) += 1;
                }
            }
            pending.coarsen(now, &grid);
            let mut sums = std::collections::BTreeMap::new();
            for cell in pending.take(&names, &grid, DEFAULT_BATCH_SAMPLES).iter().flat_map(|chunk| &chunk.cells) {
                for retained in set.iter().filter(|retention| retention.precision >= cell.finest) {
                    let bucket = retained.precision.bucket(cell.start);
                    for (bin, count) in cell.bins().expect("bins") {
                        *sums.entry((cell.counter.clone(), bucket, *bin)).or_insert(0) += count;
                    }
                }
            }
            prop_assert_eq!(sums, expected);
        }
    }
}
