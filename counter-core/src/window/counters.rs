use std::borrow::Cow;
use std::num::NonZeroU32;
use std::sync::Arc;

use super::clock::StoreClock;
use super::dimensions::in_window;
use super::fold::{Fold, add_folded, unconfirmed};
use super::folding::{self, FoldingFront, FoldingWorker};
use super::settings::Settings;
use crate::operations::{self, measured};
use crate::window::{Addition, Dimensions, Window, WindowKey, WindowStore};
use crate::{Error, ErrorKind, Sample, Timestamp, VisitorId};

/// Counters that begin again with every window, counted and read at once in a store that all instances share.
///
/// Who counts waits for the store and is told what the counter counts then; so they are for limits, quotas
/// and once-only decisions, and not for the visits of pages. The [guide](crate::guide::window) says which
/// to choose, what is promised when the store is away, and on whose clock a window ends.
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
    store: Arc<dyn WindowStore>,
    settings: Settings,
    clock: StoreClock,
}

/// Whether something stayed within a limit, and what is left of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LimitDecision {
    /// Whether it did; only then it was counted.
    pub allowed: bool,
    /// The limit that was asked for.
    pub limit: u32,
    /// How much may still pass in this window.
    pub remaining: u32,
    /// The first second of the next window.
    pub reset: Timestamp,
    /// When it was decided, by the clock of the store as far as that is known.
    pub now: Timestamp,
}

/// Whether a token was new, and what the counter counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Inserted {
    /// Whether it was not there in this window.
    pub is_new: bool,
    /// What the counter counts, this token included.
    pub count: u64,
}

impl WindowCounters {
    /// Counts in these windows, which are kept for one more.
    pub fn new(store: impl WindowStore, window: Window) -> Self {
        operations::describe();
        Self {
            store: Arc::new(store),
            settings: Settings { window, keep: 1, group: None },
            clock: StoreClock::default(),
        }
    }

    /// How many windows are kept after they ended, for [`history`](Self::history). Default: 1.
    ///
    /// A store forgets by its own clock: with 0, one whose clock is ahead forgets windows that are not over.
    pub const fn keep(mut self, windows: u8) -> Self {
        self.settings.keep = windows;
        self
    }

    /// Keeps all counters with the same value of this dimension in one part of the store, in a cluster in
    /// one slot, so that one round trip reaches them all. Default: each counter lies by itself.
    ///
    /// Whoever counts or reads them has to say the same. Dimensions without that name lie by themselves.
    pub fn group_by(mut self, name: impl Into<Cow<'static, str>>) -> Self {
        self.settings.group = Some(name.into());
        self
    }

    /// The windows.
    #[must_use]
    pub const fn window(&self) -> Window {
        self.settings.window
    }

    /// Counts in the window of now by the store's clock, and answers what the counter counts then.
    ///
    /// # Errors
    /// As those of [`increment_at`](Self::increment_at).
    ///
    /// # Cancel safety
    /// A call that is dropped may still count.
    pub async fn increment(&self, dimensions: &Dimensions, n: NonZeroU32) -> Result<u64, Error> {
        self.clock.call(|now| self.increment_in(self.settings.now(dimensions, now), n)).await
    }

    /// Counts in the window of an instant, and answers what the counter counts then.
    ///
    /// # Errors
    /// [`ErrorKind::WindowClosed`] when the store's clock is before the window by more widths than are
    /// [kept](Self::keep), or after all that is; [`ErrorKind::Unconfirmed`] when it may have counted or not, because no answer came; all others mean
    /// that nothing was counted. While the store says that it cannot do it now, it is asked again for two
    /// seconds.
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

    /// Counts many at an instant: one round trip for each part of the store and thousand counters. What has
    /// equal dimensions is added up before, and answered as if it had come one by one.
    ///
    /// # Errors
    /// For each by itself, as those of [`increment_at`](Self::increment_at): of those in different parts of a
    /// store some may fail.
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

    /// Counts a token once in the window of now by the store's clock: see
    /// [`increment_once_at`](Self::increment_once_at).
    ///
    /// # Errors
    /// As those of [`increment_once_at`](Self::increment_once_at).
    ///
    /// # Cancel safety
    /// A call that is dropped may still count.
    pub async fn increment_once(&self, dimensions: &Dimensions, token: VisitorId) -> Result<Inserted, Error> {
        self.clock.call(|now| self.increment_once_in(self.settings.now(dimensions, now), token)).await
    }

    /// Adds 1 in the window of an instant, unless this token has done so before: an exposure, an event with
    /// an id of its own. A token is made by a [`VisitorKey`](crate::visitor::VisitorKey), which instances have to
    /// share, and takes the store about 70 bytes for as long as the window is kept. What is kept there of a token
    /// is another id in each window, which nobody who has not the token can link.
    ///
    /// # Errors
    /// [`ErrorKind::WindowClosed`] as for [`increment_at`](Self::increment_at); otherwise when the store cannot do
    /// it, after two seconds of attempts. Call again with the same token: it counts
    /// once. Only `first` may then be false because of the attempt before, whose answer was lost.
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

    /// Counts in the window of now by the store's clock, but only if that makes no more than `limit`: however many
    /// ask at the same time, in whatever instances with whatever clocks, no more than that passes in a window.
    ///
    /// # Errors
    /// As those of [`increment_at`](Self::increment_at); it is for the caller to decide what passes then.
    ///
    /// # Cancel safety
    /// A call that is dropped may still count.
    pub async fn try_acquire(
        &self,
        dimensions: &Dimensions,
        limit: u32,
        n: NonZeroU32,
    ) -> Result<LimitDecision, Error> {
        self.clock.call(|now| self.try_acquire_in(self.settings.now(dimensions, now), limit, n, now)).await
    }

    /// Counts within a limit in the window of an instant. Where nothing is counted any more, or not yet, nothing
    /// passes: when the store's clock is before the window by more widths than are [kept](Self::keep), or after all
    /// that is.
    ///
    /// # Errors
    /// As those of [`increment_at`](Self::increment_at), but for `WindowClosed`; it is for the caller to decide what
    /// passes then.
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
        let now = self.clock.now();
        match self.try_acquire_in(self.settings.at(dimensions, at), limit, n, now).await {
            Err(error) if let ErrorKind::WindowClosed { now } = *error.kind() => Ok(LimitDecision {
                allowed: false,
                limit,
                remaining: 0,
                reset: self.settings.window.span(at).end,
                now,
            }),
            answer => answer,
        }
    }

    async fn try_acquire_in(
        &self,
        key: WindowKey,
        limit: u32,
        n: NonZeroU32,
        now: Timestamp,
    ) -> Result<LimitDecision, Error> {
        let reset = self.settings.window.span(key.start).end;
        let addition = Addition { key, amount: n.get().into() };
        let answer = measured("try_acquire", async {
            self.store.add_within(&addition, limit.into()).await.map_err(unconfirmed)
        });
        let (allowed, count) = answer.await?;
        let remaining = u64::from(limit).saturating_sub(count);
        let remaining = u32::try_from(remaining).expect("not more than the limit");
        Ok(LimitDecision { allowed, limit, remaining, reset, now })
    }

    /// Reads the count of the window of now, by the store's clock, which is asked first.
    ///
    /// # Errors
    /// When the store cannot be read, after two seconds of attempts.
    pub async fn current(&self, dimensions: &Dimensions) -> Result<u64, Error> {
        let key = self.settings.at(dimensions, self.clock.now());
        let now = measured("current", self.store.time(&key)).await?;
        self.current_at(dimensions, now).await
    }

    /// What the counter counts in the window of an instant.
    ///
    /// # Errors
    /// When the store cannot be read, after two seconds of attempts.
    pub async fn current_at(&self, dimensions: &Dimensions, at: Timestamp) -> Result<u64, Error> {
        let keys = [self.settings.at(dimensions, at)];
        Ok(measured("current", self.store.counts(&keys)).await?.into_iter().sum())
    }

    /// What the counter counts in each of the windows that are kept, ascending, that of `now` included:
    /// one more than [`keep`](Self::keep) has_code, zeros too, 256 at most.
    ///
    /// # Errors
    /// When the store cannot be read, after two seconds of attempts.
    pub async fn history(&self, dimensions: &Dimensions, now: Timestamp) -> Result<Vec<Sample>, Error> {
        let keys = self.settings.keys(dimensions, now);
        let counts = measured("history", self.store.counts(&keys)).await?;
        Ok(keys.iter().zip(counts).map(|(key, count)| Sample { start: key.start, count }).collect())
    }

    /// A front for increments at a high rate, and the worker behind it: those that wait at the same time
    /// share one call.
    ///
    /// Nothing is counted unless somebody polls [`FoldingWorker::run`].
    pub fn folding(&self) -> (FoldingFront, FoldingWorker) {
        folding::pair(Arc::clone(&self.store), self.settings.clone(), self.clock.clone())
    }
}
