//! Reads the statistics for a page. Unreadable data is treated as unknown, and the page will show a warning.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Mutex;

use counter_alert::AlertsStatus;
use counter_alert::goal::Goal;
use counter_core::time::Bucket;
use counter_core::visits::{Distributions, Extent, Measure, Total, Uniques, Unreadable};
use counter_core::{CounterName, Error, ErrorKind, Precision, Series, Stats, Timestamp};
use futures_util::future::try_join;
use tokio::sync::OnceCell;

use super::annotations::{self, Annotators};
use super::chart::annotations::Annotation;
use super::format::numbers;

/// The warning of a page that lacks data.
pub(crate) const UNREAD: &str = "Some data cannot be read, so values are unknown, left out or too low";

/// The maximum number of keys listed in the warning.
const MAX_NAMED_KEYS: usize = 5;

/// The statistics, and the keys that could not be read for this page.
#[derive(Debug)]
pub(crate) struct Reader<'a> {
    pub(crate) stats: &'a Stats,
    annotators: &'a Annotators,
    /// The unreadable keys, with the reason.
    unreadable: Mutex<BTreeMap<String, String>>,
    /// A part that is missing in all values, or a list that could not be read.
    missing: Mutex<Option<Unreadable>>,
    alerts: OnceCell<Option<AlertsStatus>>,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(stats: &'a Stats, annotators: &'a Annotators) -> Self {
        Self {
            stats,
            annotators,
            unreadable: Mutex::default(),
            missing: Mutex::default(),
            alerts: OnceCell::new(),
        }
    }

    /// Returns site-wide events and events for these counters, in ascending order. Empty if the events can't
    /// be read.
    pub(crate) async fn annotations(
        &self,
        counters: &[CounterName],
        range: Range<Timestamp>,
    ) -> Result<Vec<Annotation>, Error> {
        let notes = async { self.readable(self.annotators.notes(range.clone()).await) };
        let (mut all, known) = try_join(notes, self.alerts()).await?;
        all.extend(known.into_iter().flat_map(|known| annotations::alerts(known, counters, &range)));
        all.sort_by_key(|annotation| annotation.at);
        Ok(all)
    }

    /// Returns the rules and the history. This will be read only once for a page, and is `None` if alerts are
    /// disabled or can't be read.
    pub(crate) async fn alerts(&self) -> Result<Option<&AlertsStatus>, Error> {
        let read = || async {
            match &self.annotators.alerts {
                Some(alerts) => self.readable(alerts.read().await.map(Some)),
                None => Ok(None),
            }
        };
        Ok(self.alerts.get_or_try_init(read).await?.as_ref())
    }

    /// Returns `true` if counters can be marked as goals.
    pub(crate) const fn has_goals(&self) -> bool {
        self.annotators.goals.is_some()
    }

    /// Returns the goals. Empty if they can't be read.
    pub(crate) async fn goals(&self) -> Result<Vec<Goal>, Error> {
        match &self.annotators.goals {
            Some(goals) => self.readable(goals.list().await),
            None => Ok(Vec::new()),
        }
    }

    /// Returns the content. If the stored value is malformed, notes the key for the warning and returns the
    /// default.
    fn readable<T: Default>(&self, read: Result<T, Error>) -> Result<T, Error> {
        read.or_else(|error| match error.kind() {
            ErrorKind::Malformed { key } => {
                let mut all = self.unreadable.lock().expect("the lock is never poisoned");
                all.entry(key.clone()).or_insert_with(|| error.to_string());
                Ok(T::default())
            }
            _ => Err(error),
        })
    }

    /// Returns the samples of each counter, or `None` for unreadable counters.
    pub(crate) async fn series_many(
        &self,
        counters: &[CounterName],
        precision: Precision,
        range: Range<Timestamp>,
    ) -> Result<Vec<Option<Series>>, Error> {
        let all = self.stats.series_many(counters, precision, range).await?;
        Ok(all
            .into_iter()
            .map(|series| self.note_parts(series, |series| series.unreadable.as_ref()))
            .collect())
    }

    /// Returns the sum of the samples of each counter, or `None` for unreadable counters.
    pub(crate) async fn totals(
        &self,
        counters: &[CounterName],
        precision: Precision,
        range: Range<Timestamp>,
    ) -> Result<Vec<Option<Total>>, Error> {
        let all = self.stats.totals(counters, precision, range).await?;
        Ok(all.into_iter().map(|total| self.note_parts(total, |total| total.unreadable.as_ref())).collect())
    }

    /// Returns the lifetime total of each counter.
    pub(crate) async fn lifetimes(&self, counters: &[CounterName]) -> Result<Vec<Option<u64>>, Error> {
        let all = self.stats.lifetimes_by_counter(counters).await?;
        Ok(all.into_iter().map(|total| self.note(total)).collect())
    }

    /// Returns the visitors of each counter and union of buckets, in this order. Those of views and pairs are not known, and
    /// neither are those of label values if all are 0, because most labels do not count people.
    pub(crate) async fn uniques(
        &self,
        counters: &[CounterName],
        unions: &[Vec<Bucket>],
    ) -> Result<Vec<Option<Uniques>>, Error> {
        let has_visitors = |counter: &&CounterName| counter.pair().is_none() && counter.viewed().is_none();
        let visited: Vec<_> = counters.iter().filter(has_visitors).cloned().collect();
        let mut found = self.stats.uniques_by_union(&visited, unions).await?.into_iter().peekable();
        let of = |counter: &CounterName| match found.next_if(|_| has_visitors(&counter)) {
            Some(uniques) => {
                let uniques: Vec<_> = uniques.into_iter().map(|uniques| self.note(uniques)).collect();
                let is_0 = |uniques: &Option<Uniques>| uniques.is_none_or(|uniques| uniques.visitors == 0);
                match counter.label().is_some() && uniques.iter().all(is_0) {
                    true => vec![None; unions.len()],
                    false => uniques,
                }
            }
            None => vec![None; unions.len()],
        };
        Ok(counters.iter().flat_map(of).collect())
    }

    /// Returns the distributions of a counter for these measures.
    pub(crate) async fn distributions(
        &self,
        counter: &CounterName,
        precision: Precision,
        range: Range<Timestamp>,
        measures: &[Measure],
    ) -> Result<Vec<Distributions>, Error> {
        let counter = std::slice::from_ref(counter);
        let all = self.stats.distributions(counter, precision, range, measures).await?;
        all.iter().for_each(|one| self.note_all(&one.unreadable));
        Ok(all)
    }

    /// Returns all counters by name up to about this number, and `true` if there are more.
    pub(crate) async fn counters(&self, max: usize) -> Result<(Vec<CounterName>, bool), Error> {
        let (mut names, mut after) = (Vec::new(), None);
        loop {
            let page = self.stats.list_counters(after.as_ref(), 1000).await?;
            for unreadable in page.unreadable {
                // Counters are missing, not only their values.
                if unreadable.extent.is_unknown() {
                    self.note_missing(&unreadable);
                }
                self.add(unreadable);
            }
            names.extend(page.counters.into_iter().map(|(name, _)| name));
            after = page.next;
            if after.is_none() || names.len() >= max {
                return Ok((names, after.is_some()));
            }
        }
    }

    /// Returns `false` if counts are too low, because e.g. a site is away.
    pub(crate) fn is_complete(&self) -> bool {
        self.missing.lock().expect("the lock is never poisoned").is_none()
    }

    /// Formats a share, unless a part is missing: its share may be another one.
    pub(crate) fn share(&self, part: u64, whole: u64) -> Option<String> {
        numbers::share(part, whole).filter(|_| self.is_complete())
    }

    /// Returns an error if a part of the data could not be read, such as a site or a list of counters. A file
    /// can't state this.
    pub(crate) fn require_complete(&self) -> Result<(), Error> {
        let missing = self.missing.lock().expect("the lock is never poisoned").clone();
        missing.map_or(Ok(()), |missing| Err(missing.into()))
    }

    /// Returns a warning that lists the keys that could not be read.
    pub(crate) fn unread(self) -> Option<String> {
        let unreadable = self.unreadable.into_inner().expect("the lock is never poisoned");
        if unreadable.is_empty() {
            return None;
        }
        let named = unreadable.iter().take(MAX_NAMED_KEYS).map(|(key, reason)| format!("{key} ({reason})"));
        let named = named.collect::<Vec<_>>().join("; ");
        let more = match unreadable.len().saturating_sub(MAX_NAMED_KEYS) {
            0 => String::new(),
            more => format!("; and {more} more"),
        };
        Some(format!("{UNREAD}: {named}{more}."))
    }

    /// Returns the result if it could be read, and notes its unreadable entries.
    fn note_parts<T>(
        &self,
        read: Result<T, Unreadable>,
        unreadable: impl Fn(&T) -> Option<&Unreadable>,
    ) -> Option<T> {
        let read = self.note(read)?;
        if let Some(unreadable) = unreadable(&read) {
            self.add(unreadable.clone());
        }
        Some(read)
    }

    fn note<T>(&self, read: Result<T, Unreadable>) -> Option<T> {
        read.map_err(|unreadable| self.add(unreadable)).ok()
    }

    /// Adds entries that could not be read to the warning.
    pub(crate) fn note_all(&self, unreadable: &[Unreadable]) {
        unreadable.iter().for_each(|one| self.add(one.clone()));
    }

    fn note_missing(&self, unreadable: &Unreadable) {
        *self.missing.lock().expect("the lock is never poisoned") = Some(unreadable.clone());
    }

    fn add(&self, unreadable: Unreadable) {
        if unreadable.extent == Extent::Part {
            self.note_missing(&unreadable);
        }
        let mut all = self.unreadable.lock().expect("the lock is never poisoned");
        all.entry(unreadable.key).or_insert(unreadable.reason);
    }
}

/// Sums a series, or returns `None` if any bucket is unknown.
pub(crate) fn total(series: Option<Series>) -> Option<u64> {
    series?.total().ok()
}
