//! The interface for authors of stores.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use crate::error::{Error, ErrorKind};
use crate::family::future::{BoxFuture, StoreFuture};
use crate::family::handle::for_handles;
use crate::family::shard::Shards;
use crate::time::Timestamp;
use crate::visitor::VisitorId;

/// A store for window counters that is shared by all instances. Each window of a counter has a key.
///
/// The stores of this crate are handles that are cheap to clone. The store must limit the duration of every
/// call.
///
/// Only the store clock is used, not the clocks of the callers. A count exists until the expiry of its key,
/// which is set by the call that creates the key and never changes. The store must not count anything when
/// its clock is outside of [`WindowKey::open`].
///
/// # Errors
///
/// Methods return [`WindowClosed`](crate::ErrorKind::WindowClosed) if the store clock is outside of
/// [`WindowKey::open`], and the call then doesn't have any effect. They return
/// [`Rejected`](crate::ErrorKind::Rejected) if the call failed without any effect even after the retries of
/// the store, and [`Unavailable`](crate::ErrorKind::Unavailable) if it may or may not have been counted.
///
/// # Cancel safety
///
/// If the future is dropped, the call may still be counted.
pub trait WindowStore: fmt::Debug + Send + Sync + 'static {
    /// Adds to multiple counters, using a single call for counters that are placed together. Returns the new
    /// counts in order.
    fn add<'a>(&'a self, additions: &'a [Addition]) -> BoxFuture<'a, Vec<Result<u64, Error>>>;

    /// Adds 1 unless the token is already in this window. Returns `true` if it was added, and the new count.
    /// This must be idempotent for the same token.
    fn add_once<'a>(&'a self, key: &'a WindowKey, token: VisitorId) -> StoreFuture<'a, (bool, u64)>;

    /// Adds the amount if the new count, including the counts of the earlier windows, is within `limit`.
    ///
    /// When the store clock enters a window, the counts of the earlier windows must be final: an amount that
    /// was not visible by then must not be added any more.
    fn add_within<'a>(
        &'a self,
        addition: &'a Addition,
        earlier: Earlier<'a>,
        limit: u64,
    ) -> StoreFuture<'a, Acquired>;

    /// Returns the counts in order, or 0 for counters that don't exist.
    fn counts<'a>(&'a self, keys: &'a [WindowKey]) -> StoreFuture<'a, Vec<u64>>;

    /// Returns `true` if [`add_within`](Self::add_within) always completes on the first poll, like for an
    /// in-memory store. The default is `false`.
    fn is_immediate(&self) -> bool {
        false
    }

    /// Returns the number of shards, which fail independently. A key belongs to the shard [of](Shards::of)
    /// the [shard key](WindowKey::shard_key). By default, the store is not sharded.
    fn shards(&self) -> Shards {
        Shards::ONE
    }

    /// Returns the clock time of the shard that holds this key. By default, this is the process clock.
    fn time<'a>(&'a self, key: &'a WindowKey) -> StoreFuture<'a, Timestamp> {
        let _ = key;
        Box::pin(std::future::ready(Ok(Timestamp::now())))
    }
}

for_handles!(WindowStore {
    fn add(additions: &'a [Addition]) -> BoxFuture<'a, Vec<Result<u64, Error>>>;
    fn add_once(key: &'a WindowKey, token: VisitorId) -> StoreFuture<'a, (bool, u64)>;
    fn add_within(addition: &'a Addition, earlier: Earlier<'a>, limit: u64) -> StoreFuture<'a, Acquired>;
    fn counts(keys: &'a [WindowKey]) -> StoreFuture<'a, Vec<u64>>;
    fn is_immediate() -> bool;
    fn shards() -> Shards;
    fn time(key: &'a WindowKey) -> StoreFuture<'a, Timestamp>;
});

/// A counter in a window, as used by stores.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct WindowKey {
    /// Unique counter text: printable ASCII without braces or colons.
    pub counter: Arc<str>,
    /// Text that determines the shard, if this is not the counter: keys with the same text are placed
    /// together.
    pub group: Option<Arc<str>>,
    /// Window width in seconds.
    pub width: u32,
    /// Start of the window.
    pub start: Timestamp,
    /// Time at which the count can be removed.
    pub expiry: Timestamp,
    /// Range of the store clock in which the window is open for counting.
    pub open: Range<Timestamp>,
}

/// An amount to add to a counter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Addition {
    /// Counter and window.
    pub key: WindowKey,
    /// Amount, at least 1.
    pub amount: u64,
}

/// The windows before the window of an addition that also count toward a limit. The keys are only created if
/// the store needs them.
///
/// Windows are grouped into blocks of [`len`](Self::len) windows. Windows in a block have the same counter
/// text, so a store can keep them together.
#[derive(Clone, Copy)]
pub struct Earlier<'a> {
    /// Number of earlier windows.
    pub len: u32,
    /// Position of the current window in its block, less than `len`.
    pub index: u32,
    /// Returns the key of the window this number of windows ago. It has the same width and shard as the
    /// addition.
    pub key: &'a (dyn Fn(u32) -> WindowKey + Send + Sync),
}

/// The result of [`WindowStore::add_within`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Acquired {
    /// True if the amount was added.
    pub is_added: bool,
    /// Count, including the earlier windows, and the amount if it was added.
    pub count: u64,
    /// Number of windows after which the amount will fit if nothing else is added: 1 for the next window. Also
    /// 1 if the amount was added.
    pub fits_after: u32,
    /// Store time.
    pub now: Timestamp,
}

impl Earlier<'_> {
    /// Only the window of the addition counts.
    pub const NONE: Self = Self { len: 0, index: 0, key: &|_| unreachable!("there is no earlier window") };

    /// Returns `true` if only the window of the addition counts.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.len == 0
    }

    /// Creates the keys in ascending order.
    #[must_use]
    pub fn keys(self) -> Vec<WindowKey> {
        (1..=self.len).rev().map(self.key).collect()
    }
}

impl fmt::Debug for Earlier<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.keys()).finish()
    }
}

impl Acquired {
    pub(crate) const fn added(count: u64, now: Timestamp) -> Self {
        Self { is_added: true, count, fits_after: 1, now }
    }

    /// Adds `count`, the count of the current window, to the counts of the earlier windows in ascending order.
    /// Returns the rejection if the amount does not fit.
    pub(crate) fn check(
        earlier: &[u64],
        count: u64,
        amount: u64,
        limit: u64,
        now: Timestamp,
    ) -> Result<u64, Self> {
        let sum = earlier.iter().fold(count, |sum, count| sum.saturating_add(*count));
        let fits = |sum: u64| sum.checked_add(amount).is_some_and(|sum| sum <= limit);
        if fits(sum) {
            return Ok(sum);
        }
        let mut left = sum;
        let mut fits_without = |count: &u64| {
            left = left.saturating_sub(*count);
            fits(left)
        };
        let windows = (1..).zip(earlier).find(|(_, count)| fits_without(count));
        let all = || u32::try_from(earlier.len()).unwrap_or(u32::MAX).saturating_add(1);
        let fits_after = windows.map_or_else(all, |(windows, _)| windows);
        Err(Self { is_added: false, count: sum, fits_after, now })
    }
}

impl WindowKey {
    /// Returns an error if `now`, the store time, is not within [`open`](Self::open).
    pub(crate) fn check(&self, now: Timestamp) -> Result<(), Error> {
        if self.open.contains(&now) { Ok(()) } else { Err(Error::new(ErrorKind::WindowClosed { now })) }
    }

    /// Returns the text that determines the shard.
    #[must_use]
    pub fn shard_key(&self) -> &str {
        self.group.as_deref().unwrap_or(&self.counter)
    }
}
