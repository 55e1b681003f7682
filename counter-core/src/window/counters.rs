use std::borrow::Cow;
use std::num::NonZeroU32;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use super::clock::StoreClock;
use super::dimensions::{Dimensions, id_in_window};
use super::fold::{Fold, add_folded, unconfirmed};
use super::folding;
use super::folding::{FoldingFront, FoldingWorker};
use super::interval::Window;
use super::settings::Settings;
use super::store::{Acquired, Addition, Earlier, WindowKey, WindowStore};
use crate::error::{Error, ErrorKind};
use crate::family::operations;
use crate::family::operations::measured;
use crate::family::shard::{Shard, Shards};
use crate::time::{Sample, Timestamp};
use crate::visitor::VisitorId;

/// Counters that restart with every window. They are incremented and read directly in a store shared by all
/// instances.
///
/// Every call waits for the store and returns the count, so you should use these counters for limits, quotas
/// and deduplication, but not for page visits. See the [guide](crate::guide::window) to choose a counter, and
/// for the guarantees when the store is unavailable and the clock that ends a window.
///
/// ```
/// use std::num::NonZeroU32;
/// use counter_core::window::{Dimensions, Window, WindowCounters};
/// use counter_core::MemoryStore;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), counter_core::Error> {
/// let downloads = WindowCounters::new(MemoryStore::new(), Window::DAY).keep(7).group_by("app");
/// let phone = Dimensions::new().text("app", "shop").text("device", "phone");
///
/// let two = NonZeroU32::new(2).expect("not 0");
/// assert_eq!(downloads.increment(&phone, two).await?, 2);
/// assert_eq!(downloads.increment(&phone, two).await?, 4);
///
/// let pass = downloads.try_acquire(&phone, 5, two).await?;
/// assert_eq!((pass.allowed, pass.remaining), (false, 1)); // rejected calls are not counted
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct WindowCounters {
    pub(super) store: Arc<dyn WindowStore>,
    pub(super) settings: Settings,
    pub(super) clock: StoreClock,
}

/// The result of a limit check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "the call is only limited if the caller checks `allowed`"]
#[non_exhaustive]
pub struct LimitDecision {
    /// True if the call is within the limit. Rejected calls are not counted.
    pub allowed: bool,
    /// Limit passed by the caller.
    pub limit: u32,
    /// Amount still available in this window.
    pub remaining: u32,
    /// Start of the next window. In a [sliding window](WindowCounters::try_acquire_sliding), this is the time
    /// at which a rejected amount will fit, or otherwise the next time at which the remaining amount can
    /// increase.
    pub reset: Timestamp,
    /// Store time of the decision, in whole seconds. A client can retry after `reset - now`, which doesn't
    /// depend on the process clock.
    pub now: Timestamp,
}

/// The result of counting a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Inserted {
    /// True if this is the first time that the token is counted in this window.
    pub is_new: bool,
    /// Window count including this token.
    pub count: u64,
}

impl WindowCounters {
    /// Creates counters for these windows. By default, a window is retained for one more window after the
    /// end.
    pub fn new(store: impl WindowStore, window: Window) -> Self {
        operations::describe();
        Self {
            store: Arc::new(store),
            settings: Settings { window, keep: 1, group: None, sliding: None },
            clock: StoreClock::default(),
        }
    }

    /// Sets the number of past windows to retain for [`history`](Self::history). Default: 1.
    ///
    /// Expiry uses the store clock. With 0, a store clock that runs ahead will expire windows before they
    /// end.
    pub const fn keep(mut self, windows: u8) -> Self {
        self.settings.keep = windows;
        self
    }

    /// Places all counters with the same value of this dimension on the same shard (in a cluster: in the same
    /// slot), so that a single round trip can reach them. By default, counters are placed individually.
    ///
    /// The name must be the same on all instances that increment or read the counters. Dimensions without
    /// this name are placed individually.
    pub fn group_by(mut self, name: impl Into<Cow<'static, str>>) -> Self {
        self.settings.group = Some(name.into());
        self
    }

    /// Returns the window definition.
    #[must_use]
    pub const fn window(&self) -> Window {
        self.settings.window
    }

    /// Returns the number of shards in the store.
    #[must_use]
    pub fn shards(&self) -> Shards {
        self.store.shards()
    }

    /// Returns the shard of a counter in the current window. Shards fail independently.
    ///
    /// ```
    /// use counter_core::window::{Dimensions, Window, WindowCounters};
    /// use counter_core::MemoryStore;
    ///
    /// let counters = WindowCounters::new(MemoryStore::new(), Window::DAY);
    /// assert_eq!(counters.shards().count(), 1);
    /// assert_eq!(counters.shard(&Dimensions::new().text("app", "shop")).index(), 0);
    /// ```
    #[must_use]
    pub fn shard(&self, dimensions: &Dimensions) -> Shard {
        let shards = self.shards();
        if shards == Shards::ONE {
            return Shard::default();
        }
        shards.of(self.settings.now(dimensions, self.clock.now()).shard_key())
    }

    /// Increments a counter in the current window of the store clock, and returns the new count.
    ///
    /// # Errors
    /// Fails like [`increment_at`](Self::increment_at).
    ///
    /// # Cancel safety
    /// If the future is dropped, the increment may still be counted.
    pub async fn increment(&self, dimensions: &Dimensions, n: NonZeroU32) -> Result<u64, Error> {
        self.clock.call(|now| self.increment_in(self.settings.now(dimensions, now), n)).await
    }

    /// Increments a counter in the window that contains `at`, and returns the new count.
    ///
    /// # Errors
    /// Returns [`ErrorKind::WindowClosed`] if the store clock is more than [`keep`](Self::keep) widths after
    /// the end of the window or before its start. Returns [`ErrorKind::Unconfirmed`] if the response is lost,
    /// i.e. the increment may or may not be counted. On any other error, the increment is not counted.
    /// Temporary rejections from the store are retried for two seconds.
    ///
    /// # Cancel safety
    /// If the future is dropped, the increment may still be counted.
    pub async fn increment_at(
        &self,
        dimensions: &Dimensions,
        n: NonZeroU32,
        at: Timestamp,
    ) -> Result<u64, Error> {
        self.increment_in(self.settings.at(dimensions, at), n).await
    }

    async fn increment_in(&self, key: WindowKey, n: NonZeroU32) -> Result<u64, Error> {
        let addition = Addition { key, amount: n.get().into() };
        measured("increment", async {
            let mut replies = self.store.add(&[addition]).await;
            replies.pop().unwrap_or_else(|| Err(Error::new(ErrorKind::Unavailable))).map_err(unconfirmed)
        })
        .await
    }

    /// Increments a list of counters in the window that contains `at`, in one round trip per shard and 1,000
    /// counters. Increments with equal dimensions are merged, but the returned counts are the same as for
    /// individual increments.
    ///
    /// # Errors
    /// Increments fail individually, like [`increment_at`](Self::increment_at). If they are on different
    /// shards, only some may fail.
    ///
    /// # Cancel safety
    /// If the future is dropped, some increments may still be counted.
    pub async fn increment_many<'a>(
        &self,
        increments: impl IntoIterator<Item = (&'a Dimensions, NonZeroU32)>,
        at: Timestamp,
    ) -> Vec<Result<u64, Error>> {
        let addition = |(dimensions, n): (&Dimensions, NonZeroU32)| Addition {
            key: self.settings.at(dimensions, at),
            amount: n.get().into(),
        };
        let all = increments.into_iter().map(addition);
        let fold = Fold::of(all);
        add_folded(&*self.store, &fold).await
    }

    /// Counts a token in the current window of the store clock, unless it has already been counted: see
    /// [`increment_once_at`](Self::increment_once_at).
    ///
    /// # Errors
    /// Fails like [`increment_once_at`](Self::increment_once_at).
    ///
    /// # Cancel safety
    /// If the future is dropped, the token may still be counted.
    pub async fn increment_once(&self, dimensions: &Dimensions, token: VisitorId) -> Result<Inserted, Error> {
        self.clock.call(|now| self.increment_once_in(self.settings.now(dimensions, now), token)).await
    }

    /// Adds 1 in the window that contains `at`, unless this token has already been counted. Can be used for
    /// exposures or for events with an id.
    ///
    /// Tokens are created with a [`VisitorKey`](crate::visitor::VisitorKey), which must be shared by all
    /// instances. A token uses about 70 bytes in the store while the window is retained. The stored id is
    /// different in each window, and these ids can't be linked if the token is not known.
    ///
    /// # Errors
    /// Returns [`ErrorKind::WindowClosed`] like [`increment_at`](Self::increment_at); otherwise fails if the
    /// store can't handle the call for two seconds. You can safely retry with the same token, but
    /// [`is_new`](Inserted::is_new) may then be false if the first response was lost.
    ///
    /// # Cancel safety
    /// If the future is dropped, the token may still be counted.
    pub async fn increment_once_at(
        &self,
        dimensions: &Dimensions,
        token: VisitorId,
        at: Timestamp,
    ) -> Result<Inserted, Error> {
        self.increment_once_in(self.settings.at(dimensions, at), token).await
    }

    async fn increment_once_in(&self, key: WindowKey, token: VisitorId) -> Result<Inserted, Error> {
        let token = id_in_window(token, key.width, key.start);
        let (is_new, count) = measured("increment_once", self.store.add_once(&key, token)).await?;
        Ok(Inserted { is_new, count })
    }

    /// Increments a counter in the current window of the store clock, but only if the new count is within
    /// `limit`.
    ///
    /// A window never allows more than `limit`, for any number of concurrent callers and instances,
    /// regardless of their clocks.
    ///
    /// # Errors
    /// Fails like [`increment_at`](Self::increment_at). In this case, the caller must decide if the request
    /// should be allowed.
    ///
    /// # Cancel safety
    /// If the future is dropped, the increment may still be counted.
    pub async fn try_acquire(
        &self,
        dimensions: &Dimensions,
        limit: u32,
        n: NonZeroU32,
    ) -> Result<LimitDecision, Error> {
        self.clock.call(|now| self.try_acquire_in(self.settings.now(dimensions, now), limit, n)).await
    }

    /// Calls [`try_acquire`](Self::try_acquire) without waiting if the store is
    /// [immediate](WindowStore::is_immediate). Otherwise this returns `None` and doesn't call the store.
    ///
    /// # Errors
    /// Fails like [`try_acquire`](Self::try_acquire).
    pub fn try_acquire_now(
        &self,
        dimensions: &Dimensions,
        limit: u32,
        n: NonZeroU32,
    ) -> Option<Result<LimitDecision, Error>> {
        self.store.is_immediate().then(|| poll_once(self.try_acquire(dimensions, limit, n)))
    }

    /// Increments a counter within a limit, in the window that contains `at`. If the window is closed, i.e.
    /// if the store clock is more than [`keep`](Self::keep) widths after its end or before its start, the
    /// call is not allowed.
    ///
    /// # Errors
    /// Fails like [`increment_at`](Self::increment_at), except for `WindowClosed`. In this case, the caller
    /// must decide if the request should be allowed.
    ///
    /// # Cancel safety
    /// If the future is dropped, the increment may still be counted.
    pub async fn try_acquire_at(
        &self,
        dimensions: &Dimensions,
        limit: u32,
        n: NonZeroU32,
        at: Timestamp,
    ) -> Result<LimitDecision, Error> {
        let decided = self.try_acquire_in(self.settings.at(dimensions, at), limit, n).await;
        decided.or_else(|error| match *error.kind() {
            ErrorKind::WindowClosed { now } => {
                let reset = self.settings.window.span(at).end;
                Ok(LimitDecision { allowed: false, limit, remaining: 0, reset, now })
            }
            _ => Err(error),
        })
    }

    async fn try_acquire_in(
        &self,
        key: WindowKey,
        limit: u32,
        n: NonZeroU32,
    ) -> Result<LimitDecision, Error> {
        self.try_acquire_within(self.settings.window, key, Earlier::NONE, limit, n).await
    }

    pub(super) async fn try_acquire_within(
        &self,
        window: Window,
        key: WindowKey,
        earlier: Earlier<'_>,
        limit: u32,
        n: NonZeroU32,
    ) -> Result<LimitDecision, Error> {
        let end = window.span(key.start).end;
        let addition = Addition { key, amount: n.get().into() };
        let reply = measured("try_acquire", async {
            self.store.add_within(&addition, earlier, limit.into()).await.map_err(unconfirmed)
        });
        let Acquired { is_added, count, fits_after, now } = reply.await?;
        let reset = end.plus(u64::from(window.as_seconds()) * u64::from(fits_after.saturating_sub(1)));
        let remaining = u64::from(limit).saturating_sub(count);
        let remaining = u32::try_from(remaining).expect("not more than the limit");
        Ok(LimitDecision { allowed: is_added, limit, remaining, reset, now })
    }

    /// Returns the count in the current window. This needs a separate call to get the store time first.
    ///
    /// # Errors
    /// Fails if the store can't be read for two seconds.
    pub async fn current(&self, dimensions: &Dimensions) -> Result<u64, Error> {
        let key = self.settings.at(dimensions, self.clock.now());
        let now = measured("current", self.store.time(&key)).await?;
        self.current_at(dimensions, now).await
    }

    /// Returns the count in the window that contains `at`.
    ///
    /// # Errors
    /// Fails if the store can't be read for two seconds.
    pub async fn current_at(&self, dimensions: &Dimensions, at: Timestamp) -> Result<u64, Error> {
        let keys = [self.settings.at(dimensions, at)];
        Ok(measured("current", self.store.counts(&keys)).await?.into_iter().fold(0, u64::saturating_add))
    }

    /// Returns the counts of all retained windows in ascending order, including the window that contains
    /// `now`. The number of windows is [`keep`](Self::keep) + 1, so up to 256. Empty windows are included as
    /// zeros.
    ///
    /// # Errors
    /// Fails if the store can't be read for two seconds.
    pub async fn history(&self, dimensions: &Dimensions, now: Timestamp) -> Result<Vec<Sample>, Error> {
        let keys = self.settings.keys(dimensions, now);
        let counts = measured("history", self.store.counts(&keys)).await?;
        Ok(keys.iter().zip(counts).map(|(key, count)| Sample { start: key.start, count }).collect())
    }

    /// Creates a front and a worker for increments at a high rate: concurrent increments share a store call.
    ///
    /// You must poll [`FoldingWorker::run`], otherwise increments will not be counted.
    pub fn folding(&self) -> (FoldingFront, FoldingWorker) {
        folding::pair(Arc::clone(&self.store), self.settings.clone(), self.clock.clone())
    }
}

pub(super) fn poll_once<T>(call: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    match pin!(call).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(reply) => reply,
        Poll::Pending => Err(Error::new(ErrorKind::Unconfirmed)),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;
    use crate::family::future::{BoxFuture, StoreFuture};
    use crate::stores::MemoryStore;

    /// A store that never responds, and counts the calls.
    #[derive(Debug, Default)]
    struct Slow(Arc<AtomicU32>);

    impl Slow {
        fn wait<T: Send + 'static>(&self) -> BoxFuture<'_, T> {
            self.0.fetch_add(1, Ordering::Relaxed);
            Box::pin(std::future::pending())
        }
    }

    impl WindowStore for Slow {
        fn add<'a>(&'a self, _: &'a [Addition]) -> BoxFuture<'a, Vec<Result<u64, Error>>> {
            self.wait()
        }

        fn add_once<'a>(&'a self, _: &'a WindowKey, _: VisitorId) -> StoreFuture<'a, (bool, u64)> {
            self.wait()
        }

        fn add_within<'a>(&'a self, _: &'a Addition, _: Earlier<'a>, _: u64) -> StoreFuture<'a, Acquired> {
            self.wait()
        }

        fn counts<'a>(&'a self, _: &'a [WindowKey]) -> StoreFuture<'a, Vec<u64>> {
            self.wait()
        }
    }

    #[test]
    fn only_immediate_stores_are_called_without_waiting() {
        let window = Window::try_from(3_000_000_000).expect("not 0");
        let memory = WindowCounters::new(MemoryStore::new(), window);
        let decided = || memory.try_acquire_now(&Dimensions::new(), 1, NonZeroU32::MIN);
        let allowed = [decided(), decided()].map(|reply| reply.expect("at once").expect("it counts").allowed);
        assert_eq!(allowed, [true, false]);
        let calls = Arc::default();
        let slow = WindowCounters::new(Slow(Arc::clone(&calls)), window);
        assert!(slow.try_acquire_now(&Dimensions::new(), 1, NonZeroU32::MIN).is_none());
        assert_eq!(calls.load(Ordering::Relaxed), 0);
    }
}
