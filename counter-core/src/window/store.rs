use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use crate::error::{Error, ErrorKind};
use crate::family::future::{Answer, BoxFuture};
use crate::family::handle::for_handles;
use crate::family::shard::Shards;
use crate::time::Timestamp;
use crate::visitor::VisitorId;

/// A place where windows are counted, shared by many instances: each window of a counter has a key.
///
/// The stores of this crate are handles, which are cheap to clone. The store itself bounds the time of every call.
///
/// The store's clock decides, and not the clocks of its callers. A count exists until the expiry of its key,
/// which the first call that counts under the key sets, once. Nothing is counted while the clock is not
/// within [`WindowKey::open`].
///
/// # Errors
///
/// Methods return [`WindowClosed`](crate::ErrorKind::WindowClosed) when the store's clock is not within
/// [`WindowKey::open`]; nothing was counted then. They return [`Refused`](crate::ErrorKind::Refused) when it
/// is known that nothing was counted, also after the attempts that the store makes itself, and
/// [`Unavailable`](crate::ErrorKind::Unavailable) when it may or may not have been counted.
///
/// # Cancel safety
///
/// A call that is dropped may still count.
pub trait WindowStore: fmt::Debug + Send + Sync + 'static {
    /// Adds to some counters, at once where they are kept together; returns the new count of each, in their
    /// order.
    fn add<'a>(&'a self, additions: &'a [Addition]) -> BoxFuture<'a, Vec<Result<u64, Error>>>;

    /// Adds 1 if this token was not there in this window; returns whether it was added, and the new count.
    /// Called again with the same token, it adds nothing.
    fn add_once<'a>(&'a self, key: &'a WindowKey, token: VisitorId) -> Answer<'a, (bool, u64)>;

    /// Adds if the count does not exceed `limit` then.
    fn add_within<'a>(&'a self, addition: &'a Addition, limit: u64) -> Answer<'a, Acquired>;

    /// Returns the counts of these counters, in their order; 0 for those that do not exist.
    fn counts<'a>(&'a self, keys: &'a [WindowKey]) -> Answer<'a, Vec<u64>>;

    /// Returns whether [`add_within`](Self::add_within) is there when it is polled for the first time, as that of a store in
    /// memory is; not by default.
    fn is_immediate(&self) -> bool {
        false
    }

    /// Returns the number of parts that answer independently of each other: a key belongs to the shard
    /// [of](Shards::of) its [place](WindowKey::place). By default the store is not split.
    fn shards(&self) -> Shards {
        Shards::ONE
    }

    /// Returns the time of the clock of the shard that has this key; by default the clock of the process.
    fn time<'a>(&'a self, key: &'a WindowKey) -> Answer<'a, Timestamp> {
        let _ = key;
        Box::pin(std::future::ready(Ok(Timestamp::now())))
    }
}

for_handles!(WindowStore {
    fn add(additions: &'a [Addition]) -> BoxFuture<'a, Vec<Result<u64, Error>>>;
    fn add_once(key: &'a WindowKey, token: VisitorId) -> Answer<'a, (bool, u64)>;
    fn add_within(addition: &'a Addition, limit: u64) -> Answer<'a, Acquired>;
    fn counts(keys: &'a [WindowKey]) -> Answer<'a, Vec<u64>>;
    fn is_immediate() -> bool;
    fn shards() -> Shards;
    fn time(key: &'a WindowKey) -> Answer<'a, Timestamp>;
});

/// A counter in one window, as a store knows it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct WindowKey {
    /// The counter: a text of printable ASCII without braces or colons, different for each counter.
    pub counter: Arc<str>,
    /// The text that decides on the shard, where that is not the counter: keys with the same text are kept
    /// together.
    pub group: Option<Arc<str>>,
    /// The width of the window in seconds.
    pub width: u32,
    /// The first second of the window.
    pub start: Timestamp,
    /// The time at which the count may be forgotten.
    pub expiry: Timestamp,
    /// The range that the store's clock has to be in for anything to be counted.
    pub open: Range<Timestamp>,
}

/// An amount to add to a counter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Addition {
    /// The counter and its window.
    pub key: WindowKey,
    /// The amount, at least 1.
    pub amount: u64,
}

/// The result of [`WindowStore::add_within`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Acquired {
    /// True if the amount was added.
    pub is_added: bool,
    /// The count, including the amount if it was added.
    pub count: u64,
    /// The time of the store's clock.
    pub now: Timestamp,
}

impl WindowKey {
    /// Returns an error if `now`, the time of the store's clock, is not within [`open`](Self::open).
    pub(crate) fn check(&self, now: Timestamp) -> Result<(), Error> {
        if self.open.contains(&now) { Ok(()) } else { Err(Error::new(ErrorKind::WindowClosed { now })) }
    }

    /// Returns the text that decides on the shard.
    #[must_use]
    pub fn place(&self) -> &str {
        self.group.as_deref().unwrap_or(&self.counter)
    }
}
