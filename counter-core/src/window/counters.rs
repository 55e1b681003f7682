use std::borrow::Cow;
use std::num::NonZeroU32;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use super::clock::StoreClock;
use super::dimensions::{Dimensions, in_window};
use super::fold::{Fold, add_folded, unconfirmed};
use super::folding;
use super::folding::{FoldingFront, FoldingWorker};
use super::interval::Window;
use super::settings::Settings;
use super::store::{Acquired, Addition, WindowKey, WindowStore};
use crate::error::{Error, ErrorKind};
use crate::family::operations;
use crate::family::operations::measured;
use crate::family::shard::{Shard, Shards};
use crate::time::{Sample, Timestamp};
use crate::visitor::VisitorId;

/// Counters that begin again with every window, incremented and read at once in a store that all instances
/// share.
///
/// Every call waits for the store and returns the count, so they are for limits, quotas and once-only
/// decisions, and not for page visits. The [guide](crate::guide::window) says which to choose, what is
/// promised when the store is away, and by which clock a window ends.
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
/// assert_eq!((pass.allowed, pass.remaining), (false, 1)); // and nothing was counted
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct WindowCounters {
    pub(super) store: Arc<dyn WindowStore>,
    pub(super) settings: Settings,
    clock: StoreClock,
}

/// The result of checking a limit, and what is left of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LimitDecision {
    /// True if the call stayed within the limit; only then was it counted.
    pub allowed: bool,
    /// The limit that was asked for.
    pub limit: u32,
    /// The amount that is still available in this window.
    pub remaining: u32,
    /// The first second of the next window.
    pub reset: Timestamp,
    /// The time of the decision by the store's clock, in whole seconds. A client may try again after `reset - now`,
    /// whatever the clock of the process says.
    pub now: Timestamp,
}

/// The result of counting a token once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Inserted {
    /// True if the token was not there in this window before.
    pub is_new: bool,
    /// The count in the window, this token included.
    pub count: u64,
}

impl WindowCounters {
    /// Creates counters of these windows, each of which is kept for one more window.
    pub fn new(store: impl WindowStore, window: Window) -> Self {
        operations::describe();
        Self {
            store: Arc::new(store),
            settings: Settings { window, keep: 1, group: None },
            clock: StoreClock::default(),
        }
    }

    /// Sets how many windows are kept after they ended, for [`history`](Self::history). Default: 1.
    ///
    /// A store forgets by its own clock: with 0, a store whose clock is ahead forgets windows that have not
    /// ended.
    pub const fn keep(mut self, windows: u8) -> Self {
        self.settings.keep = windows;
        self
    }

    /// Keeps all counters with the same value of this dimension in one shard of the store, in a cluster in
    /// one slot, so that one round trip reaches them all. Default: each counter is placed by itself.
    ///
    /// Every instance that increments or reads the counters has to use the same name. Dimensions without that
    /// name are placed by themselves.
    pub fn group_by(mut self, name: impl Into<Cow<'static, str>>) -> Self {
        self.settings.group = Some(name.into());
        self
    }

    /// Returns the division of time into windows.
    #[must_use]
    pub const fn window(&self) -> Window {
        self.settings.window
    }

    /// Returns the number of shards of the store.
    #[must_use]
    pub fn shards(&self) -> Shards {
        self.store.shards()
    }

    /// Returns the shard of a counter in the current window. Shards fail independently of each other.
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
        shards.of(self.settings.now(dimensions, self.clock.now()).place())
    }

    /// Increments in the window that is current by the store's clock, and returns the new count.
    ///
    /// # Errors
    /// Fails as [`increment_at`](Self::increment_at) does.
    ///
    /// # Cancel safety
    /// A call that is dropped may still count.
    pub async fn increment(&self, dimensions: &Dimensions, n: NonZeroU32) -> Result<u64, Error> {
        self.clock.call(|now| self.increment_in(self.settings.now(dimensions, now), n)).await
    }

    /// Increments in the window of an instant, and returns the new count.
    ///
    /// # Errors
    /// Returns [`ErrorKind::WindowClosed`] when the store's clock is before the window by more widths than
    /// are [kept](Self::keep), or after the last window that keeps it; [`ErrorKind::Unconfirmed`] when there
    /// was no answer, so that it may or may not have counted. After any other error nothing was counted.
    /// While the store answers that it cannot do it now, it is asked again for two seconds.
    ///
    /// # Cancel safety
    /// A call that is dropped may still count.
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
            let mut answers = self.store.add(&[addition]).await;
            answers.pop().unwrap_or_else(|| Err(Error::new(ErrorKind::Unavailable))).map_err(unconfirmed)
        })
        .await
    }

    /// Increments many counters at an instant, in one round trip for each shard of the store and thousand
    /// counters. Increments with equal dimensions are added up first, and answered as if they had been made
    /// one by one.
    ///
    /// # Errors
    /// Each increment fails by itself, as [`increment_at`](Self::increment_at) does: of those in different
    /// shards of a store, some may fail.
    ///
    /// # Cancel safety
    /// A call that is dropped may still count, in part.
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

    /// Counts a token once in the window that is current by the store's clock: see
    /// [`increment_once_at`](Self::increment_once_at).
    ///
    /// # Errors
    /// Fails as [`increment_once_at`](Self::increment_once_at) does.
    ///
    /// # Cancel safety
    /// A call that is dropped may still count.
    pub async fn increment_once(&self, dimensions: &Dimensions, token: VisitorId) -> Result<Inserted, Error> {
        self.clock.call(|now| self.increment_once_in(self.settings.now(dimensions, now), token)).await
    }

    /// Adds 1 in the window of an instant, unless this token was counted there before: for an exposure, or an
    /// event with an id.
    ///
    /// A token is made by a [`VisitorKey`](crate::visitor::VisitorKey), which all instances have to share,
    /// and takes about 70 bytes in the store for as long as the window is kept. In each window it is stored
    /// as a different id; without the token, these cannot be linked.
    ///
    /// # Errors
    /// Returns [`ErrorKind::WindowClosed`] as [`increment_at`](Self::increment_at) does; fails otherwise when
    /// the store cannot do it, after two seconds of attempts. Call again with the same token: it counts once.
    /// Only [`is_new`](Inserted::is_new) may then be false because of the earlier attempt, whose answer was
    /// lost.
    ///
    /// # Cancel safety
    /// A call that is dropped may still count.
    pub async fn increment_once_at(
        &self,
        dimensions: &Dimensions,
        token: VisitorId,
        at: Timestamp,
    ) -> Result<Inserted, Error> {
        self.increment_once_in(self.settings.at(dimensions, at), token).await
    }

    async fn increment_once_in(&self, key: WindowKey, token: VisitorId) -> Result<Inserted, Error> {
        let token = in_window(token, key.width, key.start);
        let (is_new, count) = measured("increment_once", self.store.add_once(&key, token)).await?;
        Ok(Inserted { is_new, count })
    }

    /// Increments in the window that is current by the store's clock, but only if the count does not exceed
    /// `limit` then.
    ///
    /// At most `limit` is allowed per window, for any number of concurrent callers and instances, and independent of their
    /// clocks.
    ///
    /// # Errors
    /// Fails as [`increment_at`](Self::increment_at) does; the caller decides what to let through then.
    ///
    /// # Cancel safety
    /// A call that is dropped may still count.
    pub async fn try_acquire(
        &self,
        dimensions: &Dimensions,
        limit: u32,
        n: NonZeroU32,
    ) -> Result<LimitDecision, Error> {
        self.clock.call(|now| self.try_acquire_in(self.settings.now(dimensions, now), limit, n)).await
    }

    /// Does what [`try_acquire`](Self::try_acquire) does, without waiting, where the store
    /// [answers at once](WindowStore::is_immediate); `None` where it does not, and then nothing was asked.
    ///
    /// # Errors
    /// Fails as [`try_acquire`](Self::try_acquire) does.
    pub fn try_acquire_now(
        &self,
        dimensions: &Dimensions,
        limit: u32,
        n: NonZeroU32,
    ) -> Option<Result<LimitDecision, Error>> {
        let acquire = self.store.is_immediate().then(|| self.try_acquire(dimensions, limit, n))?;
        match pin!(acquire).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(answer) => Some(answer),
            Poll::Pending => Some(Err(Error::new(ErrorKind::Unconfirmed))),
        }
    }

    /// Increments within a limit in the window of an instant. Nothing is let through where nothing can be
    /// counted: when the store's clock is before the window by more widths than are [kept](Self::keep), or
    /// after the last window that keeps it.
    ///
    /// # Errors
    /// Fails as [`increment_at`](Self::increment_at) does, except for `WindowClosed`; the caller decides what
    /// to let through then.
    ///
    /// # Cancel safety
    /// A call that is dropped may still count.
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
        let reset = self.settings.window.span(key.start).end;
        let addition = Addition { key, amount: n.get().into() };
        let answer = measured("try_acquire", async {
            self.store.add_within(&addition, limit.into()).await.map_err(unconfirmed)
        });
        let Acquired { is_added, count, now } = answer.await?;
        let remaining = u64::from(limit).saturating_sub(count);
        let remaining = u32::try_from(remaining).expect("not more than the limit");
        Ok(LimitDecision { allowed: is_added, limit, remaining, reset, now })
    }

    /// Returns the count of the window that is current by the store's clock, which is asked first.
    ///
    /// # Errors
    /// Fails when the store cannot be read, after two seconds of attempts.
    pub async fn current(&self, dimensions: &Dimensions) -> Result<u64, Error> {
        let key = self.settings.at(dimensions, self.clock.now());
        let now = measured("current", self.store.time(&key)).await?;
        self.current_at(dimensions, now).await
    }

    /// Returns the count in the window of an instant.
    ///
    /// # Errors
    /// Fails when the store cannot be read, after two seconds of attempts.
    pub async fn current_at(&self, dimensions: &Dimensions, at: Timestamp) -> Result<u64, Error> {
        let keys = [self.settings.at(dimensions, at)];
        Ok(measured("current", self.store.counts(&keys)).await?.into_iter().sum())
    }

    /// Returns the count in each of the windows that are kept, ascending, including that of `now`: one more
    /// than [`keep`](Self::keep) says, with zeros, at most 256.
    ///
    /// # Errors
    /// Fails when the store cannot be read, after two seconds of attempts.
    pub async fn history(&self, dimensions: &Dimensions, now: Timestamp) -> Result<Vec<Sample>, Error> {
        let keys = self.settings.keys(dimensions, now);
        let counts = measured("history", self.store.counts(&keys)).await?;
        Ok(keys.iter().zip(counts).map(|(key, count)| Sample { start: key.start, count }).collect())
    }

    /// Splits off a front for increments at a high rate, and the worker behind it: increments that wait at
    /// the same time share one call.
    ///
    /// Nothing is counted unless [`FoldingWorker::run`] is polled.
    pub fn folding(&self) -> (FoldingFront, FoldingWorker) {
        folding::pair(Arc::clone(&self.store), self.settings.clone(), self.clock.clone())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;
    use crate::family::future::{Answer, BoxFuture};
    use crate::stores::MemoryStore;

    /// A store that has to be waited for, and counts how often it is asked.
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

        fn add_once<'a>(&'a self, _: &'a WindowKey, _: VisitorId) -> Answer<'a, (bool, u64)> {
            self.wait()
        }

        fn add_within<'a>(&'a self, _: &'a Addition, _: u64) -> Answer<'a, Acquired> {
            self.wait()
        }

        fn counts<'a>(&'a self, _: &'a [WindowKey]) -> Answer<'a, Vec<u64>> {
            self.wait()
        }
    }

    #[test]
    fn memory_decides_at_once_and_what_has_to_be_waited_for_is_not_asked() {
        let window = Window::try_from(3_000_000_000).expect("not 0");
        let memory = WindowCounters::new(MemoryStore::new(), window);
        let decided = || memory.try_acquire_now(&Dimensions::new(), 1, NonZeroU32::MIN);
        let allowed =
            [decided(), decided()].map(|answer| answer.expect("at once").expect("it counts").allowed);
        assert_eq!(allowed, [true, false]);
        let asked = Arc::default();
        let slow = WindowCounters::new(Slow(Arc::clone(&asked)), window);
        assert!(slow.try_acquire_now(&Dimensions::new(), 1, NonZeroU32::MIN).is_none());
        assert_eq!(asked.load(Ordering::Relaxed), 0);
    }
}
