use std::collections::BTreeSet;

use super::Archive;
use crate::error::Error;
use crate::family::name::CounterName;
use crate::time::{Grid, Kind, Precision, Precisions, Retention, Timestamp};
use crate::visits::store::{KnownQuery, Query, Readings, Store};

/// Number of counters on a page. The sketches of a bucket take up to 8 MB.
pub(super) const PAGE_SIZE: usize = 500;

/// Maximum number of distributions to read at a time. They are usually a few hundred bytes each.
const DISTRIBUTIONS_PER_READ: usize = 10_000;

/// The precisions to copy and compare.
#[derive(Debug)]
pub(super) struct Listed {
    /// Retention in the near store, for precisions that are also kept in the far store.
    pub(super) retained: Vec<(Kind, Retention)>,
    /// The precisions for which the near store lists counters.
    counts: Vec<Precision>,
}

/// A page of the names of known counters in a store.
#[derive(Debug)]
pub(super) struct Counters {
    pub(super) counters: Vec<CounterName>,
    /// Start of the next page; `None` at the end.
    pub(super) next: Option<String>,
    /// Number of unreadable entries in the list.
    pub(super) unreadable: u64,
    /// True if counters are missing because a list can't be read.
    pub(super) is_incomplete: bool,
}

/// Reads the values of a page of counters in the first of these buckets, which must be consecutive. Further buckets start at
/// the [end](Readings::end) of the response.
pub(super) async fn values(
    store: &dyn Store,
    kind: Kind,
    retention: Retention,
    counters: &[CounterName],
    starts: &[Timestamp],
) -> Result<Readings, Error> {
    let starts = match kind {
        Kind::Distributions => {
            let buckets = (DISTRIBUTIONS_PER_READ / counters.len().max(1)).max(1);
            &starts[..starts.len().min(buckets)]
        }
        Kind::Counts | Kind::Visitors => starts,
    };
    let range = starts.first().zip(starts.last()).map(|(first, last)| *first..last.plus(1));
    let range = range.unwrap_or(Timestamp::MIN..Timestamp::MIN);
    let query = Query { counters, precision: retention.precision, range, retained: retention.samples.get() };
    let start = query.range.start;
    let mut readings = store.values(kind, query).await?;
    readings.end = readings.next(start);
    Ok(readings)
}

/// Returns an upper bound for the names of label values.
fn last_label() -> String {
    format!("{}{}", CounterName::LABELS, char::MAX)
}

impl Listed {
    pub(super) fn new(archive: &Archive, grid: &Grid) -> Self {
        let of = |kind, retained: Retention| {
            archive.far_retention(kind, retained.precision).map(|_| (kind, retained))
        };
        let of_kind = |kind| {
            let retained = grid.precisions(kind).into_iter().flat_map(Precisions::iter);
            retained.filter_map(move |retention| of(kind, retention))
        };
        Self {
            retained: Kind::ALL.into_iter().flat_map(of_kind).collect(),
            counts: grid.counts.iter().map(|retention| retention.precision).collect(),
        }
    }

    /// Lists a page of counters that might have values of this kind since a time, starting with the name
    /// `from`.
    pub(super) async fn counters(
        &self,
        store: &dyn Store,
        kind: Kind,
        precision: Precision,
        from: &str,
        since: Timestamp,
    ) -> Result<Counters, Error> {
        let precisions = match kind {
            Kind::Counts => std::slice::from_ref(&precision),
            // The counts of these counters may only have other precisions.
            Kind::Visitors | Kind::Distributions => &self.counts,
        };
        let known = store.known(KnownQuery { precisions, from, limit: PAGE_SIZE, since }).await?;
        let names: BTreeSet<_> = known.counters.into_iter().map(|(name, _)| name).collect();
        let is_last = names.len() < PAGE_SIZE;
        let mut counters: Vec<_> = names.into_iter().take(PAGE_SIZE).collect();
        // Names can't contain this character, so this is the next possible text.
        let mut next = counters.last().filter(|_| !is_last).map(|last| format!("{last}\0"));
        if kind == Kind::Distributions {
            // Values are measured for the site and for pages, but not for labels, which are most of the names.
            counters.retain(|name| name.label().is_none());
            next = next.map(|next| if next.starts_with(CounterName::LABELS) { last_label() } else { next });
        }
        let is_incomplete = known.unreadable.iter().any(|one| one.extent.is_unknown());
        let unreadable = known.unreadable.len() as u64;
        Ok(Counters { counters, next, unreadable, is_incomplete })
    }
}
