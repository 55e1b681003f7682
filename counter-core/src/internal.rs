//! Shared with other packages in this workspace, which pin the exact version. This is not part of the public
//! API.

use std::collections::BTreeMap;
use std::ops::Range;

pub use crate::document::change::change_document;
use crate::error::Error;
pub use crate::family::errands::Errands;
use crate::family::name::CounterName;
pub use crate::family::passes::{Passes, until};
pub use crate::log::debug::debug_in_full;
pub use crate::log::debug::in_full;
pub use crate::log::unwind::{Panicked, catch_panic, emit};
pub use crate::time::backoff::Backoff;
use crate::time::{Precision, Timestamp};
pub use crate::visits::tally::label::is_label_name;
use crate::visits::{Distribution, Measure, Stats, Unreadable};

/// Returns the writes that the flusher repeats until they succeed.
#[must_use]
pub fn errands(stats: &Stats) -> Errands {
    stats.errands()
}

/// Returns whether this cause should be logged now.
#[must_use]
pub fn admits_log_line(stats: &Stats, cause: &'static str) -> bool {
    stats.admits_log_line(cause)
}

/// Adds schema steps for later versions, in order to test upgrades.
#[cfg(feature = "_sql")]
pub const fn later_steps(
    builder: crate::stores::SqlBuilder,
    steps: &'static [&'static str],
) -> crate::stores::SqlBuilder {
    builder.later_steps(steps)
}

/// Returns the distributions for each counter and measure, in a single round trip to the shards. Buckets that are unknown,
/// completely or in part, are left out, and returned separately.
///
/// # Errors
/// This fails like [`Stats::distribution`].
pub async fn distributions_by_counter(
    stats: &Stats,
    counters: &[CounterName],
    precision: Precision,
    range: Range<Timestamp>,
    measures: &[Measure],
) -> Result<Vec<(Vec<BTreeMap<Timestamp, Distribution>>, Option<Unreadable>)>, Error> {
    stats.distributions_by_counter(counters, precision, range, measures).await
}
