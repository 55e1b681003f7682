//! Counter names to the small numbers that the tally works with.
//!
//! The table is a hash table with linear probing in which a place is written once and never again:
//! looking a known name up takes no lock, whatever else happens, and neither does finding that a new
//! name comes too late. Only a new name takes the lock.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::num::NonZeroU32;
use std::sync::{Mutex, OnceLock};

use crate::{CounterName, Register, VisitorId, WriterId};

/// A counter of a [`Recorder`](crate::Recorder), found once and used often.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Counter {
    pub(crate) number: u32,
    /// The tally that numbered it: under another one it counts as `(other)`.
    pub(crate) tally: WriterId,
}

/// One hit on a counter, to be recorded: of weight 1 and without a visitor, unless said otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a hit counts when a recorder is given it"]
pub struct Hit {
    pub(crate) counter: Counter,
    /// What the visitor offers to a sketch: hashed here, before any lock is taken.
    pub(crate) register: Option<Register>,
    pub(crate) weight: NonZeroU32,
}

impl Counter {
    /// A hit on this counter.
    pub const fn hit(self) -> Hit {
        Hit { counter: self, register: None, weight: NonZeroU32::MIN }
    }
}

impl Hit {
    /// By this visitor, or by nobody that is known.
    pub fn visitor(mut self, visitor: impl Into<Option<VisitorId>>) -> Self {
        self.register = visitor.into().map(|visitor| Register::of(visitor.as_bytes()));
        self
    }

    /// The same hit on another counter.
    pub const fn on(mut self, counter: Counter) -> Self {
        self.counter = counter;
        self
    }

    /// Counting for so many.
    pub const fn weight(mut self, weight: NonZeroU32) -> Self {
        self.weight = weight;
        self
    }
}

#[derive(Debug)]
pub(crate) struct Registry {
    hasher: RandomState,
    /// A power of two, at least twice the number of names that may come: probes stay short.
    places: Box<[OnceLock<(CounterName, u32)>]>,
    names: Mutex<Vec<CounterName>>,
    /// Set when the last free number was given away.
    full: OnceLock<()>,
    most: usize,
}

/// The number of [`CounterName::OTHER`], in every registry.
pub(crate) const OTHER: u32 = 0;

impl Registry {
    /// For at most `most` names, and `(other)`.
    pub(crate) fn new(most: usize) -> Self {
        let places = (2 * (most + 1)).next_power_of_two();
        let registry = Self {
            hasher: RandomState::new(),
            places: (0..places).map(|_| OnceLock::new()).collect(),
            names: Mutex::default(),
            full: OnceLock::new(),
            most: most + 1,
        };
        registry.insert(CounterName::other());
        registry
    }

    /// The number of `name`, a new one if need be; [`OTHER`] when it is no name or comes too late.
    pub(crate) fn number(&self, name: &str) -> u32 {
        match self.probe(name) {
            Ok(number) => number,
            Err(_) if self.full.get().is_some() => OTHER,
            Err(_) => CounterName::new(name).map_or(OTHER, |name| self.insert(name)),
        }
    }

    pub(crate) fn contains(&self, name: &str) -> bool {
        self.probe(name).is_ok()
    }

    /// The names by number.
    pub(crate) fn names(&self) -> Vec<CounterName> {
        self.names.lock().expect("nothing panics under this lock").clone()
    }

    fn insert(&self, name: CounterName) -> u32 {
        let mut names = self.names.lock().expect("nothing panics under this lock");
        let place = match self.probe(&name) {
            Ok(number) => return number,
            Err(place) => place,
        };
        let Some(number) = u32::try_from(names.len()).ok().filter(|_| names.len() < self.most) else {
            return OTHER;
        };
        names.push(name.clone());
        if names.len() == self.most {
            self.full.get_or_init(|| ());
        }
        place.get_or_init(|| (name, number)).1
    }

    /// The number of a name, or the place where it would go.
    fn probe(&self, name: &str) -> Result<u32, &OnceLock<(CounterName, u32)>> {
        let mask = self.places.len() - 1;
        let mut at = usize::try_from(self.hasher.hash_one(name) & mask as u64).expect("masked");
        loop {
            match self.places[at].get() {
                Some((known, number)) if &**known == name => return Ok(*number),
                Some(_) => at = (at + 1) & mask,
                None => return Err(&self.places[at]),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_past_the_last_place_and_texts_that_are_no_names_are_other() {
        let registry = Registry::new(2);
        assert_eq!(["a", "b", "a", "c", "", "d\n"].map(|name| registry.number(name)), [1, 2, 1, 0, 0, 0]);
        assert_eq!(registry.number(CounterName::OTHER), OTHER);
        assert_eq!(registry.names().iter().map(|name| &**name).collect::<Vec<_>>(), ["(other)", "a", "b"]);
    }

    #[test]
    fn threads_that_bring_the_same_names_agree_on_the_numbers() {
        let registry = Registry::new(500);
        let number_all = || (0..600).map(|n| registry.number(&format!("n{n}"))).collect::<Vec<_>>();
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(number_all)).collect();
            for thread in threads {
                thread.join().expect("no panic");
            }
        });
        let names = registry.names();
        assert_eq!(names.len(), 501);
        for (name, number) in names.iter().zip(0..) {
            assert_eq!(registry.number(name), number);
        }
    }
}
