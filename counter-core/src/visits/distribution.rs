//! Distributions of request durations, response sizes and statuses.

mod measure;
mod bin;

use std::collections::BTreeMap;

use crate::time::{Precision, Precisions};

pub use bin::Bin;
pub use measure::Measure;

/// Bins in ascending order with no duplicates, and the number of values in each.
pub type Bins = Vec<(Bin, u64)>;

/// The distribution of a [`Measure`], with the number of values per [`Bin`].
///
/// Distributions across counters, buckets and instances can be merged by adding them up.
///
/// ```
/// use std::time::Duration;
/// use counter_core::visits::{Bin, Distribution, Measure};
///
/// let times = (1..=1000).map(|ms| (Bin::time(Duration::from_millis(ms)), 1));
/// let times = Distribution::new(Measure::Time, times);
/// assert_eq!(times.count(), 1000);
/// let median = times.quantile(0.5).unwrap();
/// assert!((median / 0.5 - 1.0).abs() <= Measure::RELATIVE_ERROR);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Distribution {
    measure: Measure,
    bins: BTreeMap<Bin, u64>,
}

impl Distribution {
    /// Creates a distribution from the bins that belong to this measure.
    pub fn new(measure: Measure, bins: impl IntoIterator<Item = (Bin, u64)>) -> Self {
        let mut distribution = Self { measure, bins: BTreeMap::new() };
        distribution.add(bins);
        distribution
    }

    /// Returns the default precisions for distributions: 60, 3600 and 86400 seconds, with 120 samples per
    /// precision.
    #[must_use]
    pub fn precisions() -> Precisions {
        let precision = |seconds: u32| Precision::try_from(seconds).expect("not 0");
        Precisions::new([60, 3600, 86_400].map(precision)).expect("three precisions are a set")
    }

    /// Adds the bins that belong to this measure.
    pub fn add(&mut self, bins: impl IntoIterator<Item = (Bin, u64)>) {
        for (bin, count) in
            bins.into_iter().filter(|(bin, count)| bin.measure() == self.measure && *count > 0)
        {
            let sum = self.bins.entry(bin).or_default();
            *sum = sum.saturating_add(count);
        }
    }

    /// Adds the bins of a distribution of the same measure.
    pub fn merge(&mut self, other: &Self) {
        self.add(other.bins());
    }

    /// Returns the measure.
    #[must_use]
    pub const fn measure(&self) -> Measure {
        self.measure
    }

    /// Returns the non-empty bins and their counts, ordered by value.
    pub fn bins(&self) -> impl Iterator<Item = (Bin, u64)> + Clone {
        self.bins.iter().map(|(bin, count)| (*bin, *count))
    }

    /// Returns the number of values.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.bins.values().fold(0, |sum, count| sum.saturating_add(*count))
    }

    /// Returns the smallest value, with the error of a [quantile](Self::quantile), or `None` where there are
    /// no values.
    #[must_use]
    pub fn min(&self) -> Option<f64> {
        self.quantile(0.0)
    }

    /// Returns the largest value, with the error of a [quantile](Self::quantile), or `None` where there are
    /// no values.
    #[must_use]
    pub fn max(&self) -> Option<f64> {
        self.quantile(1.0)
    }

    /// Returns the sum of the values. For times and sizes, the relative error is at most
    /// [`Measure::RELATIVE_ERROR`], unless values are out of range of the [bins](Bin).
    #[must_use]
    pub fn sum(&self) -> f64 {
        self.bins().map(|(bin, count)| bin.value() * count as f64).sum()
    }

    /// Returns the sum of squares of the values, e.g. to compute a standard deviation. The relative error is
    /// slightly more than twice the error of the [sum](Self::sum).
    #[must_use]
    pub fn sum_of_squares(&self) -> f64 {
        self.bins().map(|(bin, count)| bin.value().powi(2) * count as f64).sum()
    }

    /// Returns the mean of the values, with the error of the [sum](Self::sum), or `None` where there are no
    /// values.
    #[must_use]
    pub fn mean(&self) -> Option<f64> {
        let count = self.count();
        (count > 0).then(|| self.sum() / count as f64)
    }

    /// Returns the `q`-quantile of the values, with `q` between 0 and 1, via the nearest-rank method. This is
    /// `None` where there are no values.
    ///
    /// For times and sizes, the relative error is at most [`Measure::RELATIVE_ERROR`], unless the exact value
    /// is out of range of the [bins](Bin).
    #[must_use]
    pub fn quantile(&self, q: f64) -> Option<f64> {
        let rank = rank(q, self.count())?;
        let mut below = 0_u64;
        let found = self.bins().find(|(_, count)| {
            below = below.saturating_add(*count);
            below >= rank
        });
        found.map(|(bin, _)| bin.value())
    }
}

/// Returns the nearest rank of a quantile among `count` values, starting at 1.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a non-negative integer")]
fn rank(q: f64, count: u64) -> Option<u64> {
    let exact = q.clamp(0.0, 1.0) * count as f64;
    // In floating point, 0.07 · 100 is slightly more than 7, but must not be rounded up to 8.
    let rank = if (exact - exact.round()).abs() < 1e-9 * exact { exact.round() } else { exact.ceil() };
    (count > 0).then(|| (rank as u64).clamp(1, count))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;

    fn times() -> impl Strategy<Value = Vec<Duration>> {
        prop::collection::vec((1_000..4_000_000_000_000_u64).prop_map(Duration::from_nanos), 1..200)
    }

    fn distribution(times: &[Duration]) -> Distribution {
        Distribution::new(Measure::Time, times.iter().map(|time| (Bin::time(*time), 1)))
    }

    #[test]
    fn quantiles_use_the_nearest_rank() {
        let ranks = [(0.07, 100), (0.9, 10), (0.99, 100), (0.5, 3), (0.0, 5), (1.0, 5), (7.0, 5), (-1.0, 5)];
        let ranks = ranks.map(|(q, count)| rank(q, count));
        assert_eq!(ranks, [7, 9, 99, 2, 1, 5, 5, 1].map(Some));
        assert_eq!((rank(0.5, 0), rank(f64::NAN, 3)), (None, Some(1)));
    }

    #[test]
    fn summaries_of_statuses_are_exact_and_empty_summaries_are_none() {
        let statuses = Distribution::new(Measure::Status, [(Bin::status(200), 3), (Bin::status(500), 1)]);
        assert_eq!(
            (statuses.min(), statuses.max(), statuses.mean()),
            (Some(200.0), Some(500.0), Some(275.0))
        );
        assert_eq!((statuses.sum(), statuses.sum_of_squares()), (1100.0, 370_000.0));
        let none = Distribution::new(Measure::Time, []);
        assert_eq!((none.min(), none.max(), none.mean(), none.sum()), (None, None, None, 0.0));
    }

    #[test]
    fn quantiles_of_numbers_are_exact_and_skip_other_measures() {
        let bins = [(Bin::status(200), 90), (Bin::status(404), 9), (Bin::status(500), 1), (Bin::grpc(3), 7)];
        let statuses = Distribution::new(Measure::Status, bins);
        assert_eq!((statuses.count(), statuses.quantile(0.99)), (100, Some(404.0)));
        assert_eq!(Distribution::new(Measure::Size, bins).quantile(0.5), None);
    }

    proptest! {
        #[test]
        fn the_mean_is_within_the_relative_error(times in times()) {
            let exact = times.iter().map(Duration::as_secs_f64).sum::<f64>() / times.len() as f64;
            let mean = distribution(&times).mean().expect("there are values");
            prop_assert!((mean / exact - 1.0).abs() <= Measure::RELATIVE_ERROR, "{mean} for {exact}");
        }

        #[test]
        fn quantiles_are_within_the_relative_error(mut times in times(), q in 0.0..=1.0_f64) {
            let estimate = distribution(&times).quantile(q).expect("there are values");
            times.sort_unstable();
            let rank = rank(q, times.len() as u64).expect("there are values");
            let exact = times[usize::try_from(rank).expect("small") - 1].as_secs_f64();
            prop_assert!((estimate / exact - 1.0).abs() <= Measure::RELATIVE_ERROR, "{estimate} for {exact}");
        }

        #[test]
        fn merging_equals_counting_all_values(one in times(), other in times()) {
            let mut merged = distribution(&one);
            merged.merge(&distribution(&other));
            prop_assert_eq!(merged, distribution(&[one, other].concat()));
        }
    }
}
