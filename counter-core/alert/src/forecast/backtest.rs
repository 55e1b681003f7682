/// The maximum number of origins, i.e. past instants from which a forecast is tested.
const MAX_FOLDS: usize = 10;
/// Mean errors below this, in hits, are due to rounding, because counts are integers.
const ROUNDING: f64 = 1e-6;

/// The accuracy of the same forecast in the past, compared to the naive forecast.
///
/// We use up to ten instants in the past as origins, compute a forecast from the counts until then, and
/// compare it to the counts that follow. The error measure is the mean absolute scaled error (MASE) of
/// Hyndman & Koehler (2006), *Another look at measures of forecast accuracy*. This is the mean of all
/// absolute errors, divided by the mean absolute difference between a bucket prior to an origin and the
/// bucket a season earlier (or the previous bucket, with no season), averaged over the origins.
///
/// A MASE of 1 means that the error is as large as the difference between two seasons. Forecasts over more
/// buckets have larger errors, so you should compare `mase` to `naive_mase` instead of 1.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Backtest {
    /// The number of origins, up to 10.
    pub folds: usize,
    /// The number of buckets forecast from an origin. This can be less than requested if the history is too
    /// short.
    pub horizon: usize,
    /// The MASE for smoothing. This is `None` if the counts were constant prior to all origins, but changed
    /// later, because then we can't compute a scale.
    pub mase: Option<f64>,
    /// The MASE for the naive forecast, which repeats the latest season or bucket.
    pub naive_mase: Option<f64>,
}

/// The sums of the errors at all origins, from which a [`Backtest`] is computed.
pub(super) struct Sums {
    horizon: usize,
    folds: usize,
    model: f64,
    naive: f64,
    scale: f64,
}

/// Returns the number of buckets to forecast per test, and the origins, latest first. An origin must have at
/// least `least` preceding buckets, so `buckets` must be larger than this.
pub(super) fn origins(buckets: usize, least: usize, horizon: usize) -> (usize, Vec<usize>) {
    let spare = buckets - least;
    let horizon = horizon.min(spare / 3).max(1);
    let spacing = ((spare - horizon) / (MAX_FOLDS - 1)).max(1);
    let latest = buckets - horizon;
    (horizon, (least..=latest).rev().step_by(spacing).take(MAX_FOLDS).collect())
}

impl Sums {
    pub(super) const fn new(horizon: usize) -> Self {
        Self { horizon, folds: 0, model: 0.0, naive: 0.0, scale: 0.0 }
    }

    /// Adds a forecast based on `before`, to be compared to `after`. `period` is the number of buckets in the
    /// season.
    pub(super) fn add(&mut self, before: &[f64], after: &[f64], forecast: &[f64], period: usize) {
        self.folds += 1;
        self.model += mean_distance(forecast.iter().copied(), after);
        self.naive += mean_distance(naive(before, period), after);
        self.scale += mean_distance(before.iter().copied(), &before[period..]);
    }

    /// Returns `true` if the model is at least as good as the naive forecast. Ten origins do not give a
    /// precise result, so we ignore differences below a tenth.
    pub(super) fn model_is_as_good(&self) -> bool {
        self.model <= self.naive * 1.1 + ROUNDING
    }

    pub(super) fn result(&self) -> Backtest {
        let scaled = |error: f64| {
            if error <= ROUNDING { Some(0.0) } else { (self.scale > 0.0).then(|| error / self.scale) }
        };
        Backtest {
            folds: self.folds,
            horizon: self.horizon,
            mase: scaled(self.model),
            naive_mase: scaled(self.naive),
        }
    }
}

/// Repeats the latest season.
pub(super) fn naive(before: &[f64], period: usize) -> impl Iterator<Item = f64> {
    before[before.len() - period..].iter().copied().cycle()
}

fn mean_distance(values: impl Iterator<Item = f64>, reference: &[f64]) -> f64 {
    let sum: f64 = values.zip(reference).map(|(one, other)| (one - other).abs()).sum();
    sum / reference.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins_are_spread_over_the_history_with_space_on_both_sides() {
        for (buckets, least, requested, horizon, expected) in [
            (20, 10, 3, 3, vec![17, 16, 15, 14, 13, 12, 11, 10]),
            (20, 10, 10, 3, vec![17, 16, 15, 14, 13, 12, 11, 10]),
            (119, 10, 12, 12, vec![107, 97, 87, 77, 67, 57, 47, 37, 27, 17]),
            (72, 48, 24, 8, vec![64, 63, 62, 61, 60, 59, 58, 57, 56, 55]),
            (1000, 48, 500, 317, vec![683, 613, 543, 473, 403, 333, 263, 193, 123, 53]),
        ] {
            assert_eq!(
                origins(buckets, least, requested),
                (horizon, expected),
                "{buckets} {least} {requested}"
            );
        }
    }

    #[test]
    fn the_mase_matches_a_manual_computation() {
        let mut sums = Sums::new(2);
        // Before: differences 2, 1, 4, mean 7/3. Naive 15, 15: errors 2 and 1, mean 3/2. Model: 1 and 0, mean
        // 1/2.
        sums.add(&[10.0, 12.0, 11.0, 15.0], &[13.0, 14.0], &[12.0, 14.0], 1);
        // Before: differences 2, 1, mean 3/2. Naive 11, 11: errors 4 and 2, mean 3. Model: 2 and 2, mean 2.
        sums.add(&[10.0, 12.0, 11.0], &[15.0, 13.0], &[13.0, 11.0], 1);
        // Mean scale (7/3 + 3/2) / 2 = 23/12; model (1/2 + 2) / 2 = 5/4; naive (3/2 + 3) / 2 = 9/4.
        let backtest = sums.result();
        assert!((backtest.mase.expect("a scale") - 15.0 / 23.0).abs() < 1e-12, "{backtest:?}");
        assert!((backtest.naive_mase.expect("a scale") - 27.0 / 23.0).abs() < 1e-12, "{backtest:?}");
        assert_eq!((backtest.folds, backtest.horizon), (2, 2));
        assert!(sums.model_is_as_good());
    }

    #[test]
    fn with_a_season_the_scale_and_naive_forecast_use_the_previous_season() {
        let mut sums = Sums::new(3);
        // Seasons of 2: differences |14 - 10| and |3 - 5|, mean 3. Naive 14, 3, 14: errors 2, 1, 4, mean 7/3.
        sums.add(&[10.0, 5.0, 14.0, 3.0], &[16.0, 4.0, 18.0], &[17.0, 4.0, 18.0], 2);
        let backtest = sums.result();
        assert!((backtest.naive_mase.expect("a scale") - 7.0 / 9.0).abs() < 1e-12, "{backtest:?}");
        assert!((backtest.mase.expect("a scale") - 1.0 / 9.0).abs() < 1e-12, "{backtest:?}");
    }

    #[test]
    fn a_constant_history_has_a_mase_only_if_it_stays_constant() {
        let (mut same, mut other) = (Sums::new(1), Sums::new(1));
        same.add(&[4.0, 4.0, 4.0], &[4.0], &[4.0], 1);
        other.add(&[4.0, 4.0, 4.0], &[9.0], &[4.0], 1);
        assert_eq!((same.result().mase, other.result().mase), (Some(0.0), None));
    }
}
