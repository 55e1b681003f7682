//! A registry of counter names, to map them to the small numbers used by the tally.
//!
//! This is a hash table with linear probing. A slot is only written once, so we never need to lock in order
//! to find a known name, or to reject a new name if the table is full. We only lock to add a name.

use std::hash::BuildHasher;
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, OnceLock};

use foldhash::quality::RandomState;

use crate::family::name::CounterName;
use crate::family::shard::{Shard, Shards};
use crate::family::writer::WriterId;
use crate::sketch::Register;
use crate::visitor::VisitorId;
use crate::visits::distribution::Bin;

/// A counter of a [`Recorder`](crate::Recorder), to be looked up once and then reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Counter {
    pub(crate) number: u32,
    pub(crate) shard: Shard,
    /// The tally that assigned the number; in any other tally, this counts as `(other)`. We only store a part
    /// of the writer id here, to keep a hit at half the size.
    pub(crate) tally: u32,
}

/// A hit to be recorded on a counter: with weight 1 and without a visitor by default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a hit counts when a recorder is given it"]
pub struct Hit {
    pub(crate) counter: Counter,
    /// Register that the visitor raises. This is hashed before we take any lock.
    pub(crate) register: Option<Register>,
    pub(crate) weight: NonZeroU32,
}

/// Bins of a request, to be added to the [distributions](crate::visits::Distribution) of some counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Measured<'a> {
    /// Hits on the counters. Weights and visitors are ignored.
    pub hits: &'a [Hit],
    /// Bins to add, at most one per [`Measure`](crate::visits::Measure).
    pub bins: &'a [Bin],
}

impl Counter {
    /// Returns a hit on this counter.
    pub const fn hit(self) -> Hit {
        Hit { counter: self, register: None, weight: NonZeroU32::MIN }
    }
}

impl Hit {
    /// Sets the visitor of the hit; `None` if the visitor is not known.
    #[inline]
    pub fn visitor(mut self, visitor: impl Into<Option<VisitorId>>) -> Self {
        self.register = visitor.into().map(Register::from);
        self
    }

    /// Sets the register that the visitor raises. We do not need anything else about a visitor to count.
    #[inline]
    pub const fn register(mut self, register: Option<Register>) -> Self {
        self.register = register;
        self
    }

    /// Returns the counter. Use [`Recorder::name`](crate::Recorder::name) to look up the name.
    #[must_use]
    pub const fn counter(&self) -> Counter {
        self.counter
    }

    /// Moves the hit to a different counter.
    pub const fn on(mut self, counter: Counter) -> Self {
        self.counter = counter;
        self
    }

    /// Sets the weight of the hit. Default: 1.
    pub const fn weight(mut self, weight: NonZeroU32) -> Self {
        self.weight = weight;
        self
    }
}

#[derive(Debug)]
pub(crate) struct Registry {
    hasher: RandomState,
    other: Counter,
    shards: Shards,
    /// A power of two, and at least double the maximum number of names to keep probes short.
    slots: Box<[OnceLock<(CounterName, Counter)>]>,
    /// Names by number. This is shared with readers, so we only need to copy the list if a name is added
    /// during a read.
    names: Mutex<Arc<Vec<CounterName>>>,
    /// Set if all numbers are assigned.
    full: OnceLock<()>,
    max_names: usize,
}

/// The number of [`CounterName::OTHER`], in all registries.
pub(crate) const OTHER: u32 = 0;

/// Flag for the number of a page counter if the visitor also counts for the total counter. Numbers are always
/// lower.
pub(crate) const PAGE_FLAG: u32 = 1 << (u32::BITS - 1);

impl Registry {
    /// Creates a registry for at most `max_names` names, in addition to `(other)`.
    pub(crate) fn new(max_names: usize, writer: WriterId, shards: Shards) -> Self {
        let slots = (2 * (max_names + 1)).next_power_of_two();
        let registry = Self {
            hasher: RandomState::default(),
            other: Counter { number: OTHER, shard: shards.of(CounterName::OTHER), tally: writer.part() },
            shards,
            slots: (0..slots).map(|_| OnceLock::new()).collect(),
            names: Mutex::default(),
            full: OnceLock::new(),
            max_names: max_names + 1,
        };
        registry.insert(CounterName::other());
        registry
    }

    /// Returns the counter with this name, adding it if it is new. This is `(other)` for an invalid name, and
    /// `None` if the table is full.
    #[inline]
    pub(crate) fn counter(&self, name: &str) -> Option<Counter> {
        self.probe(name).ok().or_else(|| self.add_name(name))
    }

    #[cold]
    fn add_name(&self, name: &str) -> Option<Counter> {
        if self.full.get().is_some() {
            return None;
        }
        // The counter of views does not have a slot, and has other precisions.
        let name =
            CounterName::new(name).ok().filter(|name| name.viewed().is_none() && &**name != CounterName::NOW);
        name.map_or_else(|| Some(self.other()), |name| self.insert(name))
    }

    /// Returns the number of names that can still be added.
    pub(crate) fn free(&self) -> usize {
        self.max_names - self.names.lock().expect("the lock is never poisoned").len()
    }

    /// Returns the counter `(other)`.
    pub(crate) const fn other(&self) -> Counter {
        self.other
    }

    /// Returns the counter with this name if it exists.
    pub(crate) fn find(&self, name: &str) -> Option<Counter> {
        self.probe(name).ok()
    }

    /// Returns the name of a counter if it belongs to this registry.
    pub(crate) fn name(&self, counter: Counter) -> Option<CounterName> {
        let names = self.names.lock().expect("the lock is never poisoned");
        names.get(counter.number as usize).filter(|_| counter.tally == self.other.tally).cloned()
    }

    /// Returns `true` if there is a name for the views of a counter with this number.
    pub(crate) fn has_views(&self, number: u32) -> bool {
        let names = self.names.lock().expect("the lock is never poisoned");
        names.get(number as usize).is_some_and(CounterName::has_views)
    }

    /// Returns the names by number.
    pub(crate) fn names(&self) -> Arc<Vec<CounterName>> {
        Arc::clone(&self.names.lock().expect("the lock is never poisoned"))
    }

    /// Returns the number of counters. All counter numbers are below this.
    pub(crate) fn counters(&self) -> u32 {
        let names = self.names.lock().expect("the lock is never poisoned");
        u32::try_from(names.len()).unwrap_or(u32::MAX)
    }

    /// Appends the shards of new counters to a list of shards by number.
    pub(crate) fn shards(&self, known: &mut Vec<Shard>) {
        let names = self.names.lock().expect("the lock is never poisoned");
        let new = &names[known.len()..];
        known.extend(new.iter().map(|name| self.shards.of(name)));
    }

    fn insert(&self, name: CounterName) -> Option<Counter> {
        let mut names = self.names.lock().expect("the lock is never poisoned");
        let slot = match self.probe(&name) {
            Ok(counter) => return Some(counter),
            Err(slot) => slot,
        };
        let number = u32::try_from(names.len()).ok().filter(|_| names.len() < self.max_names)?;
        let counter = Counter { number, shard: self.shards.of(&name), ..self.other };
        Arc::make_mut(&mut names).push(name.clone());
        if names.len() == self.max_names {
            self.full.get_or_init(|| ());
        }
        Some(slot.get_or_init(|| (name, counter)).1)
    }

    /// Returns the counter with this name, or the slot to insert it into.
    fn probe(&self, name: &str) -> Result<Counter, &OnceLock<(CounterName, Counter)>> {
        let mask = self.slots.len() - 1;
        let mut at = usize::try_from(self.hasher.hash_one(name) & mask as u64).expect("masked");
        loop {
            match self.slots[at].get() {
                Some((known, counter)) if &**known == name => return Ok(*counter),
                Some(_) => at = (at + 1) & mask,
                None => return Err(&self.slots[at]),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn registry_of(max: usize) -> Registry {
        Registry::new(max, WriterId::random(), Shards::ONE)
    }

    #[test]
    fn new_names_fail_when_full_and_invalid_names_map_to_other() {
        let registry = registry_of(2);
        let number = |name| registry.counter(name).map(|counter| counter.number);
        assert_eq!(["", "a", "d\n"].map(number), [0, 1, 0].map(Some));
        assert_eq!(["b", "a", "c"].map(number), [Some(2), Some(1), None]);
        assert_eq!(registry.counter(CounterName::OTHER), Some(registry.other()));
        let b = registry.find("b").expect("it was added");
        assert_eq!(registry.name(b).as_deref(), Some("b"));
        assert_eq!(registry_of(2).name(b), None);
        assert_eq!(registry.names().iter().map(|name| &**name).collect::<Vec<_>>(), ["(other)", "a", "b"]);
    }

    #[test]
    fn concurrent_inserts_of_the_same_name_get_the_same_number() {
        let registry = registry_of(500);
        let number_all = || (0..600).map(|n| registry.counter(&format!("n{n}"))).collect::<Vec<_>>();
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(number_all)).collect();
            for thread in threads {
                thread.join().expect("no panic");
            }
        });
        let names = registry.names();
        assert_eq!(names.len(), 501);
        for (name, number) in names.iter().zip(0..) {
            assert_eq!(registry.counter(name).map(|counter| counter.number), Some(number));
        }
    }
}
