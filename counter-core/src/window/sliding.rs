use std::num::NonZeroU32;

use super::counters::{LimitDecision, WindowCounters, poll_once};
use super::dimensions::Dimensions;
use super::settings::Settings;
use super::store::Earlier;
use crate::error::Error;
use crate::family::shard::{Shard, Shards};

impl WindowCounters {
    /// Increments a counter, but only if the count in the window that ends now, which is as wide as the
    /// [window](Self::window) of these counters, is within `limit`.
    ///
    /// With [`try_acquire`](Self::try_acquire), twice the limit can pass around the boundary of two windows.
    /// Here, any interval as long as a window never allows more than `limit`. For this, the window is divided
    /// into ten parts of whole seconds, and up to one part more than the window is counted. If the width is a
    /// multiple of 10 s, a steady client is allowed at least 91 % of the limit: see the
    /// [guide](crate::guide::window#sliding-windows).
    ///
    /// These counters are separate from those of all other methods. [`keep`](Self::keep) and the offset of the
    /// window are not used.
    ///
    /// ```
    /// use std::num::NonZeroU32;
    /// use counter_core::window::{Dimensions, Window, WindowCounters};
    /// use counter_core::MemoryStore;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), counter_core::Error> {
    /// let minutes = WindowCounters::new(MemoryStore::new(), Window::MINUTE);
    /// let shop = Dimensions::new().text("app", "shop");
    ///
    /// let two = NonZeroU32::new(2).expect("not 0");
    /// let pass = minutes.try_acquire_sliding(&shop, 3, two).await?;
    /// assert_eq!((pass.allowed, pass.remaining), (true, 1));
    ///
    /// let pass = minutes.try_acquire_sliding(&shop, 3, two).await?;
    /// assert_eq!((pass.allowed, pass.remaining), (false, 1));
    /// let wait = pass.reset.as_unix() - pass.now.as_unix();
    /// assert!((54..=66).contains(&wait)); // when the first two leave the window
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Fails like [`try_acquire`](Self::try_acquire).
    ///
    /// # Cancel safety
    /// If the future is dropped, the increment may still be counted.
    pub async fn try_acquire_sliding(
        &self,
        dimensions: &Dimensions,
        limit: u32,
        n: NonZeroU32,
    ) -> Result<LimitDecision, Error> {
        let settings = &self.sliding_settings();
        let attempt = async |now| {
            let key = settings.now(dimensions, now);
            let (width, start) = (u64::from(key.width), key.start);
            let key_at = |ago: u32| settings.at(dimensions, start.minus(u64::from(ago) * width));
            let (len, index) = (settings.keep.into(), settings.index(start));
            let earlier = Earlier { len, index, key: &key_at };
            self.try_acquire_within(settings.window, key, earlier, limit, n).await
        };
        self.clock.call(attempt).await
    }

    /// Calls [`try_acquire_sliding`](Self::try_acquire_sliding) without waiting, like
    /// [`try_acquire_now`](Self::try_acquire_now).
    ///
    /// # Errors
    /// Fails like [`try_acquire`](Self::try_acquire).
    pub fn try_acquire_sliding_now(
        &self,
        dimensions: &Dimensions,
        limit: u32,
        n: NonZeroU32,
    ) -> Option<Result<LimitDecision, Error>> {
        self.store.is_immediate().then(|| poll_once(self.try_acquire_sliding(dimensions, limit, n)))
    }

    /// Returns the shard of a counter in the [sliding window](Self::try_acquire_sliding).
    #[must_use]
    pub fn sliding_shard(&self, dimensions: &Dimensions) -> Shard {
        let shards = self.shards();
        shards.of(self.sliding_settings().now(dimensions, self.clock.now()).shard_key())
    }

    fn sliding_settings(&self) -> Settings {
        self.settings.sliding(self.shards() != Shards::ONE)
    }
}
