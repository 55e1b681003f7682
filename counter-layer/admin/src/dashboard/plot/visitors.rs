//! Unique visitors of the first chart line, for each bucket.

use std::ops::Range;

use counter_core::{Error, Stats, Timestamp};

use crate::dashboard::reader::Reader;
use crate::dashboard::view::period::length;
use crate::dashboard::view::timeline::Timeline;
use crate::dashboard::view::view::View;

/// Reads the visitors of each bucket in a single round trip, if requested and available for this precision. A
/// value is `None` past retention.
pub(super) async fn read(
    reader: &Reader<'_>,
    view: &View,
    timeline: &Timeline,
    now: Timestamp,
) -> Result<Option<Vec<Option<u64>>>, Error> {
    let precision = timeline.buckets.read.precision;
    let retained = reader.stats.reach().visitors.retention(precision).filter(|_| view.chart.uniques);
    let Some((retained, counter)) = retained.zip(view.chart.counters.first()) else { return Ok(None) };
    let all: Vec<_> = timeline.buckets.bucket_ranges().collect();
    // A day can be a union of several buckets. If they exceed the read limit, then we only read the latest
    // days.
    let width = u64::from(precision.as_seconds());
    let mut remaining = Stats::MAX_COUNTED_SKETCHES;
    let fits = |bucket: &&Range<Timestamp>| {
        remaining = remaining.saturating_sub(length(bucket) / width);
        remaining > 0 && bucket.start >= retained.oldest(now)
    };
    let unread = all.len() - all.iter().rev().take_while(fits).count();
    let known = &all[unread..];
    let uniques = match known.is_empty() {
        true => Vec::new(),
        false => reader.uniques_by_range(counter, precision, known).await?,
    };
    let visitors = uniques.into_iter().map(|uniques| uniques.map(|uniques| uniques.visitors));
    Ok(Some(std::iter::repeat_n(None, unread).chain(visitors).collect()))
}
