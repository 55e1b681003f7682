use std::iter::successors;
use std::ops::Range;

use crate::time::{Grid, Kind, Precisions, Retention, Timestamp};
use crate::visits::store::MAX_FUTURE_SECONDS;

/// A part of a store to read. Counters are given as indices into the list of all counters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Values { kind: Kind, retention: Retention, range: Range<Timestamp>, counters: Range<usize> },
    Lifetimes { counters: Range<usize> },
}

/// Maximum number of counters to read values of per call. If a store has an index by bucket, it scans all counters of a
/// bucket in every call.
const MAX_COUNTERS: u32 = 2500;

/// Number of counters to read a visitor bucket of per call: up to 8 MB of lines.
const MAX_SKETCHES: u32 = 500;

/// Returns the parts within retention at `now`, ordered by kind and precision, so that a restore batch has only a
/// single precision.
pub(super) fn parts(
    grid: &Grid,
    now: Timestamp,
    counters: usize,
) -> impl Iterator<Item = Part> + Send + Sync + 'static {
    let retained = Kind::ALL.into_iter().flat_map(|kind| {
        grid.precisions(kind).into_iter().flat_map(Precisions::iter).map(move |retention| (kind, retention))
    });
    let values = retained.collect::<Vec<_>>().into_iter().flat_map(move |(kind, retention)| {
        let (max_buckets, max_counters) = match kind {
            // About 10 MB of lines.
            Kind::Counts => (300_000, 300_000 / retention.samples),
            Kind::Visitors => (1, MAX_SKETCHES),
            // About 5 MB of lines.
            Kind::Distributions => (10_000, 10_000 / retention.samples),
        };
        pages(counters, max_counters.clamp(1, MAX_COUNTERS)).flat_map(move |counters| {
            let ranges = ranges(retention, max_buckets, now);
            ranges.map(move |range| Part::Values { kind, retention, range, counters: counters.clone() })
        })
    });
    values.chain(pages(counters, MAX_COUNTERS).map(|counters| Part::Lifetimes { counters }))
}

fn pages(counters: usize, page: u32) -> impl Iterator<Item = Range<usize>> {
    let page = page as usize;
    (0..counters).step_by(page).map(move |from| from..counters.min(from + page))
}

/// Returns the range within retention in chunks. This also includes buckets from clocks that are ahead.
fn ranges(retention: Retention, buckets: u32, now: Timestamp) -> impl Iterator<Item = Range<Timestamp>> {
    let width = u64::from(retention.precision.as_seconds()) * u64::from(buckets);
    let end = now.plus(MAX_FUTURE_SECONDS + 1);
    let next = move |start: &Timestamp| Some(start.plus(width)).filter(|next| *next < end);
    successors(Some(retention.oldest(now)), next).map(move |start| start..start.plus(width).min(end))
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
            let counts = grid.counts.iter().map(|retention| (Kind::Counts, retention, 300_000));
            let visitors = grid.visitors.iter().map(|retention| (Kind::Visitors, retention, 500));
            for (kind, retention, max_values) in counts.chain(visitors) {
                let mut starts = Vec::new();
                for part in &parts {
                    let Part::Values { kind: of_kind, retention: of, range, counters } = part else {
                        continue;
                    };
                    if (*of_kind, *of) != (kind, retention) {
                        continue;
                    }
                    let end = if kind == Kind::Counts { range.end.min(now) } else { range.end };
                    let values = retention.precision.starts(range.start..end).count() * counters.len();
                    assert!(values <= max_values, "{values} values");
                    if counters.contains(&0) {
                        starts.extend(retention.precision.starts(range.clone()));
                    }
                }
                let expected: Vec<_> = retention
                    .precision
                    .starts(retention.oldest(now)..now.plus(MAX_FUTURE_SECONDS + 1))
                    .collect();
                assert_eq!(starts, if counters == 0 { Vec::new() } else { expected });
            }
            let last = parts
                .iter()
                .filter(|part| matches!(part, Part::Lifetimes { counters: of } if of.end == counters));
            assert_eq!(last.count(), usize::from(counters > 0));
        }
    }
}
