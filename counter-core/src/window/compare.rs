use super::counters::WindowCounters;
use super::dimensions::Dimensions;
use crate::error::Error;
use crate::family::operations::measured;
use crate::time::Timestamp;

/// The expected count of a window according to some other source, e.g. an application table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expected {
    /// Counter dimensions.
    pub dimensions: Dimensions,
    /// A time in the window.
    pub at: Timestamp,
    /// Expected count.
    pub count: u64,
}

/// A window with an unexpected count.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WindowDifference {
    /// Expected count and window.
    pub expected: Expected,
    /// Count in the store.
    pub counted: u64,
}

/// Number of windows to read per call.
const PAGE: usize = 1000;

impl WindowCounters {
    /// Compares window counts with another source and returns the differences.
    ///
    /// You should compare windows that ended some time ago, because an event does not reach both sides
    /// simultaneously, but are still [retained](Self::keep). Windows that are not in the store count as 0.
    ///
    /// ```
    /// use std::num::NonZeroU32;
    /// use counter_core::window::{Dimensions, Expected, Window, WindowCounters};
    /// use counter_core::{MemoryStore, Timestamp};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), counter_core::Error> {
    /// let orders = WindowCounters::new(MemoryStore::new(), Window::DAY).keep(7);
    /// let (shop, yesterday) = (Dimensions::new().text("app", "shop"), Timestamp::now().minus(86_400));
    /// orders.increment_at(&shop, NonZeroU32::new(41).expect("not 0"), yesterday).await?;
    ///
    /// // SELECT app, day, COUNT(*) FROM orders GROUP BY app, day
    /// let table = [Expected { dimensions: shop, at: yesterday, count: 42 }];
    /// let found = orders.compare(table).await?;
    /// assert_eq!((found.len(), found[0].counted, found[0].expected.count), (1, 41, 42));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Fails if the store can't be read for two seconds.
    pub async fn compare(
        &self,
        expected: impl IntoIterator<Item = Expected>,
    ) -> Result<Vec<WindowDifference>, Error> {
        let (mut expected, mut differences) = (expected.into_iter(), Vec::new());
        loop {
            let page: Vec<_> = expected.by_ref().take(PAGE).collect();
            if page.is_empty() {
                return Ok(differences);
            }
            let keys: Vec<_> = page.iter().map(|one| self.settings.at(&one.dimensions, one.at)).collect();
            let counts = measured("compare", self.store.counts(&keys)).await?;
            let all = page.into_iter().zip(counts);
            let found = all.map(|(expected, counted)| WindowDifference { expected, counted });
            differences.extend(found.filter(|one| one.counted != one.expected.count));
        }
    }
}
