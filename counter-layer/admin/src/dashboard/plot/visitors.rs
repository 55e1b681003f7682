//! Unique visitors of the first chart line, for each bucket and for the whole period.

use std::ops::Range;

use counter_core::time::Retention;
use counter_core::visits::Uniques;
use counter_core::{CounterName, Error, Stats, Timestamp};
use futures_util::future::try_join3;

use super::sums::length;
use crate::dashboard::format::numbers;
use crate::dashboard::format::units;
use crate::dashboard::reader::Reader;
use crate::dashboard::view::buckets::Buckets;
use crate::dashboard::view::view::View;
use crate::text::digits;

/// The visitors to read for a chart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    /// Visitors per bucket.
    Buckets,
    /// Also visitors over all buckets. This number changes slowly, but is expensive for the store.
    Whole,
}

/// The unique visitors of a chart.
#[derive(Debug, Default)]
pub(crate) struct Visitors {
    /// Bucket visitors, or `None` past retention.
    pub(crate) buckets: Vec<Option<u64>>,
    /// A sentence on the visitors over all buckets.
    pub(crate) words: Option<String>,
}

/// Reads the visitors in a single round trip, if requested and available for this precision.
pub(crate) async fn read(
    reader: &Reader<'_>,
    view: &View,
    buckets: &Buckets,
    extent: Extent,
    now: Timestamp,
) -> Result<Option<Visitors>, Error> {
    let (precision, range) = (buckets.read.precision, buckets.range());
    let retained = reader.stats.reach().visitors.retention(precision).filter(|_| view.chart.uniques);
    let Some((retained, counter)) = retained.zip(view.chart.counters.first()) else { return Ok(None) };
    let whole = time(&range, retained, now).filter(|_| extent == Extent::Whole);
    let other = view.other(now).map(|other| other.range());
    let other = other.filter(|other| whole.is_some() && retained.oldest(now) <= other.start);
    let all: Vec<_> = buckets.bucket_ranges().collect();
    // A day can be a union of several buckets. If they exceed the read limit, then we only read the latest
    // days.
    let width = u64::from(precision.as_seconds());
    let mut remaining = Stats::MAX_COUNTED_SKETCHES;
    let fits = |bucket: &&Range<Timestamp>| {
        remaining = remaining.saturating_sub(length(bucket) / width);
        remaining > 0 && bucket.start >= retained.oldest(now)
    };
    let known = all.iter().rev().take_while(fits).count();
    let read = async |ranges: &[Range<Timestamp>]| match ranges.is_empty() {
        true => Ok(Vec::new()),
        false => reader.uniques_by_range(counter, precision, ranges).await,
    };
    let is_readable = |range: &Range<Timestamp>| length(range) / width < Stats::MAX_COUNTED_SKETCHES;
    let readable =
        |range: &Option<Range<Timestamp>>| range.clone().filter(is_readable).into_iter().collect::<Vec<_>>();
    let (wholes, others) = (readable(&whole), readable(&other));
    let (uniques, wholes, others) =
        try_join3(read(&all[all.len() - known..]), read(&wholes), read(&others)).await?;
    let visitors = uniques.into_iter().map(|uniques| uniques.map(|uniques| uniques.visitors));
    let first = |all: Vec<Option<Uniques>>| all.into_iter().next().flatten();
    Ok(Some(Visitors {
        buckets: std::iter::repeat_n(None, all.len() - known).chain(visitors).collect(),
        words: match (extent, whole) {
            (Extent::Buckets, _) => None,
            (Extent::Whole, None) => Some("Visitors of this period are past retention.".to_owned()),
            (Extent::Whole, Some(_)) if wholes.is_empty() => {
                Some("This period is too long to count unique visitors.".to_owned())
            }
            (Extent::Whole, Some(_)) => first(wholes).map(|uniques| {
                let mut words = words(reader, counter, &range, retained, now, uniques);
                if let Some(other) = first(others) {
                    let change = numbers::change(uniques.visitors, other.visitors);
                    let change = change.map_or_else(String::new, |change| format!(", {}", change.text));
                    words += &format!(" Comparison period: {}{change}.", digits::grouped(other.visitors));
                }
                words
            }),
        },
    }))
}

/// Returns the part of the range within visitor retention.
fn time(range: &Range<Timestamp>, retention: Retention, now: Timestamp) -> Option<Range<Timestamp>> {
    let part = range.start.max(retention.oldest(now))..range.end;
    (!part.is_empty()).then_some(part)
}

fn words(
    reader: &Reader<'_>,
    counter: &CounterName,
    range: &Range<Timestamp>,
    retained: Retention,
    now: Timestamp,
    uniques: Uniques,
) -> String {
    let (visitors, error) = (digits::grouped(uniques.visitors), uniques.standard_error * 100.0);
    let mut words = format!("{visitors} unique visitors of {counter} (± {error:.1} %)");
    words += &match time(range, retained, now).filter(|part| part.start > range.start) {
        Some(part) => format!(" in the last {}, older data is past retention.", units::span(length(&part))),
        None => " in this period.".to_owned(),
    };
    let epoch = u64::from(reader.stats.salt_epoch().as_seconds());
    if length(range) > epoch {
        let epoch = units::unit(epoch);
        words += &format!(" A visitor without a stable identity is counted once per {epoch}.");
    }
    words
}
