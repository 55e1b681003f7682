use std::collections::BTreeSet;
use std::ops::Range;

use futures_util::future::{join, join_all, try_join, try_join_all};

use super::{CounterPage, NAMED, Ranking, Stats};
use crate::time::Bucket;
use crate::visits::Unreadable;
use crate::visits::label::{MISSED, NONE, OTHER, hours};
use crate::{CounterName, Error, ErrorKind, Precision, Timestamp};

/// The values of a label with the most hits.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LabelRanking {
    /// The values with their hits, in descending order of hits, and by value where these are equal.
    pub values: Vec<(String, u64)>,
    /// The hits without a value.
    pub none: u64,
    /// The hits of values that had no place of their own, and of texts that are no values.
    pub other: u64,
    /// The most that any value may have had among the [`other`](Self::other) hits: each of the values has its hits, or
    /// up to this many more. It is 0 where all values had places.
    pub missed: u64,
    /// All hits: of all values, also of those that are not listed here, without a value and of others.
    pub total: u64,
    /// Entries that cannot be read, of values that are therefore not ranked; 1,000 at most.
    pub unreadable: Vec<Unreadable>,
}

/// The number of values that a ranking may have to look at.
const VALUES: u64 = 50_000;

/// The names of a first page: those of a label that has all its places in one instance. Further pages are longer and longer.
const FIRST_PAGE: usize = 3000;

/// The number of labels that are listed.
const LABELS: usize = 100;

impl Stats {
    /// Returns the labels of which the store has values, by name: 100 at most.
    ///
    /// It takes an exchange with the store, and one more for each label in a row that this process does not count.
    ///
    /// # Errors
    /// Fails when the store cannot be read.
    pub async fn labels(&self) -> Result<Vec<String>, Error> {
        self.labels_beside(&self.expected(&[])).await
    }

    /// Returns all labels, by name, each with what [`label`](Self::label) returns of it. Those of this process and those
    /// that are `expected` are read at once, and others when they have been found: by an exchange for each in a row, and
    /// two more for all of them.
    ///
    /// # Errors
    /// Fails when the labels cannot be listed; that one of them cannot be ranked is told in its place.
    pub async fn label_rankings(
        &self,
        expected: &[&str],
        precision: Precision,
        range: Range<Timestamp>,
        limit: usize,
    ) -> Result<Vec<(String, Result<LabelRanking, Error>)>, Error> {
        let expected = self.expected(expected);
        let read = async |label: String| {
            let ranking = self.label(&label, precision, range.clone(), limit).await;
            (label, ranking)
        };
        let (found, rankings) =
            join(self.labels_beside(&expected), join_all(expected.iter().cloned().map(&read))).await;
        let found = found?;
        let others = found.iter().filter(|label| !expected.contains(*label));
        let others = join_all(others.cloned().map(&read)).await;
        let mut rankings: Vec<_> =
            rankings.into_iter().filter(|(label, _)| found.contains(label)).chain(others).collect();
        rankings.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        Ok(rankings)
    }

    /// Returns the labels of this process, and others that there may be.
    fn expected(&self, others: &[&str]) -> BTreeSet<String> {
        let own = self.tally.labels().map(str::to_owned);
        own.chain(others.iter().map(|label| (*label).to_owned())).collect()
    }

    /// Returns the labels that there are, of which these are looked for at once, as is what lies between them.
    async fn labels_beside(&self, expected: &BTreeSet<String>) -> Result<Vec<String>, Error> {
        // In the order in which names of their values are, to which a colon belongs.
        let mut bounds: Vec<_> = expected.iter().map(|label| format!("{label}:")).collect();
        bounds.sort_unstable();
        let begins = std::iter::once("").chain(bounds.iter().map(String::as_str));
        let ends = bounds.iter().map(|bound| Some(bound.as_str())).chain([None]);
        let gaps = begins.zip(ends).map(|(begin, end)| self.labels_between(begin, end));
        let mut labels: Vec<_> = try_join_all(gaps).await?.into_iter().flatten().collect();
        labels.sort_unstable();
        labels.truncate(LABELS);
        Ok(labels)
    }

    /// Returns the labels after one until another, each written with its colon; that one as well, where there is it.
    async fn labels_between(&self, begin: &str, end: Option<&str>) -> Result<Vec<String>, Error> {
        let precisions: Vec<_> = self.grid().counts.iter().map(|kept| kept.precision).collect();
        let mut labels = Vec::new();
        let last = |label: &str| match label {
            "" => name(CounterName::LABELS),
            label => name(&format!("{}{label}{}", CounterName::LABELS, char::MAX)),
        };
        let mut after = last(begin)?;
        while labels.len() < LABELS {
            let page = self.list(&precisions, Some(&after), 1, Timestamp::MIN).await?;
            let first = page.counters.first().map(|(name, _)| name);
            let Some((label, _)) = first.and_then(CounterName::label) else { break };
            let with_colon = format!("{label}:");
            if end.is_some_and(|end| *with_colon > *end) {
                break;
            }
            labels.push(label.to_owned());
            if end == Some(&with_colon) {
                break;
            }
            after = last(&with_colon)?;
        }
        Ok(labels)
    }

    /// Returns the values of a label with the most hits in the buckets that start in `range`, at most `limit` of them, and
    /// what is not among them.
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
    ///     let noted = languages.note(language, now, NonZeroU32::MIN);
    ///     recorder.request(&[languages.counter(noted).hit()], counter_core::visits::Agent::Human);
    /// }
    /// counters.flush().await?;
    ///
    /// let (hour, range) = (Precision::try_from(3600)?, now.minus(3600)..now.plus(1));
    /// let top = counters.stats().label("language", hour, range, 10).await?;
    /// assert_eq!(top.values, [("en".to_owned(), 2), ("de".to_owned(), 1)]);
    /// assert_eq!((top.total, top.none, top.other, top.missed), (4, 1, 0, 0));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Fails when the label has more than 50,000 values that are kept, when these times buckets exceed 10,000,000, when
    /// the precision is not kept, when the range is empty or has more than 10,000 buckets, or when the store
    /// cannot be read.
    pub async fn label(
        &self,
        label: &str,
        precision: Precision,
        range: Range<Timestamp>,
        limit: usize,
    ) -> Result<LabelRanking, Error> {
        self.check(precision, &range, 1, Self::MAX_BUCKETS)?;
        let Ok(prefix) = name(&format!("{}{label}:", CounterName::LABELS)) else {
            return Ok(LabelRanking::of(Ranking::default(), 0, limit));
        };
        let missed = self.missed(&prefix, precision, range.clone());
        let (ranking, missed) = try_join(self.rank_values(&prefix, precision, &range), missed).await?;
        let other = ranking.of(&prefix, OTHER);
        let missed = missed.unwrap_or_else(|| ranking.of(&prefix, MISSED)).min(other);
        Ok(LabelRanking::of(ranking, missed, limit))
    }

    /// Ranks all values of a label, by an exchange for each page of their names, and one more.
    async fn rank_values(
        &self,
        prefix: &CounterName,
        precision: Precision,
        range: &Range<Timestamp>,
    ) -> Result<Ranking, Error> {
        let precisions = [precision];
        let mut ranking = Ranking::default();
        let (mut seen, mut looked_at, mut size) = (0, 0, FIRST_PAGE);
        let mut page = self.list(&precisions, Some(prefix), size, range.start).await?;
        loop {
            let CounterPage { counters, next, unreadable } = page;
            let names = counters.into_iter().map(|(name, _)| name);
            let names: Vec<_> = names.filter(|name| name.starts_with(&**prefix)).collect();
            ranking.unreadable.extend(unreadable);
            seen += names.len() as u64;
            if seen > VALUES {
                return Err(Error::new(ErrorKind::TooManyCounters { most: VALUES }));
            }
            let rank = self.rank(&names, precision, range, &mut looked_at, &mut ranking);
            let Some(next) = next.filter(|next| next.starts_with(&**prefix)) else {
                rank.await?;
                ranking.sort();
                return Ok(ranking);
            };
            size *= 4;
            let following = self.list(&precisions, Some(&next), size, range.start);
            page = try_join(rank, following).await?.1;
        }
    }

    /// Returns the most that a value may have missed in a range, which is told in whole hours: more than all hits where
    /// that is not known, and nothing where a value of the precision tells it.
    async fn missed(
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
            Ok(missed) if self.is_kept(hours, range.start) => Ok(Some(missed)),
            _ => Ok(Some(u64::MAX)),
        }
    }

    fn is_kept(&self, precision: Precision, start: Timestamp) -> bool {
        let kept = self.reach().counts.retention(precision);
        kept.is_some_and(|kept| kept.oldest(Timestamp::now()) <= start)
    }
}

impl LabelRanking {
    fn of(ranking: Ranking, missed: u64, limit: usize) -> Self {
        let Ranking { counters, mut unreadable } = ranking;
        let mut all =
            Self { values: Vec::new(), none: 0, other: 0, missed, total: 0, unreadable: Vec::new() };
        unreadable.truncate(NAMED);
        all.unreadable = unreadable;
        for (name, count) in counters {
            match name.label() {
                Some((_, MISSED)) | None => continue,
                Some((_, NONE)) => all.none = count,
                Some((_, OTHER)) => all.other = count,
                Some((_, value)) if all.values.len() < limit => all.values.push((value.to_owned(), count)),
                Some(_) => {}
            }
            all.total = all.total.saturating_add(count);
        }
        all
    }
}

impl Ranking {
    /// Returns the hits of a value of a label.
    fn of(&self, prefix: &str, value: &str) -> u64 {
        let found = self.counters.iter().find(|(name, _)| name.strip_prefix(prefix) == Some(value));
        found.map_or(0, |(_, count)| *count)
    }
}

fn name(text: &str) -> Result<CounterName, Error> {
    CounterName::new(text).map_err(|error| Error::new(ErrorKind::Refused).caused_by(error))
}
