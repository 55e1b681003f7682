use std::iter::successors;
use std::ops::Range;

use crate::time::{Bucket, Grid, Precisions, Retention, Timestamp};
use crate::visits::store::MAX_FUTURE_SECONDS;

/// A part of a store to read in a single call. Counters are given as indices into the list of all counters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Samples { retention: Retention, range: Range<Timestamp>, counters: Range<usize> },
    Visitors { bucket: Bucket, counters: Range<usize> },
    Bins { retention: Retention, range: Range<Timestamp>, counters: Range<usize> },
    Lifetimes { counters: Range<usize> },
}

/// Maximum number of counters to read counts of per call. If a store has an index by bucket, it scans all
/// counters of a bucket in every call.
const MAX_COUNTERS: usize = 2500;

/// Maximum number of buckets per call, for a single counter and in total: about 10 MB of lines.
const MAX_BUCKETS: u32 = 300_000;

/// Number of counters to read a visitor bucket of per call: up to 8 MB of lines.
const MAX_SKETCHES: usize = 500;

/// Number of distributions to read per call: about 5 MB of lines.
const MAX_DISTRIBUTIONS: u32 = 10_000;

/// Returns the parts within retention at `now`, ordered by precision, so that a restore batch has only a
/// single precision.
pub(super) fn parts(
    grid: &Grid,
    now: Timestamp,
    counters: usize,
) -> impl Iterator<Item = Part> + Send + Sync + 'static {
    let samples = grid.counts.iter().collect::<Vec<_>>().into_iter().flat_map(move |retention| {
        let page =
            usize::try_from(MAX_BUCKETS / retention.samples).unwrap_or(MAX_COUNTERS).clamp(1, MAX_COUNTERS);
        pages(counters, page).flat_map(move |counters| {
            ranges(retention, MAX_BUCKETS, now).map(move |range| Part::Samples {
                retention,
                range,
                counters: counters.clone(),
            })
        })
    });
    let visitors = grid.visitors.iter().collect::<Vec<_>>().into_iter().flat_map(move |retention| {
        let buckets = retention.precision.starts(retention.oldest(now)..now.plus(MAX_FUTURE_SECONDS));
        buckets.flat_map(move |start| {
            let bucket = Bucket { precision: retention.precision, start };
            pages(counters, MAX_SKETCHES).map(move |counters| Part::Visitors { bucket, counters })
        })
    });
    let lifetimes = pages(counters, MAX_COUNTERS).map(|counters| Part::Lifetimes { counters });
    let distributions = grid.distributions.iter().flat_map(Precisions::iter).collect::<Vec<_>>();
    let bins = distributions.into_iter().flat_map(move |retention| {
        let page = usize::try_from(MAX_DISTRIBUTIONS / retention.samples).unwrap_or(1).max(1);
        pages(counters, page).flat_map(move |counters| {
            let ranges = ranges(retention, MAX_DISTRIBUTIONS, now);
            ranges.map(move |range| Part::Bins { retention, range, counters: counters.clone() })
        })
    });
    samples.chain(visitors).chain(bins).chain(lifetimes)
}

fn pages(counters: usize, page: usize) -> impl Iterator<Item = Range<usize>> {
    (0..counters).step_by(page).map(move |from| from..counters.min(from + page))
}

/// Returns the range within retention in chunks. The final chunk also includes buckets from clocks that are
/// ahead.
fn ranges(retention: Retention, buckets: u32, now: Timestamp) -> impl Iterator<Item = Range<Timestamp>> {
    let width = u64::from(retention.precision.as_seconds()) * u64::from(buckets);
    let starts = successors(Some(retention.oldest(now)), move |start| {
        Some(start.plus(width)).filter(|next| *next <= now)
    });
    starts.map(move |start| match start.plus(width) {
        end if end <= now => start..end,
        _ => start..now.plus(MAX_FUTURE_SECONDS + 1),
    })
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use super::*;
    use crate::time::{Precision, Precisions};

    #[test]
    fn retained_buckets_are_in_exactly_one_part_per_counter() {
        let retention = |seconds, samples| Retention {
            precision: Precision::try_from(seconds).expect("not 0").utc_offset(-7),
            samples: NonZeroU32::new(samples).expect("not 0"),
        };
        let counts = Precisions::new([retention(1, 700_000), retention(3600, 120), retention(86_400, 2)])
            .expect("a set");
        let visitors = Precisions::new([retention(3600, 3)]).expect("a set");
        let grid = Grid { counts, visitors, distributions: None };
        let now = Timestamp::from_unix(1_585_908_965);
        for counters in [0, 1, 501] {
            let parts: Vec<_> = parts(&grid, now, counters).collect();
            for retention in grid.counts.iter() {
                let mut starts = Vec::new();
                for part in &parts {
                    let Part::Samples { retention: of, range, counters } = part else { continue };
                    assert!(counters.len() as u64 * u64::from(of.samples.get().min(MAX_BUCKETS)) <= 300_000);
                    if *of == retention && counters.contains(&0) {
                        starts.extend(retention.precision.starts(range.clone()));
                    }
                }
                let expected: Vec<_> = retention
                    .precision
                    .starts(retention.oldest(now)..now.plus(MAX_FUTURE_SECONDS + 1))
                    .collect();
                assert_eq!(starts, if counters == 0 { Vec::new() } else { expected });
            }
            let last = parts.iter().filter(|part| {
                matches!(part, Part::Lifetimes { counters: of } | Part::Visitors { counters: of, .. } if of.end == counters)
            });
            assert_eq!(last.count(), if counters == 0 { 0 } else { 1 + 3 + 25 });
        }
    }
}
