//! Views of pages.

use std::ops::Range;

use super::labels::{MAX_VALUES, RankedValues, name};
use super::listing::{MAX_RANKED, PAGE_SIZE, Ranking};
use super::{Stats, buckets};
use crate::error::{Error, ErrorKind};
use crate::family::name::CounterName;
use crate::time::{Precision, Timestamp};

impl Stats {
    /// Returns up to `limit` counters with the most views in the buckets that start in `range`. Only counters accepted by
    /// `filter` are ranked. The names are those of the pages, without the prefix.
    ///
    /// ```
    /// use counter_core::visits::{Agent, PageHit};
    /// use counter_core::{Counters, MemoryStore, Precision, Timestamp};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let mut counters = Counters::builder(MemoryStore::new()).build()?;
    /// let (recorder, now) = (counters.recorder(), Timestamp::now());
    /// for (page, is_view) in [("/a", true), ("/b", false), ("/a", false)] {
    ///     recorder.page_hit(PageHit {
    ///         page: Some(recorder.counter(page)),
    ///         is_view,
    ///         ..PageHit::new(recorder.counter("hits").hit(), Agent::Human)
    ///     });
    /// }
    /// counters.flush().await?;
    ///
    /// let (hour, range) = (Precision::HOUR, now.minus(3600)..now.plus(1));
    /// let top = counters.stats().top_views(hour, range, 10, |page| page.starts_with('/')).await?;
    /// assert_eq!(top.counters, [("/a".parse()?, 1)]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Returns an error if views have no samples in this precision, if there are more than 50,000 pages, if pages times
    /// buckets exceed 10,000,000, if the range is empty or has more than 10,000 buckets, or if the store can't be read.
    pub async fn top_views(
        &self,
        precision: Precision,
        range: Range<Timestamp>,
        limit: usize,
        filter: impl Fn(&str) -> bool,
    ) -> Result<Ranking, Error> {
        let prefix = name(CounterName::VIEWS)?;
        self.check_counters(std::slice::from_ref(&prefix), precision, &range, (1, Self::MAX_BUCKETS))?;
        let is_ranked = |views: &CounterName| views.viewed().is_some_and(&filter);
        let RankedValues { mut ranking, is_partial } =
            self.rank_values(&prefix, is_ranked, PAGE_SIZE, precision, &range).await?;
        if is_partial {
            let requested = buckets(precision, &range).saturating_mul(MAX_VALUES);
            return Err(Error::new(match requested > MAX_RANKED {
                true => ErrorKind::TooManyBuckets { requested, max: MAX_RANKED },
                false => ErrorKind::TooManyCounters { max: MAX_VALUES },
            }));
        }
        let page =
            |(views, count): (CounterName, u64)| Some((CounterName::new(views.viewed()?).ok()?, count));
        ranking.counters = ranking.counters.into_iter().filter_map(page).take(limit).collect();
        Ok(ranking)
    }
}
