//! The sums of all bins since the process began, for exporters of metrics.

use std::collections::{BTreeMap, HashMap};

use super::bin_table::BinSlot;
use crate::visits::distribution::{Bin, Measure};

/// Each value once, under the last of the counters that it was measured of: sums of several counters count nothing twice,
/// and none of them ever shrinks.
#[derive(Debug, Default)]
pub(crate) struct BinSums {
    /// New ones come last: an exporter that shows the first of them always shows the same.
    counters: Vec<(u32, BTreeMap<Bin, u64>)>,
    /// The places of counters in it, by number.
    places: HashMap<u32, usize>,
}

impl BinSums {
    pub(crate) fn add(&mut self, slot: BinSlot) {
        let (counter, next) = (slot.last_counter(), self.counters.len());
        let place = *self.places.entry(counter).or_insert(next);
        if place == next {
            self.counters.push((counter, BTreeMap::new()));
        }
        for bin in slot.bins() {
            *self.counters[place].1.entry(bin).or_default() += slot.count;
        }
    }

    /// Returns the bins of a measure, by the number of the counter; none of a counter with other measures alone.
    pub(crate) fn of(&self, measure: Measure) -> Vec<(u32, Vec<(Bin, u64)>)> {
        let of = |bins: &BTreeMap<Bin, u64>| {
            let bins = bins.iter().filter(|(bin, _)| bin.measure() == measure);
            bins.map(|(bin, count)| (*bin, *count)).collect()
        };
        self.counters.iter().map(|(number, bins)| (*number, of(bins))).collect()
    }
}
