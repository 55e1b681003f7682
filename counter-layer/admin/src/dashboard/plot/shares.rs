//! Shares of all hits, in hundredths of a percent.

use counter_core::CounterName;

use crate::dashboard::format::numbers::Unit;
use crate::dashboard::view::metric::Metric;

/// The counters of a chart of shares.
#[derive(Debug)]
pub(super) struct Shares {
    /// The lines, then the other counters of the sums that they are a share of.
    pub(super) counters: Vec<CounterName>,
    /// The places of the counters of each sum.
    wholes: Vec<Vec<usize>>,
}

impl Shares {
    /// Returns the counters to read for these lines, or `None` if one of them has no share.
    pub(super) fn of(lines: &[CounterName]) -> Option<Self> {
        let (mut counters, mut wholes) = (lines.to_vec(), Vec::new());
        for line in lines {
            let mut places = Vec::new();
            for name in Metric::wholes(line)? {
                let place = counters.iter().position(|counter| **counter == **name);
                places.push(place.unwrap_or(counters.len()));
                if place.is_none() {
                    counters.push(CounterName::new(name).ok()?);
                }
            }
            wholes.push(places);
        }
        Some(Self { counters, wholes })
    }

    /// Returns the number of lines.
    pub(super) const fn lines(&self) -> usize {
        self.wholes.len()
    }

    /// Returns the places of the counters that a line is a share of.
    pub(super) fn whole(&self, line: usize) -> &[usize] {
        self.wholes.get(line).map_or(&[], Vec::as_slice)
    }

    /// Returns the count of a line and of its sum, if both are known.
    pub(super) fn pair(&self, line: usize, count: impl Fn(usize) -> Option<u64>) -> Option<(u64, u64)> {
        let whole =
            self.whole(line).iter().try_fold(0_u64, |sum, place| Some(sum.saturating_add(count(*place)?)));
        count(line).zip(whole)
    }

    /// Returns the share of a line by bucket, given the counts of all counters by bucket. It is not known without hits.
    pub(super) fn line(&self, line: usize, counts: &[Vec<Option<u64>>]) -> Vec<Option<u64>> {
        let at = |bucket: usize| move |place: usize| *counts.get(place)?.get(bucket)?;
        let buckets = 0..counts.get(line).map_or(0, Vec::len);
        buckets.map(|bucket| self.pair(line, at(bucket)).and_then(Unit::share)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names<const N: usize>(names: [&str; N]) -> Vec<CounterName> {
        names.map(|name| CounterName::new(name).expect("a name")).into()
    }

    #[test]
    fn a_share_is_part_of_its_own_sum() {
        let shares = Shares::of(&names(["agent:bot", "status:5xx"])).expect("both have a share");
        assert_eq!(shares.counters.len(), 2 + 1 + 6);
        // Three hits of bots, no error, a hit of a human, two hits with a status 1xx.
        let counts = [3, 0, 1, 2, 0, 0, 0, 0, 0].map(|count| vec![Some(count), Some(0), None]);
        assert_eq!(shares.line(0, &counts), [Some(7500), None, None]);
        assert_eq!(shares.line(1, &counts), [Some(0), None, None]);
        assert!(Shares::of(&names(["agent:bot", "/"])).is_none());
    }
}
