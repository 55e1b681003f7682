//! Reads that several routes have in common.

use std::ops::Range;

use counter_core::time::Grid;
use counter_core::{CounterName, Precision, Stats, Timestamp};

use super::parameter::HasGrid;
use crate::admin::problem::Problem;

impl HasGrid for Stats {
    fn grid(&self) -> &Grid {
        Self::grid(self)
    }
}

/// Reads the samples of a counter, which has to be known.
pub(crate) async fn series(
    stats: &Stats,
    counter: &CounterName,
    precision: Precision,
    range: Range<Timestamp>,
) -> Result<counter_core::Series, Problem> {
    let series = stats.series(counter, precision, range).await;
    let series = series.map_err(|error| Problem::of(&error, stats))?;
    if series.samples.is_empty() && series.unreadable.is_none() {
        known(stats, std::slice::from_ref(counter)).await?;
    }
    Ok(series)
}

/// Refuses counters of which one is not known. Where the list of counters cannot be read, none is denied.
pub(crate) async fn known(stats: &Stats, counters: &[CounterName]) -> Result<(), Problem> {
    let contained = stats.contains_counters(counters).await.map_err(|error| Problem::of(&error, stats))?;
    match counters.iter().zip(contained).find(|(_, contained)| *contained == Ok(false)) {
        Some((counter, _)) => Err(Problem::unknown_counter(counter)),
        None => Ok(()),
    }
}
