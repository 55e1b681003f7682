//! Unique visitors of the first chart line, for each bucket.

use counter_core::{Error, Precisions, Stats, Timestamp};

use crate::dashboard::reader::Reader;
use crate::dashboard::view::buckets::Buckets;
use crate::dashboard::view::timeline::Timeline;
use crate::dashboard::view::union::Union;
use crate::dashboard::view::view::View;

/// Returns `true` if visitors are kept for any of these buckets.
pub(super) fn are_kept(retained: &Precisions, buckets: &Buckets, now: Timestamp) -> bool {
    // The current bucket might just be the start of a longer one.
    let mut past = buckets.bucket_ranges().filter(|bucket| bucket.end <= now || buckets.starts.len() == 1);
    past.any(|bucket| Union::of(retained, &bucket, now).is_some())
}

/// Reads the visitors of each bucket in a single round trip, if requested and available for these buckets. A value is
/// `None` past retention.
pub(super) async fn read(
    reader: &Reader<'_>,
    view: &View,
    timeline: &Timeline,
    now: Timestamp,
) -> Result<Option<Vec<Option<u64>>>, Error> {
    let (retained, buckets) = (&reader.stats.reach().visitors, &timeline.buckets);
    let counter =
        view.chart.counters.get(..1).filter(|_| view.chart.uniques && are_kept(retained, buckets, now));
    let Some(counter) = counter else { return Ok(None) };
    let all: Vec<_> = buckets.bucket_ranges().map(|bucket| Union::of(retained, &bucket, now)).collect();
    // If they exceed the read limit, then we only read the latest buckets.
    let mut remaining = Stats::MAX_COUNTED_SKETCHES;
    let fits = |union: &&Option<Union>| {
        let number = union.as_ref().map_or(0, |union| union.buckets.len() as u64);
        remaining = remaining.saturating_sub(number);
        remaining > 0
    };
    let unread = all.len() - all.iter().rev().take_while(fits).count();
    let is_known: Vec<_> =
        all.iter().enumerate().map(|(place, union)| place >= unread && union.is_some()).collect();
    let unions: Vec<_> = all.into_iter().skip(unread).flatten().map(|union| union.buckets).collect();
    let mut uniques = match unions.is_empty() {
        true => Vec::new().into_iter(),
        false => reader.uniques(counter, &unions).await?.into_iter(),
    };
    let visitors =
        is_known.into_iter().map(|is_known| if is_known { uniques.next().flatten() } else { None });
    Ok(Some(visitors.map(|uniques| uniques.map(|uniques| uniques.visitors)).collect()))
}
