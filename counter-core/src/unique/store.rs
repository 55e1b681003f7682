//! The interface for authors of stores.

use std::fmt;

use super::distinct::{Contents, Distinct};
use super::threshold::Threshold;
use crate::family::future::StoreFuture;
use crate::family::handle::for_handles;
use crate::family::name::CounterName;
use crate::sketch::Sketch;

/// A store for unique counters, implemented by the stores of this crate.
///
/// [`UniqueCounter`](crate::unique::UniqueCounter) is built on this trait and enforces the limits: a store
/// call will have 1 to 500 items of at most 256 bytes.
///
/// For about two seconds, stores retry calls that did not take effect. Other calls are also retried when a
/// repetition can't change the result.
pub trait UniqueStore: fmt::Debug + Send + Sync + 'static {
    /// Adds the items, and converts an adaptive counter into registers if it exceeds the threshold.
    ///
    /// # Errors
    /// Fails if the store is unavailable, or if the outcome is unknown. You can safely retry with the same
    /// items.
    fn include<'a>(&'a self, counter: &'a UniqueKey, items: &'a [Vec<u8>]) -> StoreFuture<'a, Included>;

    /// Removes the items from a set. Returns the number of removed items.
    ///
    /// # Errors
    /// Fails if the store is unavailable, or if the outcome is unknown. You can safely retry with the same
    /// items.
    fn exclude<'a>(&'a self, set: &'a CounterName, items: &'a [Vec<u8>]) -> StoreFuture<'a, u64>;

    /// Returns the number of distinct items, which is 0 for an unused counter.
    ///
    /// # Errors
    /// Fails if the store can't be read.
    fn distinct<'a>(&'a self, counter: &'a UniqueKey) -> StoreFuture<'a, Distinct>;

    /// Returns all contents of the counter. For a set, items that are added or removed during the read may or
    /// may not be included.
    ///
    /// # Errors
    /// Returns [`TooManyItems`](crate::ErrorKind::TooManyItems) if a set has more than `max` items; fails if
    /// the store can't be read.
    fn contents<'a>(&'a self, counter: &'a UniqueKey, max: usize) -> StoreFuture<'a, Contents>;

    /// Returns a page of the counters in the store. The cursor is the `next` field of the previous page.
    /// Adaptive counters are returned with the maximum threshold, because this is not stored. A counter that
    /// exists throughout the listing is on at least one page.
    ///
    /// # Errors
    /// Fails if the store can't be read. You can safely retry with the same cursor.
    fn list(&self, cursor: Option<Vec<u8>>) -> StoreFuture<'_, UniqueList>;

    /// Returns a part of the counter contents. The cursor is the `next` field of the previous part. An item
    /// that exists throughout the read is in at least one part; registers always form a single part.
    ///
    /// # Errors
    /// Fails if the store can't be read. You can safely retry with the same cursor.
    fn part<'a>(&'a self, counter: &'a UniqueKey, cursor: Option<Vec<u8>>) -> StoreFuture<'a, UniquePart>;

    /// Merges a sketch into the counter registers. This converts an adaptive counter into registers, unless
    /// the sketch is empty.
    ///
    /// # Errors
    /// Fails if the counter is a set, or if the store is unavailable. You can safely retry with the same
    /// sketch.
    ///
    /// # Cancel safety
    /// If the future is dropped, only some registers may be raised.
    fn merge_registers<'a>(&'a self, counter: &'a UniqueKey, sketch: &'a Sketch) -> StoreFuture<'a, ()>;

    /// Removes the counter and all items.
    ///
    /// # Errors
    /// Fails if the store is unavailable. You can safely retry.
    fn remove<'a>(&'a self, counter: &'a UniqueKey) -> StoreFuture<'a, ()>;
}

for_handles!(UniqueStore {
    fn include(counter: &'a UniqueKey, items: &'a [Vec<u8>]) -> StoreFuture<'a, Included>;
    fn exclude(set: &'a CounterName, items: &'a [Vec<u8>]) -> StoreFuture<'a, u64>;
    fn distinct(counter: &'a UniqueKey) -> StoreFuture<'a, Distinct>;
    fn contents(counter: &'a UniqueKey, max: usize) -> StoreFuture<'a, Contents>;
    fn list(cursor: Option<Vec<u8>>) -> StoreFuture<'a, UniqueList>;
    fn part(counter: &'a UniqueKey, cursor: Option<Vec<u8>>) -> StoreFuture<'a, UniquePart>;
    fn merge_registers(counter: &'a UniqueKey, sketch: &'a Sketch) -> StoreFuture<'a, ()>;
    fn remove(counter: &'a UniqueKey) -> StoreFuture<'a, ()>;
});

/// Identifies a unique counter by name and kind. Counters with the same name but different kinds are
/// independent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UniqueKey {
    /// Counter name.
    pub name: CounterName,
    /// Counting method.
    pub kind: UniqueKind,
}

/// The counting method of a unique counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UniqueKind {
    /// A set of all items.
    Set,
    /// HyperLogLog registers.
    Sketch,
    /// A set up to this number of items, and registers above.
    Adaptive(Threshold),
}

/// The result of including items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Included {
    /// Number of new items. For registers, this is the number of items that raised a register.
    pub new: u64,
    /// True if the counter stores all items, i.e. if it is exact.
    pub exact: bool,
}

/// A page of the counters in a store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UniqueList {
    /// Counters in any order. The list can be empty even if there are more pages.
    pub counters: Vec<UniqueKey>,
    /// Cursor of the next page, or `None` at the end.
    pub next: Option<Vec<u8>>,
}

/// A part of the contents of a counter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UniquePart {
    /// Some of the items, or the registers.
    pub contents: Contents,
    /// Cursor of the next part, or `None` at the end.
    pub next: Option<Vec<u8>>,
}

impl UniqueKey {
    /// Parses the suffix of a Redis key, e.g. `set:voters`. Adaptive counters get the maximum threshold.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (kind, name) = text.split_once(':')?;
        Some(Self { kind: UniqueKind::parse(kind)?, name: CounterName::new(name).ok()? })
    }
}

impl UniqueKind {
    /// Parses the kind in a Redis key or a dump: `set`, `hll` or `adaptive`.
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
    /// Formats the suffix of the Redis key, e.g. `set:voters`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.kind.name(), self.name)
    }
}
