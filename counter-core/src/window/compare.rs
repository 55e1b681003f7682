use super::counters::WindowCounters;
use super::dimensions::Dimensions;
use crate::error::Error;
use crate::family::operations::measured;
use crate::time::Timestamp;

/// A count that should be in a window, as another place has it: a table of the application's, mostly.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expected {
    /// The counter.
    pub dimensions: Dimensions,
    /// An instant in the window.
    pub at: Timestamp,
    /// The count that should be there.
    pub count: u64,
}

/// A window whose count is not the expected one.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WindowDifference {
    /// Count that was expected, and where.
    pub expected: Expected,
    /// Count that the store has.
    pub counted: u64,
}

/// The number of windows that are read at once.
const PAGE: usize = 1000;

impl WindowCounters {
    /// Compares the counts of windows with what another place has, and returns those that differ, with both values.
    ///
    /// Compare windows that have ended and are still [kept](Self::keep), a while after their end: an event is in one place
    /// before it is in the other. Windows that have left the store count as 0.
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
    /// Fails when the store cannot be read, after two seconds of attempts.
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
