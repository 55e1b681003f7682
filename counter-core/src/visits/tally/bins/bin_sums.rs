//! Sums of all bins since the process started, for metrics exporters.

use std::collections::{BTreeMap, HashMap};

use super::bin_table::BinSlot;
use crate::visits::distribution::{Bin, Measure};

/// Sums of bins by counter. A value only counts on the last of the measured counters, so that sums over
/// counters do not count it more than once. The sums never decrease.
#[derive(Debug, Default)]
pub(crate) struct BinSums {
    /// Bins by counter number. New counters are appended, so that an exporter with a limit will always export
    /// the same counters.
    counters: Vec<(u32, BTreeMap<Bin, u64>)>,
    /// Index into `counters`, by number.
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

    /// Returns the bins of a measure, by counter number. The list is empty if a counter only has other
    /// measures.
    pub(crate) fn of(&self, measure: Measure) -> Vec<(u32, Vec<(Bin, u64)>)> {
        let of = |bins: &BTreeMap<Bin, u64>| {
            let bins = bins.iter().filter(|(bin, _)| bin.measure() == measure);
            bins.map(|(bin, count)| (*bin, *count)).collect()
        };
        self.counters.iter().map(|(number, bins)| (*number, of(bins))).collect()
    }
}
