//! Rankings of pairs of a page and a value.

use std::collections::BTreeSet;
use std::ops::Range;

use futures_util::future::try_join3;

use super::labels::{LabelRanking, RankedValues, name};
use super::ranking::Ranking;
use super::{MAX_UNREADABLE, Stats};
use crate::error::{Error, ErrorKind};
use crate::family::name::CounterName;
use crate::time::{Precision, Timestamp};
use crate::visits::store::Unreadable;
use crate::visits::tally::{MISSED, NONE};

/// Number of names on the first list of the values of a page.
const VALUES_OF_PAGE: usize = 300;

/// Number of names on the first list of all pairs, enough for the pairs of a single instance.
const ALL_PAIRS: usize = 10_000;

impl Stats {
    /// Returns up to `limit` values of a label with the most hits of a page, in the buckets that start in `range`.
    ///
    /// [`total`](LabelRanking::total) is the number of hits of the page, and [`other`](LabelRanking::other) is the
    /// rest: hits of values and pairs above the limits, of invalid values, and from times when the label did not
    /// [count pairs](crate::visits::LabelValues::by_page). [`missed`](LabelRanking::missed) is the maximum that
    /// belongs to any single value because of the limits.
    ///
    /// ```
    /// use std::num::NonZeroU32;
    /// use counter_core::visits::{Agent, PageView};
    /// use counter_core::{CounterName, Counters, MemoryStore, Precision, Timestamp};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let mut counters = Counters::builder(MemoryStore::new()).build()?;
    /// let (recorder, now) = (counters.recorder(), Timestamp::now());
    /// let referrers = recorder.label_values("referrer")?.by_page();
    /// for (page, referrer) in [("/a", "news.example"), ("/a", "blog.example"), ("/b", "news.example")] {
    ///     let noted = referrers.note(Some(referrer), NonZeroU32::MIN);
    ///     recorder.page_view(PageView {
    ///         page: Some(recorder.counter(page)),
    ///         labels: &[noted],
    ///         ..PageView::new(recorder.counter("hits").hit(), Agent::Human)
    ///     });
    /// }
    /// counters.flush().await?;
    ///
    /// let (hour, range) = (Precision::HOUR, now.minus(3600)..now.plus(1));
    /// let (stats, page) = (counters.stats(), CounterName::new("/a")?);
    /// let top = stats.label_of_page("referrer", &page, hour, range.clone(), 10).await?;
    /// assert_eq!(top.values, [("blog.example".to_owned(), 1), ("news.example".to_owned(), 1)]);
    /// assert_eq!((top.total, top.other), (2, 0));
    ///
    /// let pages = stats.pages_of_value("referrer", "news.example", hour, range, 10).await?;
    /// assert_eq!(pages.values, [("/a".to_owned(), 1), ("/b".to_owned(), 1)]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// The same limits apply as for [`label`](Self::label).
    ///
    /// # Errors
    /// Returns an error in the same cases as [`label`](Self::label).
    pub async fn label_of_page(
        &self,
        label: &str,
        page: &CounterName,
        precision: Precision,
        range: Range<Timestamp>,
        limit: usize,
    ) -> Result<LabelRanking, Error> {
        let ranking = self.values_of_page(label, page, precision, range, limit, false).await?;
        Ok(ranking.unwrap_or_default())
    }

    /// Returns the [values of a page](Self::label_of_page). If `skip_empty` is set, this returns `None` if there are no
    /// pairs with the page, without reading anything else.
    pub(super) async fn values_of_page(
        &self,
        label: &str,
        page: &CounterName,
        precision: Precision,
        range: Range<Timestamp>,
        limit: usize,
        skip_empty: bool,
    ) -> Result<Option<LabelRanking>, Error> {
        // If the name is too long, the page can't have pairs.
        let prefix = name(&CounterName::pairs_of_page(&CounterName::pairs(label), page)).ok();
        let value = |name: &CounterName| {
            // The start also matches a page like `/a = b`.
            let (_, of, value) = name.pair()?;
            (*of == **page).then(|| value.to_owned())
        };
        let read = Read { label, prefix, of: page, first_list: VALUES_OF_PAGE, value };
        let pairs = self.rank_pairs(&read, precision, &range).await?;
        if skip_empty && pairs.ranking.counters.is_empty() {
            return Ok(None);
        }
        let mut ranking = self.with_rest(read, pairs, precision, range, usize::MAX).await?;
        if let Some(at) = ranking.values.iter().position(|(value, _)| value == NONE) {
            ranking.none = ranking.values.remove(at).1;
        }
        ranking.values.truncate(limit);
        Ok(Some(ranking))
    }

    /// Returns the [values of a page](Self::label_of_page) for all labels with pairs of this page, sorted by name.
    ///
    /// Labels are found in the same way as by [`label_rankings`](Self::label_rankings).
    ///
    /// # Errors
    /// Returns an error if the labels can't be listed. If a label can't be ranked, the error is returned in place
    /// of the ranking.
    pub async fn labels_of_page(
        &self,
        expected: &[&str],
        page: &CounterName,
        precision: Precision,
        range: Range<Timestamp>,
        limit: usize,
    ) -> Result<Vec<(String, Result<LabelRanking, Error>)>, Error> {
        self.rankings(expected, Some(page), precision, range, limit).await
    }

    /// Returns up to `limit` pages with the most hits of a label value, in the buckets that start in `range`. The
    /// [values](LabelRanking::values) of the ranking are pages.
    ///
    /// [`total`](LabelRanking::total) is the number of hits of the value, and [`other`](LabelRanking::other) is the
    /// rest, as for [`label_of_page`](Self::label_of_page). This lists all pairs of the label, up to 200,000.
    ///
    /// # Errors
    /// Returns an error in the same cases as [`label`](Self::label).
    pub async fn pages_of_value(
        &self,
        label: &str,
        value: &str,
        precision: Precision,
        range: Range<Timestamp>,
        limit: usize,
    ) -> Result<LabelRanking, Error> {
        let of = name(&format!("{}{label}:{value}", CounterName::LABELS))?;
        let page = |name: &CounterName| {
            let (_, page, of) = name.pair()?;
            (of == value).then(|| page.to_owned())
        };
        let prefix = Some(name(&CounterName::pairs(label))?);
        let read = Read { label, prefix, of: &of, first_list: ALL_PAIRS, value: page };
        let pairs = self.rank_pairs(&read, precision, &range).await?;
        self.with_rest(read, pairs, precision, range, limit).await
    }

    /// Returns the pairs of a page or of a label value, even if they no longer have samples, and an error if some
    /// may be missing because a list can't be read.
    ///
    /// # Errors
    /// Returns an error if the store can't be read.
    pub(super) async fn pairs_of(
        &self,
        counter: &CounterName,
    ) -> Result<(BTreeSet<CounterName>, Result<(), Error>), Error> {
        let is_pair = |name: &CounterName| {
            let of = |(label, page, value)| page == &**counter || counter.label() == Some((label, value));
            name.pair().is_some_and(of)
        };
        let (mut pairs, mut is_complete) = (BTreeSet::new(), Ok(()));
        for shard in self.store.info().shards.iter() {
            let mut cursor = None;
            loop {
                let page = self.store.counted(shard, cursor).await?;
                let missing = page.unreadable.into_iter().find(|one| one.extent.is_unknown());
                if let Some(Unreadable { key, reason, .. }) = missing {
                    let reason = format!("{reason}; pairs of this counter may be left");
                    is_complete = Err(Error::new(ErrorKind::Malformed { key }).caused_by(reason));
                }
                pairs.extend(page.counters.into_iter().filter(is_pair));
                let Some(next) = page.next else { break };
                cursor = Some(next);
            }
        }
        Ok((pairs, is_complete))
    }

    async fn rank_pairs<V: Fn(&CounterName) -> Option<String>>(
        &self,
        read: &Read<'_, V>,
        precision: Precision,
        range: &Range<Timestamp>,
    ) -> Result<RankedValues, Error> {
        self.check(precision, range, 1, Self::MAX_BUCKETS)?;
        let Some(prefix) = &read.prefix else { return Ok(RankedValues::default()) };
        let is_match = |name: &CounterName| (read.value)(name).is_some();
        self.rank_values(prefix, is_match, read.first_list, precision, range).await
    }

    /// Adds the hits that the pairs do not cover.
    async fn with_rest<V: Fn(&CounterName) -> Option<String>>(
        &self,
        Read { label, of, value, .. }: Read<'_, V>,
        pairs: RankedValues,
        precision: Precision,
        range: Range<Timestamp>,
        limit: usize,
    ) -> Result<LabelRanking, Error> {
        let (values_start, pairs_start) =
            (format!("{}{label}:", CounterName::LABELS), CounterName::pairs(label));
        let (total, of_values, of_pairs) = try_join3(
            self.total(of, precision, range.clone()),
            self.total_missed(&values_start, precision, &range),
            self.total_missed(&pairs_start, precision, &range),
        )
        .await?;
        let RankedValues { ranking: Ranking { counters, mut unreadable }, is_partial } = pairs;
        unreadable.truncate(MAX_UNREADABLE);
        let known = counters.iter().fold(0_u64, |sum, (_, count)| sum.saturating_add(*count));
        let other = total.saturating_sub(known);
        let mut values: Vec<_> =
            counters.iter().filter_map(|(name, count)| Some((value(name)?, *count))).collect();
        // The counters are sorted by their full names.
        values.sort_by(|(value, count), (other, than)| than.cmp(count).then_with(|| value.cmp(other)));
        values.truncate(limit);
        let missed = of_values.saturating_add(of_pairs).min(other);
        Ok(LabelRanking { values, none: 0, other, missed, total, is_partial, unreadable })
    }

    /// Returns the error bound in a range, given the start of the names.
    async fn total_missed(
        &self,
        prefix: &str,
        precision: Precision,
        range: &Range<Timestamp>,
    ) -> Result<u64, Error> {
        match self.missed(prefix, precision, range.clone()).await? {
            Some(missed) => Ok(missed),
            None => self.total(&name(&format!("{prefix}{MISSED}"))?, precision, range.clone()).await,
        }
    }
}

/// The pairs to be ranked.
struct Read<'a, V> {
    label: &'a str,
    /// Start of the names. There are no pairs if `None`.
    prefix: Option<CounterName>,
    /// The counter of all hits, i.e. of the page or of the value.
    of: &'a CounterName,
    /// Number of names on the first list.
    first_list: usize,
    /// Returns the other part of a pair, or `None` if the pair does not match.
    value: V,
}
