//! Reads that several routes have in common.

use std::ops::Range;

use counter_core::time::Grid;
use counter_core::{CounterName, ErrorKind, Precision, Stats, Timestamp};

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
        known(stats, counter).await?;
    }
    Ok(series)
}

/// Refuses a counter that is not known.
pub(crate) async fn known(stats: &Stats, counter: &CounterName) -> Result<(), Problem> {
    match stats.contains_counter(counter).await {
        Ok(true) => Ok(()),
        Ok(false) => Err(Problem::unknown_counter(counter)),
        // Where the list of counters cannot be read, none is denied.
        Err(error) if matches!(error.kind(), ErrorKind::Malformed { .. }) => Ok(()),
        Err(error) => Err(Problem::of(&error, stats)),
    }
}
