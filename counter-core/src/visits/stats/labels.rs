use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::ops::Range;

use futures_util::future::{join, join_all, try_join, try_join_all, try_join3};

use super::listing::{CounterPage, MAX_RANKED, PAGE_SIZE, Ranking};
use super::{MAX_UNREADABLE, Stats, buckets};
use crate::error::{Error, ErrorKind};
use crate::family::name::{CounterName, PAIR_SUFFIX};
use crate::time::{Bucket, Precision, Timestamp};
use crate::visits::store::{Total, Unreadable};
use crate::visits::tally::{MISSED, NONE, OTHER_VALUE, hours, is_reserved};

/// The label values with the most hits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LabelRanking {
    /// Values and hits, sorted by descending hits, then by value.
    pub values: Vec<(String, u64)>,
    /// Hits with no value.
    pub none: u64,
    /// Hits of values above the limit, and of invalid values.
    pub other: u64,
    /// Upper bound on the [`other`](Self::other) hits that belong to any single value. The true count of a
    /// value is at least the listed count, and at most this much higher. This will be 0 if no value exceeded
    /// the limit.
    pub missed: u64,
    /// All hits: of listed and unlisted values, [`none`](Self::none) and [`other`](Self::other).
    pub total: u64,
    /// True if the label has more values than can be read. In this case, we read the values with the largest
    /// lifetimes, and [`total`](Self::total) is missing the hits of the remaining values.
    pub is_partial: bool,
    /// Entries that can't be read, up to 1,000. Their values are not ranked.
    pub unreadable: Vec<Unreadable>,
}

/// All values of a label by hits, before the limit is applied.
#[derive(Debug, Default)]
pub(super) struct RankedValues {
    pub(super) ranking: Ranking,
    pub(super) is_partial: bool,
}

/// Maximum number of values to rank in name order. The same number may be ranked by lifetime.
pub(super) const MAX_VALUES: u64 = 50_000;

/// Maximum number of label values to list by name, including values that are only ranked by lifetime.
const MAX_LISTED: usize = 200_000;

/// Number of names on the first page, enough for all values that a single instance can add. Later pages grow
/// by a factor of four, up to [`MAX_PAGE`].
const FIRST_PAGE: usize = 3000;
const MAX_PAGE: usize = 50_000;

/// Number of lifetimes in a read.
const LIFETIMES_PER_READ: usize = 10_000;

/// Maximum number of labels to list.
const LABELS: usize = 100;

impl Stats {
    /// Returns up to 100 labels with values in the store, sorted by name.
    ///
    /// This takes a round trip to the store, and another for every further label in a row which is not
    /// counted by this process.
    ///
    /// # Errors
    /// Returns an error if the store can't be read.
    pub async fn labels(&self) -> Result<Vec<String>, Error> {
        self.find_labels(&self.expected(&[])).await
    }

    /// Returns the [`label`](Self::label) ranking of all labels, sorted by name.
    ///
    /// The labels of this process and the `expected` labels are read concurrently. Any other label must be
    /// discovered first, which takes a round trip for each label in a row, plus two to read the rankings.
    ///
    /// # Errors
    /// Returns an error if the labels can't be listed. If a label can't be ranked, the error is returned in
    /// place of the ranking.
    pub async fn label_rankings(
        &self,
        expected: &[&str],
        precision: Precision,
        range: Range<Timestamp>,
        limit: usize,
    ) -> Result<Vec<(String, Result<LabelRanking, Error>)>, Error> {
        self.rankings(expected, None, precision, range, limit).await
    }

    /// Returns the rankings of all labels, for a page if it is set, sorted by name.
    pub(super) async fn rankings(
        &self,
        expected: &[&str],
        page: Option<&CounterName>,
        precision: Precision,
        range: Range<Timestamp>,
        limit: usize,
    ) -> Result<Vec<(String, Result<LabelRanking, Error>)>, Error> {
        let expected = self.expected(expected);
        let has_views = self.grid().counts.of_views().retention(precision).is_some();
        let read = async |label: String| {
            let range = range.clone();
            if page.is_some() && !has_views && CounterName::VIEW_LABELS.contains(&&*label) {
                return None;
            }
            let ranking = match page {
                None => self.label(&label, precision, range, limit).await.map(Some),
                Some(page) => self.values_of_page(&label, page, precision, range, limit, true).await,
            };
            Some((label, ranking.transpose()?))
        };
        let (found, rankings) =
            join(self.find_labels(&expected), join_all(expected.iter().cloned().map(&read))).await;
        let found = found?;
        let others = found.iter().filter(|label| !expected.contains(*label));
        let others = join_all(others.cloned().map(&read)).await;
        let is_found = |(label, _): &(String, _)| found.contains(label);
        let rankings = rankings.into_iter().chain(others).flatten().filter(is_found);
        let mut rankings: Vec<_> = rankings.collect();
        rankings.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        Ok(rankings)
    }

    /// Returns the labels of this process, plus `others`.
    fn expected(&self, others: &[&str]) -> BTreeSet<String> {
        let local_labels = self.tally.labels().map(str::to_owned);
        local_labels.chain(others.iter().map(|label| (*label).to_owned())).collect()
    }

    /// Returns the existing labels. Looks up the expected labels, and the gaps between them, concurrently.
    async fn find_labels(&self, expected: &BTreeSet<String>) -> Result<Vec<String>, Error> {
        // Sorted with the colon, like the counter names of the values.
        let mut bounds: Vec<_> = expected.iter().map(|label| format!("{label}:")).collect();
        bounds.sort_unstable();
        let starts = std::iter::once("").chain(bounds.iter().map(String::as_str));
        let ends = bounds.iter().map(|bound| Some(bound.as_str())).chain([None]);
        let gaps = starts.zip(ends).map(|(start, end)| self.labels_between(start, end));
        let mut labels: Vec<_> = try_join_all(gaps).await?.into_iter().flatten().collect();
        labels.sort_unstable();
        labels.truncate(LABELS);
        Ok(labels)
    }

    /// Returns the labels after `start`, up to and including `end`. The bounds include the colon.
    async fn labels_between(&self, start: &str, end: Option<&str>) -> Result<Vec<String>, Error> {
        let precisions: Vec<_> = self.grid().counts.iter().map(|retention| retention.precision).collect();
        let mut labels = Vec::new();
        let last = |label: &str| match label {
            "" => name(CounterName::LABELS),
            // The pairs of a label follow the values, because a label name can't contain `;` to `?`.
            label => name(&format!("{}{label}{PAIR_SUFFIX}{}", CounterName::LABELS, char::MAX)),
        };
        let (mut after, mut size) = (last(start.trim_end_matches(':'))?, 1);
        for _ in 0..2 * LABELS {
            let page = self.list(&precisions, Some(&after), size, Timestamp::MIN).await?;
            let names = page.counters.iter().map(|(name, _)| name);
            let names = names.take_while(|name| name.starts_with(CounterName::LABELS));
            let Some((label, _)) = names.clone().find_map(CounterName::label) else {
                // Names with no value, e.g. `label:x`, might hide a later label, so we need to read on.
                let Some(name) = names.last().filter(|_| page.next.is_some()) else { break };
                (after, size) = (name.clone(), PAGE_SIZE);
                continue;
            };
            size = 1;
            if let Some(label) = label.strip_suffix(PAIR_SUFFIX) {
                // Pairs remain for a while if the values were removed.
                after = last(label)?;
                continue;
            }
            let with_colon = format!("{label}:");
            if end.is_some_and(|end| *with_colon > *end) {
                break;
            }
            labels.push(label.to_owned());
            if end == Some(&with_colon) {
                break;
            }
            after = last(label)?;
        }
        Ok(labels)
    }

    /// Returns up to `limit` values of a label with the most hits in the buckets that start in `range`, and
    /// the hits that are not attributed to a value.
    ///
    /// ```
    /// use std::num::NonZeroU32;
    /// use counter_core::{Counters, MemoryStore, Precision, Timestamp};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let mut counters = Counters::builder(MemoryStore::new()).build()?;
    /// let (recorder, now) = (counters.recorder(), Timestamp::now());
    /// let languages = recorder.label_values("language")?;
    /// for language in [Some("de"), Some("en"), Some("en"), None] {
    ///     let noted = languages.note(language, NonZeroU32::MIN);
    ///     recorder.request(&[languages.counter(noted).hit()], counter_core::visits::Agent::Human);
    /// }
    /// counters.flush().await?;
    ///
    /// let (hour, range) = (Precision::HOUR, now.minus(3600)..now.plus(1));
    /// let top = counters.stats().label("language", hour, range, 10).await?;
    /// assert_eq!(top.values, [("en".to_owned(), 2), ("de".to_owned(), 1)]);
    /// assert_eq!((top.total, top.none, top.other, top.missed), (4, 1, 0, 0));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// We read the first 50,000 values by name, or fewer if this takes more than 10,000,000 buckets. If more
    /// values have hits since the start of the range, we also read those with the largest lifetimes, up to
    /// the same number. At most 200,000 values are listed. If any value is left out,
    /// [`is_partial`](LabelRanking::is_partial) will be set.
    ///
    /// # Errors
    /// Returns an error if the precision is not in the grid, if the range is empty or has more than 10,000
    /// buckets, or if the store can't be read.
    pub async fn label(
        &self,
        label: &str,
        precision: Precision,
        range: Range<Timestamp>,
        limit: usize,
    ) -> Result<LabelRanking, Error> {
        self.check(precision, &range, 1, Self::MAX_BUCKETS)?;
        let Ok(prefix) = name(&format!("{}{label}:", CounterName::LABELS)) else {
            return Ok(LabelRanking::of(RankedValues::default(), 0, limit));
        };
        let missed = self.missed(&prefix, precision, range.clone());
        let values = self.rank_values(&prefix, |_| true, FIRST_PAGE, precision, &range);
        let (values, missed) = try_join(values, missed).await?;
        let other = values.ranking.of(&prefix, OTHER_VALUE);
        let missed = missed.unwrap_or_else(|| values.ranking.of(&prefix, MISSED)).min(other);
        Ok(LabelRanking::of(values, missed, limit))
    }

    /// Ranks the counters whose names start with a prefix, and that are accepted by a filter. This takes a round
    /// trip for each page of names, plus a final round trip.
    pub(super) async fn rank_values(
        &self,
        prefix: &CounterName,
        filter: impl Fn(&CounterName) -> bool,
        first_page: usize,
        precision: Precision,
        range: &Range<Timestamp>,
    ) -> Result<RankedValues, Error> {
        let max_values = MAX_VALUES.min(MAX_RANKED / buckets(precision, range));
        let max_values = usize::try_from(max_values).unwrap_or(usize::MAX).max(1);
        let precisions = [precision];
        let (mut values, mut overflow) = (RankedValues::default(), Vec::new());
        let (mut listed, mut ranked_by_name, mut size) = (0, 0, first_page);
        let mut page = self.list(&precisions, Some(prefix), size, range.start).await?;
        loop {
            let CounterPage { counters, next, unreadable } = page;
            let names = counters.into_iter().map(|(name, _)| name);
            let names = names.take_while(|name| name.starts_with(&**prefix)).inspect(|_| listed += 1);
            let mut names: Vec<_> = names.filter(&filter).collect();
            values.ranking.unreadable.extend(unreadable);
            let more = names.split_off(names.len().min(max_values.saturating_sub(ranked_by_name)));
            ranked_by_name += names.len();
            let ranked = async {
                self.rank(&names, precision, range, &mut values.ranking).await?;
                values.is_partial |= self.keep_largest(&mut overflow, more, prefix, max_values).await?;
                Ok(())
            };
            let next = next.filter(|next| next.starts_with(&**prefix));
            let Some(next) = next.filter(|_| listed < MAX_LISTED) else {
                ranked.await?;
                values.is_partial |= listed >= MAX_LISTED;
                break;
            };
            size = (size * 4).min(MAX_PAGE);
            let following = self.list(&precisions, Some(&next), size, range.start);
            page = try_join(ranked, following).await?.1;
        }
        let overflow: Vec<_> = overflow.into_iter().map(|(_, name)| name).collect();
        self.rank(&overflow, precision, range, &mut values.ranking).await?;
        values.ranking.sort();
        Ok(values)
    }

    /// Adds names, but only keeps `max_values` names with the largest lifetimes. Returns whether any name was
    /// dropped.
    ///
    /// A lifetime is an upper bound on the hits in any range, so a dropped name can't have more hits than the
    /// smallest lifetime in `retained`.
    async fn keep_largest(
        &self,
        retained: &mut Vec<(u64, CounterName)>,
        names: Vec<CounterName>,
        prefix: &str,
        max_values: usize,
    ) -> Result<bool, Error> {
        let is_reserved = |name: &CounterName| is_reserved(&name[prefix.len()..]);
        for names in names.chunks(LIFETIMES_PER_READ) {
            let lifetimes = self.store.lifetimes(names).await?;
            let lifetime = |(name, lifetime): (&CounterName, Result<u64, _>)| {
                let lifetime = if is_reserved(name) { u64::MAX } else { lifetime.unwrap_or(u64::MAX) };
                (lifetime, name.clone())
            };
            retained.extend(names.iter().zip(lifetimes).map(lifetime));
        }
        let is_overflowing = retained.len() > max_values;
        if is_overflowing {
            retained.select_nth_unstable_by_key(max_values, |(lifetime, _)| Reverse(*lifetime));
            retained.truncate(max_values);
        }
        Ok(is_overflowing)
    }

    /// Returns the maximum number of hits in a range that a value can be missing, because they count as
    /// `(other)`. The bound is recorded by the hour. Returns `None` if the sum of `(missed)` in this
    /// precision can be used, and `u64::MAX` if the bound is unknown.
    pub(super) async fn missed(
        &self,
        prefix: &str,
        precision: Precision,
        range: Range<Timestamp>,
    ) -> Result<Option<u64>, Error> {
        let hours = hours(&self.grid().counts);
        if hours.divides(precision) {
            return Ok(None);
        }
        let (first, last) = (hours.bucket(range.start), hours.bucket(range.end.minus(1)));
        let range = first.start..Bucket { precision: hours, start: last.start }.end();
        match self.total(&name(&format!("{prefix}{MISSED}"))?, hours, range.clone()).await {
            Ok(missed) if self.is_retained(hours, range.start) => Ok(Some(missed)),
            _ => Ok(Some(u64::MAX)),
        }
    }

    fn is_retained(&self, precision: Precision, start: Timestamp) -> bool {
        let retained = self.reach().counts.retention(precision);
        retained.is_some_and(|retention| retention.oldest(Timestamp::now()) <= start)
    }
}

impl LabelRanking {
    fn of(values: RankedValues, missed: u64, limit: usize) -> Self {
        let RankedValues { ranking: Ranking { counters, mut unreadable }, is_partial } = values;
        let mut all = Self {
            values: Vec::new(),
            none: 0,
            other: 0,
            missed,
            total: 0,
            is_partial,
            unreadable: Vec::new(),
        };
        unreadable.truncate(MAX_UNREADABLE);
        all.unreadable = unreadable;
        for (name, count) in counters {
            match name.label() {
                Some((_, MISSED)) | None => continue,
                Some((_, NONE)) => all.none = count,
                Some((_, OTHER_VALUE)) => all.other = count,
                Some((_, value)) if all.values.len() < limit => all.values.push((value.to_owned(), count)),
                Some(_) => {}
            }
            all.total = all.total.saturating_add(count);
        }
        all
    }
}

impl Ranking {
    /// Returns the hits of a label value.
    fn of(&self, prefix: &str, value: &str) -> u64 {
        let found = self.counters.iter().find(|(name, _)| name.strip_prefix(prefix) == Some(value));
        found.map_or(0, |(_, count)| *count)
    }
}

pub(super) fn name(text: &str) -> Result<CounterName, Error> {
    CounterName::new(text).map_err(|error| Error::new(ErrorKind::Rejected).caused_by(error))
}

/// Number of names on the first list of the values of a page.
const VALUES_OF_PAGE: usize = 300;

/// Number of names on the first list of all pairs, enough for the pairs of a single instance.
const ALL_PAIRS: usize = 10_000;

impl Stats {
    /// Returns up to `limit` values of a label with the most hits of a page, in the buckets that start in `range`.
    ///
    /// [`total`](LabelRanking::total) is the number of hits of the page, or of its views if the label [only counts
    /// views](CounterName::VIEW_LABELS), and [`other`](LabelRanking::other) is the rest: hits of values and pairs above the limits, of invalid values, and from times when the label did not
    /// [count pairs](crate::visits::LabelValues::by_page). [`missed`](LabelRanking::missed) is the maximum that
    /// belongs to any single value because of the limits.
    ///
    /// ```
    /// use std::num::NonZeroU32;
    /// use counter_core::visits::{Agent, PageHit};
    /// use counter_core::{CounterName, Counters, MemoryStore, Precision, Timestamp};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let mut counters = Counters::builder(MemoryStore::new()).build()?;
    /// let (recorder, now) = (counters.recorder(), Timestamp::now());
    /// let referrers = recorder.label_values("referrer")?.by_page();
    /// for (page, referrer) in [("/a", "news.example"), ("/a", "blog.example"), ("/b", "news.example")] {
    ///     let noted = referrers.note(Some(referrer), NonZeroU32::MIN);
    ///     recorder.page_hit(PageHit {
    ///         page: Some(recorder.counter(page)),
    ///         labels: &[noted],
    ///         ..PageHit::new(recorder.counter("hits").hit(), Agent::Human)
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
    /// Returns an error in the same cases as [`label`](Self::label), or if the label only counts views, which have no
    /// samples in this precision.
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
        let views = page.views();
        let of = match (CounterName::VIEW_LABELS.contains(&label), &views) {
            (false, _) => page,
            (true, Some(views)) => views,
            // The name is too long, so that its views are not known.
            (true, None) => return Ok(None),
        };
        let read = Read { label, prefix, of, first_list: VALUES_OF_PAGE, value };
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
    /// Labels are found in the same way as by [`label_rankings`](Self::label_rankings). If views have no samples in this
    /// precision, labels that only count views are left out.
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
            self.totals(std::slice::from_ref(of), precision, range.clone()),
            self.total_missed(&values_start, precision, &range),
            self.total_missed(&pairs_start, precision, &range),
        )
        .await?;
        let RankedValues { ranking: Ranking { counters, mut unreadable }, is_partial } = pairs;
        let total = total.into_iter().next().unwrap_or_else(|| Ok(Total::default()))?;
        // A site that is away lacks in the pairs and in the total.
        unreadable.extend(total.unreadable);
        unreadable.truncate(MAX_UNREADABLE);
        let total = total.count;
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

    /// Returns the error bound in a range, given the start of the names, and `u64::MAX` if it is unknown.
    async fn total_missed(
        &self,
        prefix: &str,
        precision: Precision,
        range: &Range<Timestamp>,
    ) -> Result<u64, Error> {
        match self.missed(prefix, precision, range.clone()).await? {
            Some(missed) => Ok(missed),
            None => match self.total(&name(&format!("{prefix}{MISSED}"))?, precision, range.clone()).await {
                Err(error) if matches!(error.kind(), ErrorKind::Incomplete { .. }) => Ok(u64::MAX),
                missed => missed,
            },
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
