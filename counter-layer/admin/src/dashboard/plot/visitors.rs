//! People of the chart lines, for each bucket.

use counter_core::{CounterName, Error, Precisions, Stats, Timestamp};

use crate::dashboard::reader::Reader;
use crate::dashboard::view::buckets::Buckets;
use crate::dashboard::view::period::length;
use crate::dashboard::view::union::Union;

/// The buckets for which visitors are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kept {
    None,
    Some,
    All,
}

/// Returns for which of these buckets visitors are kept.
pub(super) fn kept(retained: &Precisions, buckets: &Buckets, now: Timestamp) -> Kept {
    // The current bucket might just be the start of a longer one.
    let past = buckets.bucket_ranges().filter(|bucket| bucket.end <= now || buckets.starts.len() == 1);
    let mut past: Vec<_> = past.collect();
    // At the start of a period, we look at the bucket before it instead.
    if let (true, Some(first)) = (past.is_empty(), buckets.bucket_ranges().next()) {
        past.push(first.start.minus(length(&first))..first.start);
    }
    match past.iter().filter(|bucket| Union::of(retained, bucket, now).is_some()).count() {
        0 => Kept::None,
        number if number == past.len() => Kept::All,
        _ => Kept::Some,
    }
}

/// Reads the visitors of each counter and bucket in a single round trip. A value is `None` past retention.
pub(super) async fn read(
    reader: &Reader<'_>,
    counters: &[CounterName],
    retained: &Precisions,
    buckets: &Buckets,
    now: Timestamp,
) -> Result<Vec<Vec<Option<u64>>>, Error> {
    let all: Vec<_> = buckets.bucket_ranges().map(|bucket| Union::of(retained, &bucket, now)).collect();
    // If they exceed the read limit, then we only read the latest buckets.
    let mut remaining = Stats::MAX_COUNTED_SKETCHES / counters.len().max(1) as u64;
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
        false => reader.uniques(counters, &unions).await?.into_iter(),
    };
    let mut of_counter = || {
        let visitors =
            is_known.iter().map(|is_known| if *is_known { uniques.next().flatten() } else { None });
        visitors.map(|uniques| uniques.map(|uniques| uniques.visitors)).collect()
    };
    Ok(counters.iter().map(|_| of_counter()).collect())
}
