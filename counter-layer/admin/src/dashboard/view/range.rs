//! The named chart ranges, and the best precision for these.

use counter_core::Precisions;
use counter_core::time::Retention;

/// A named chart range: a number of buckets of a precision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NamedRange {
    pub(crate) name: &'static str,
    pub(crate) precision: Retention,
    pub(crate) span: u32,
}

/// The names and the lengths in seconds. Ranges are not aligned with calendar months or years, so that the
/// previous range always has the same length and can be compared.
const RANGES: [(&str, u64); 4] =
    [("day", 86_400), ("week", 7 * 86_400), ("month", 30 * 86_400), ("year", 365 * 86_400)];

/// The preferred maximum number of buckets. Above this, a coarser precision should be used.
const PREFERRED_MAX_SPAN: u32 = 400;

/// The maximum number of buckets in a chart: two years of days, or a month of hours.
pub(crate) const MAX_SPAN: u32 = 750;

impl NamedRange {
    /// Returns the available ranges, shortest first. Picks the finest precision within the preferred number
    /// of buckets, or otherwise within the maximum.
    pub(crate) fn all(reach: &Precisions) -> impl Iterator<Item = Self> {
        RANGES.into_iter().filter_map(|(name, seconds)| {
            let range = |precision: Retention, max: u32| {
                let width = u64::from(precision.precision.as_seconds());
                let span = u32::try_from(seconds / width).ok()?;
                // The length may be up to 1 % off, e.g. 52 weeks for a year.
                let is_whole = seconds % width <= seconds / 100;
                let fits = is_whole && (2..=max.min(precision.samples.get())).contains(&span);
                fits.then_some(Self { name, precision, span })
            };
            let finest = |max: u32| reach.iter().find_map(|precision| range(precision, max));
            finest(PREFERRED_MAX_SPAN).or_else(|| finest(MAX_SPAN))
        })
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use counter_core::Precision;

    use super::*;

    fn ranges(retained: &[(u32, u32)]) -> Vec<(&'static str, u32, u32)> {
        let retained = retained.iter().map(|&(width, samples)| Retention {
            precision: Precision::try_from(width).expect("not 0"),
            samples: NonZeroU32::new(samples).expect("not 0"),
        });
        let all: Vec<_> = NamedRange::all(&Precisions::new(retained).expect("a set")).collect();
        all.iter().map(|range| (range.name, range.precision.precision.as_seconds(), range.span)).collect()
    }

    #[test]
    fn named_ranges_use_the_finest_precision_within_the_limit() {
        let default = [1, 5, 60, 300, 3600, 18_000, 86_400].map(|width| (width, 120));
        assert_eq!(ranges(&default), [("day", 3600, 24), ("week", 86_400, 7), ("month", 86_400, 30)]);
        let years = [(60, 20_160), (300, 2016), (3600, 17_568), (86_400, 3660)];
        assert_eq!(
            ranges(&years),
            [("day", 300, 288), ("week", 3600, 168), ("month", 86_400, 30), ("year", 86_400, 365)]
        );
        assert_eq!(
            ranges(&[(3600, 100_000)]),
            [("day", 3600, 24), ("week", 3600, 168), ("month", 3600, 720)]
        );
        assert_eq!(ranges(&[(10_800, 3000)]).last(), Some(&("month", 10_800, 240)));
        assert_eq!(ranges(&[(604_800, 521)]), [("year", 604_800, 52)]);
        assert_eq!(ranges(&[(86_400, 365)]).last(), Some(&("year", 86_400, 365)));
        assert_eq!(ranges(&[(86_400, 364)]).last(), Some(&("month", 86_400, 30)));
        assert_eq!(ranges(&[(1, 120), (7, 4_000_000_000), (u32::MAX, 120)]), []);
    }
}
