//! The list of known counters.

use std::collections::{BTreeMap, HashMap};

use super::Stats;
use crate::error::Error;
use crate::family::name::CounterName;
use crate::time::{Precision, Timestamp};
use crate::visits::store::{KnownReading, Unreadable};

/// A page of the list of known counters.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CounterPage {
    /// The counters by name, each with the precisions that it has samples of.
    pub counters: Vec<(CounterName, Vec<Precision>)>,
    /// The last counter of this page if there may be more. Pass it to the next call.
    pub next: Option<CounterName>,
    /// Entries in the list of counters that are not counters, and lists that cannot be read.
    pub unreadable: Vec<Unreadable>,
}

/// The number of counters on a page.
pub(super) const PAGE: usize = 1000;

impl Stats {
    /// Returns up to `limit` counters, at most 1,000, in the order of their names: those after `after`, or
    /// the first ones. Values of labels are not among them: see [`label`](Self::label).
    ///
    /// # Errors
    /// Fails when the store cannot be read.
    pub async fn list_counters(
        &self,
        after: Option<&CounterName>,
        limit: usize,
    ) -> Result<CounterPage, Error> {
        let precisions: Vec<_> = self.tally.grid.counts.iter().map(|kept| kept.precision).collect();
        let limit = limit.clamp(1, PAGE);
        let mut first = self.list(&precisions, after, limit, Timestamp::MIN).await?;
        let has_labels = first.counters.iter().any(|(name, _)| name.label().is_some());
        first = without_labels(first);
        // The counters after the labels are on the same page.
        if has_labels
            && let Some(after) = &first.next
            && limit > first.counters.len()
        {
            let rest =
                self.list(&precisions, Some(after), limit - first.counters.len(), Timestamp::MIN).await?;
            first.counters.extend(rest.counters);
            first.next = rest.next;
        }
        Ok(first)
    }

    pub(super) async fn list(
        &self,
        precisions: &[Precision],
        after: Option<&CounterName>,
        limit: usize,
        since: Timestamp,
    ) -> Result<CounterPage, Error> {
        // No name contains a control character, so this is the smallest text after `after`.
        let from = after.map_or_else(String::new, |after| format!("{after}\0"));
        let mut counters = BTreeMap::<_, Vec<_>>::new();
        let KnownReading { counters: known, unreadable, .. } =
            self.store.known_since(precisions, &from, limit + 1, since).await?;
        for (name, precision) in known {
            counters.entry(name).or_default().push(precision);
        }
        let more = counters.len() > limit;
        let counters: Vec<_> = counters.into_iter().take(limit).collect();
        let last = counters.last().map(|(name, _)| name.clone());
        Ok(CounterPage { counters, next: last.filter(|_| more), unreadable })
    }

    /// Returns whether each of these counters exists: in the store, or in this process and not flushed yet. It takes one
    /// exchange with each shard of these counters. A list of counters that
    /// cannot be read does not affect the counters of other shards.
    ///
    /// # Errors
    /// Fails when the store cannot be read.
    pub async fn contains_counters(
        &self,
        counters: &[CounterName],
    ) -> Result<Vec<Result<bool, Unreadable>>, Error> {
        let is_here = |counter: &CounterName| self.tally.find(counter).is_some();
        let elsewhere: Vec<_> = counters.iter().filter(|counter| !is_here(counter)).cloned().collect();
        let precisions: Vec<_> = self.tally.grid.counts.iter().map(|kept| kept.precision).collect();
        let stored = match elsewhere.is_empty() {
            true => Vec::new(),
            false => self.store.contains(&elsewhere, &precisions).await?,
        };
        let stored: HashMap<_, _> = elsewhere.iter().zip(stored).collect();
        Ok(counters.iter().map(|counter| stored.get(counter).cloned().unwrap_or(Ok(true))).collect())
    }
}

/// Leaves out the values of labels, and those that would follow on the next page.
pub(super) fn without_labels(mut page: CounterPage) -> CounterPage {
    page.next = page.next.map(|next| if next.starts_with(CounterName::LABELS) { last_label() } else { next });
    page.counters.retain(|(name, _)| name.label().is_none());
    page
}

/// Returns the last possible name of a value of a label.
fn last_label() -> CounterName {
    CounterName::new(&format!("{}{}", CounterName::LABELS, char::MAX)).expect("a name")
}
