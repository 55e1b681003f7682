use std::fmt;

use super::distinct::{Contents, Distinct};
use super::threshold::Threshold;
use crate::family::future::Answer;
use crate::family::handle::for_handles;
use crate::family::name::CounterName;
use crate::sketch::Sketch;

/// A place where unique counters are kept; both stores of this crate are one.
///
/// [`UniqueCounter`](crate::unique::UniqueCounter) is built on it and also checks the bounds: a store is
/// given at least one item and at most 500, of at most 256 bytes each.
///
/// For about two seconds, a store tries calls again that are known to have done nothing, and, where a
/// repetition cannot change the answer, also calls that may have done something.
pub trait UniqueStore: fmt::Debug + Send + Sync + 'static {
    /// Adds the items, and turns an adaptive counter into registers when it has more than its threshold.
    ///
    /// # Errors
    /// Fails when the store cannot do it now, or when it is not known whether it was done; call again with
    /// the same items.
    fn include<'a>(&'a self, counter: &'a UniqueKey, items: &'a [Vec<u8>]) -> Answer<'a, Included>;

    /// Removes the items from a set; returns how many of them were in it.
    ///
    /// # Errors
    /// Fails when the store cannot do it now, or when it is not known whether it was done; call again with
    /// the same items.
    fn exclude<'a>(&'a self, set: &'a CounterName, items: &'a [Vec<u8>]) -> Answer<'a, u64>;

    /// Returns how many different items there are; 0 for a counter that was never used.
    ///
    /// # Errors
    /// Fails when the store cannot be read.
    fn distinct<'a>(&'a self, counter: &'a UniqueKey) -> Answer<'a, Distinct>;

    /// Returns everything that the counter has. Of a set, that is every item that was there all the time, and
    /// perhaps some of those that were added or removed meanwhile.
    ///
    /// # Errors
    /// Returns [`TooManyItems`](crate::ErrorKind::TooManyItems) when a set has more than `most` items; fails
    /// when the store cannot be read.
    fn contents<'a>(&'a self, counter: &'a UniqueKey, most: usize) -> Answer<'a, Contents>;

    /// Returns a page of the counters that the store has, from a cursor on, which is the `next` of the page before; an
    /// adaptive counter with the largest threshold, since the store does not know its own. Each counter that is there all
    /// the time is on one page at least.
    ///
    /// # Errors
    /// Fails when the store cannot be read; call again with the same cursor.
    fn list(&self, cursor: Option<Vec<u8>>) -> Answer<'_, UniqueList>;

    /// Returns a part of what the counter has, from a cursor on, which is the `next` of the part before. Each item that is
    /// there all the time is in one part at least; registers are one part.
    ///
    /// # Errors
    /// Fails when the store cannot be read; call again with the same cursor.
    fn part<'a>(&'a self, counter: &'a UniqueKey, cursor: Option<Vec<u8>>) -> Answer<'a, UniquePart>;

    /// Raises the registers of a counter to at least these, if there are any; an adaptive counter has
    /// registers from then on.
    ///
    /// # Errors
    /// Fails when the counter is a set, or when the store cannot do it now; call again with the same sketch.
    ///
    /// # Cancel safety
    /// A call that is dropped may have raised some of them.
    fn absorb<'a>(&'a self, counter: &'a UniqueKey, sketch: &'a Sketch) -> Answer<'a, ()>;

    /// Removes the counter with all its items.
    ///
    /// # Errors
    /// Fails when the store cannot do it now; call again.
    fn remove<'a>(&'a self, counter: &'a UniqueKey) -> Answer<'a, ()>;
}

for_handles!(UniqueStore {
    fn include(counter: &'a UniqueKey, items: &'a [Vec<u8>]) -> Answer<'a, Included>;
    fn exclude(set: &'a CounterName, items: &'a [Vec<u8>]) -> Answer<'a, u64>;
    fn distinct(counter: &'a UniqueKey) -> Answer<'a, Distinct>;
    fn contents(counter: &'a UniqueKey, most: usize) -> Answer<'a, Contents>;
    fn list(cursor: Option<Vec<u8>>) -> Answer<'a, UniqueList>;
    fn part(counter: &'a UniqueKey, cursor: Option<Vec<u8>>) -> Answer<'a, UniquePart>;
    fn absorb(counter: &'a UniqueKey, sketch: &'a Sketch) -> Answer<'a, ()>;
    fn remove(counter: &'a UniqueKey) -> Answer<'a, ()>;
});

/// The identity of a unique counter: its name, and how it counts. Counters of one name and different kinds
/// are different counters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UniqueKey {
    /// The counter's name.
    pub name: CounterName,
    /// The way in which it counts.
    pub kind: UniqueKind,
}

/// The way in which a unique counter counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UniqueKind {
    /// A set, which keeps every item.
    Set,
    /// The registers of a HyperLogLog.
    Sketch,
    /// A set up to this many items, and registers from then on.
    Adaptive(Threshold),
}

/// The result of including items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Included {
    /// The number of items that were new: for a set, items that were not in it; for registers, items that
    /// raised one.
    pub new: u64,
    /// True if the counter still has every item, so that it counts exactly.
    pub exact: bool,
}

/// A page of the counters of a store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UniqueList {
    /// The counters, in any order; there may be none although more follow.
    pub counters: Vec<UniqueKey>,
    /// The cursor of the next page; `None` after the last.
    pub next: Option<Vec<u8>>,
}

/// A part of what a counter has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UniquePart {
    /// Some of its items, or its registers.
    pub contents: Contents,
    /// The cursor of the next part; `None` after the last.
    pub next: Option<Vec<u8>>,
}

impl UniqueKey {
    /// Reads the last part of a key in Redis; `None` of any other text.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (kind, name) = text.split_once(':')?;
        Some(Self { kind: UniqueKind::parse(kind)?, name: CounterName::new(name).ok()? })
    }
}

impl UniqueKind {
    /// Reads the name of a kind.
    pub(super) fn parse(name: &str) -> Option<Self> {
        let kinds = [Self::Set, Self::Sketch, Self::Adaptive(Threshold::MAX)];
        kinds.into_iter().find(|kind| kind.name() == name)
    }

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Set => "set",
            Self::Sketch => "hll",
            Self::Adaptive(_) => "adaptive",
        }
    }
}

impl fmt::Display for UniqueKey {
    /// Formats the last part of the key in Redis, such as `set:voters`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.kind.name(), self.name)
    }
}
