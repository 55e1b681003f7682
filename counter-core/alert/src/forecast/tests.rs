use counter_core::{Precision, Sample, Series, Timestamp};
use proptest::prelude::*;

use super::*;

/// 2020-04-03T00:00:00Z, a multiple of all default widths except 18,000.
const ORIGIN: u64 = 1_585_872_000;
const HOUR: u32 = 3600;
const DAY: u32 = 86_400;

fn series(width: u32, counts: impl IntoIterator<Item = u64>) -> (Series, Timestamp) {
    let precision = Precision::try_from(width).expect("a width");
    let origin = Timestamp::from_unix(ORIGIN.next_multiple_of(width.into()));
    let samples: Vec<_> = (0..)
        .zip(counts)
        .map(|(n, count)| Sample { start: origin.plus(n * u64::from(width)), count })
        .collect();
    let end = origin.plus(samples.len() as u64 * u64::from(width));
    let samples = samples.into_iter().filter(|sample| sample.count > 0).collect();
    (Series::new(precision, origin..end, samples), end)
}

#[track_caller]
fn forecast(width: u32, horizon: usize, counts: impl IntoIterator<Item = u64>) -> Forecast {
    let (series, end) = series(width, counts);
    Forecast::new(&series, horizon, end).expect("a history")
}

fn unusual(forecast: &Forecast, origin: u64) -> Vec<u64> {
    let width = u64::from(forecast.precision.as_seconds());
    forecast.unusual.iter().map(|sample| (sample.start.as_unix() - origin) / width).collect()
}

/// A day of hours, or any other season: from 20 to 180, with a mean of 100.
#[expect(clippy::cast_possible_truncation, reason = "a number from 20 to 180")]
fn wave(n: u64, period: u64) -> u64 {
    (100.0 + 80.0 * (std::f64::consts::TAU * n as f64 / period as f64).sin()).round() as u64
}

/// A random number generator: SplitMix64.
struct Random(u64);

impl Random {
    fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((bits ^ (bits >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Returns a Poisson distributed count, i.e. the number of exponential waits that fit into `mean`.
    fn poisson(&mut self, mean: u64) -> u64 {
        let mut left = mean as f64;
        (0..).take_while(|_| (left += self.unit().max(1e-300).ln(), left > 0.0).1).count() as u64
    }
}

#[test]
fn a_constant_series_has_a_band_of_zero_width() {
    let forecast = forecast(60, 30, [42; 100]);
    assert!(forecast.points.iter().all(|p| (p.expected, p.lower, p.upper) == (42.0, 42, 42)));
    assert_eq!((forecast.backtest.mase, forecast.backtest.naive_mase), (Some(0.0), Some(0.0)));
    assert_eq!((forecast.method, forecast.season, forecast.history), (Method::Smoothing, None, 100));
    assert!(forecast.unusual.is_empty());
}

#[test]
fn excluded_times_are_not_learned_and_the_forecast_still_starts_now() {
    let (series, end) = series(HOUR, (0..240).map(|n| if n >= 228 { 0 } else { wave(n, 24) }));
    let holiday = end.minus(12 * u64::from(HOUR))..end;
    let forecast = Forecast::excluding(&series, std::slice::from_ref(&holiday), 24, end).expect("a history");
    assert_eq!((forecast.points[0].start, forecast.history), (end, 240));
    for (n, point) in (240..).zip(&forecast.points) {
        assert!((point.expected - wave(n, 24) as f64).abs() < 2.0, "{n}: {point:?}");
    }
    assert!(forecast.unusual.is_empty(), "{:?}", forecast.unusual);
    // If this is not excluded, the night is unusual.
    assert!(!Forecast::new(&series, 24, end).expect("a history").unusual.is_empty());
    let all = series.range.clone();
    assert!(matches!(
        Forecast::excluding(&series, &[all], 24, end),
        Err(ForecastError::TooShort { available: 0, .. })
    ));
}

#[test]
fn weekends_are_predicted_if_the_history_covers_weeks() {
    let count = |n: u64| if n / 24 % 7 < 5 { wave(n, 24) } else { 30 };
    let forecast = forecast(HOUR, 168, (0..840).map(count));
    assert_eq!(forecast.season, Some(168));
    for (n, point) in (840..).zip(&forecast.points) {
        assert!((point.expected - count(n) as f64).abs() < 5.0, "{n}: {point:?}");
    }
}

#[test]
fn a_line_is_extrapolated() {
    let forecast = forecast(60, 12, (0..119).map(|n| 20 + 3 * n));
    for (n, point) in (119..).zip(&forecast.points) {
        assert!((point.expected - f64::from(20 + 3 * n)).abs() < 1e-3, "{point:?}");
        assert_eq!((point.lower, point.upper), (20 + 3 * n as u64, 20 + 3 * n as u64));
    }
    assert!(forecast.unusual.is_empty(), "{:?}", forecast.unusual);
}

#[test]
fn a_pure_season_is_repeated() {
    for (width, period) in [(HOUR, 24), (18_000, 24), (DAY, 7)] {
        let forecast = forecast(width, 48, (0..119).map(|n| wave(n, period)));
        assert_eq!(forecast.season.map(|season| season as u64), Some(period));
        for (n, point) in (119..).zip(&forecast.points) {
            assert!((point.expected - wave(n, period) as f64).abs() < 1.0, "{width}: {point:?}");
        }
        assert!(forecast.backtest.mase <= Some(0.05), "{width}: {:?}", forecast.backtest);
        assert!(forecast.unusual.is_empty(), "{width}: {:?}", forecast.unusual);
    }
}

#[test]
fn the_season_continues_at_a_new_level() {
    let count = |n| wave(n, 24) + if n < 70 { 0 } else { 150 };
    let forecast = forecast(HOUR, 24, (0..119).map(count));
    for (n, point) in (119..).zip(&forecast.points) {
        assert!((point.expected - count(n) as f64).abs() < 25.0, "{} {point:?}", count(n));
        assert!((point.lower..=point.upper).contains(&count(n)), "{} {point:?}", count(n));
    }
    assert_eq!(unusual(&forecast, ORIGIN).first(), Some(&70));
}

#[test]
fn sparse_counts_are_not_negative_and_a_single_hit_is_not_unusual() {
    let mut random = Random(1);
    let counts: Vec<_> = (0..119).map(|n| u64::from(n == 0 || random.unit() < 0.1)).collect();
    let forecast = forecast(60, 59, counts);
    for point in &forecast.points {
        assert!((0.0..0.5).contains(&point.expected), "{point:?}");
        assert_eq!((point.lower, point.upper), (0, 1));
    }
    assert!(forecast.unusual.is_empty(), "{:?}", forecast.unusual);
}

#[test]
fn only_the_spike_is_unusual_and_the_forecast_ignores_it() {
    for (width, period) in [(60, None), (HOUR, Some(24)), (DAY, Some(7))] {
        let mean = |n| period.map_or(100, |period| wave(n, period));
        let spiked = forecast(width, 14, (0..119).map(|n| if n == 50 { 3000 } else { mean(n) }));
        assert_eq!(unusual(&spiked, ORIGIN), [50], "{width}");
        for (n, point) in (119..).zip(&spiked.points) {
            assert!((point.expected - mean(n) as f64).abs() < 2.0, "{width} {point:?}");
        }
    }
}

#[test]
fn a_spike_in_noise_is_unusual_with_few_false_alarms() {
    let mut random = Random(2);
    let mut others = 0;
    for _ in 0..10 {
        for (width, period) in [(60, None), (HOUR, Some(24)), (DAY, Some(7))] {
            let mean = |n| period.map_or(100, |period| wave(n, period));
            let counts = (0..119).map(|n| if n == 50 { 3000 } else { random.poisson(mean(n)) });
            let forecast = forecast(width, 14, counts);
            let unusual = unusual(&forecast, ORIGIN);
            assert!(unusual.contains(&50), "{width}");
            others += unusual.len() - 1;
            assert!(
                forecast.points.iter().all(|point| point.upper - point.lower < 150),
                "{width} {forecast:?}"
            );
        }
    }
    assert!(others <= 6, "{others} of 30 × 118");
}

#[test]
fn the_band_has_the_stated_coverage() {
    for (width, period, history, horizon) in
        [(60, None, 119, 12), (60, None, 24, 6), (HOUR, Some(24), 119, 24), (DAY, Some(7), 119, 14)]
    {
        let mut random = Random(7);
        let (mut inside, mut all) = (0_u32, 0_u32);
        for _ in 0..60 {
            let counts: Vec<_> = (0..)
                .take(history + horizon)
                .map(|n| random.poisson(period.map_or(30, |period| wave(n, period))))
                .collect();
            let (past, future) = counts.split_at(history);
            let forecast = forecast(width, horizon, past.iter().copied());
            for (point, actual) in forecast.points.iter().zip(future) {
                inside += u32::from((point.lower..=point.upper).contains(actual));
                all += 1;
            }
        }
        let covered = f64::from(inside) / f64::from(all);
        assert!((0.92..=0.985).contains(&covered), "{width} {history}: {covered}");
    }
}

#[test]
fn ordinary_noise_is_rarely_unusual() {
    let mut random = Random(3);
    let false_alarms: usize =
        (0..60).map(|_| forecast(60, 1, (0..119).map(|_| random.poisson(20))).unusual.len()).sum();
    assert!(false_alarms <= 8, "{false_alarms} of 60 × 119");
}

#[test]
fn the_backtest_matches_a_manual_computation() {
    // 10 and 14 alternate, so smoothing uses the mean. The origins follow 10, 11, … 19 of 20 buckets. If this
    // number n is even, the mean is 12, and the actual value is 10: an error of 2. If it is odd, the mean is
    // 12 − 2 / n, and the actual value is 14: an error of 2 + 2 / n. The error of the naive forecast is
    // always 4, and so is the difference between any two neighbors.
    let forecast = forecast(60, 1, [10, 14].into_iter().cycle().take(20));
    let odd: f64 = [11.0, 13.0, 15.0, 17.0, 19.0].into_iter().map(|n: f64| 2.0 + 2.0 / n).sum();
    let mase = (5.0 * 2.0 + odd) / 10.0 / 4.0;
    assert!((mase - 0.517_298).abs() < 1e-6);
    assert!((forecast.backtest.mase.expect("a scale") - mase).abs() < 1e-9, "{:?}", forecast.backtest);
    assert_eq!(forecast.backtest.naive_mase, Some(1.0));
    assert_eq!((forecast.backtest.folds, forecast.backtest.horizon), (10, 1));
    assert!((forecast.points[0].expected - 12.0).abs() < 1e-9);
}

#[test]
fn the_naive_error_on_a_line_grows_by_a_step_per_bucket() {
    // The errors over three buckets are 10, 20 and 30, i.e. 20 on average, and neighbors differ by 10.
    let backtest = forecast(60, 3, (1..=20).map(|n| 10 * n)).backtest;
    assert_eq!((backtest.folds, backtest.horizon, backtest.naive_mase), (8, 3, Some(2.0)));
    assert!(backtest.mase.expect("a scale") < 1e-6, "{backtest:?}");
}

#[test]
fn the_naive_forecast_is_used_if_it_was_better() {
    // The rhythm changed two days ago, so the latest day is a better guess than all five.
    let count = |n| if n < 71 { wave(n, 24) } else { wave(n + 12, 24) };
    let forecast = forecast(HOUR, 6, (0..119).map(count));
    assert!(forecast.backtest.mase > forecast.backtest.naive_mase, "{:?}", forecast.backtest);
    assert_eq!(forecast.method, Method::Naive);
    for (n, point) in (119..).zip(&forecast.points) {
        assert_eq!(point.expected, count(n) as f64);
        assert!((point.lower..=point.upper).contains(&count(n)), "{point:?}");
    }
}

#[test]
fn a_short_history_or_an_invalid_horizon_is_an_error() {
    let requested = |buckets: usize, horizon| {
        let (series, end) = series(60, (0..buckets).map(|_| 3));
        Forecast::new(&series, horizon, end).map(|forecast| forecast.points.len()).map_err(|e| e.to_string())
    };
    let short =
        |available| Err(format!("a forecast needs 20 finished buckets, but there are only {available}"));
    let horizon = |requested, max| {
        Err(format!("a forecast may have 1 to {max} buckets (half of the history), not {requested}"))
    };
    assert_eq!(requested(0, 1), short(0));
    assert_eq!(requested(19, 1), short(19));
    assert_eq!(requested(20, 0), horizon(0, 10));
    assert_eq!(requested(20, 11), horizon(11, 10));
    assert_eq!(requested(20, 10), Ok(10));
    assert_eq!(requested(5000, 501), horizon(501, 500));
}

#[test]
fn the_history_consists_of_finished_buckets_since_the_first_sample() {
    let counts = (0..61).map(|n| if n < 20 { 0 } else { 50 - 49 * u64::from(n == 60) });
    let (series, end) = series(60, counts);
    for now in [end.minus(60), end.minus(1)] {
        let forecast = Forecast::new(&series, 5, now).expect("a history");
        assert_eq!((forecast.history, forecast.points[0].start), (40, end.minus(60)));
        assert_eq!((forecast.points[0].lower, forecast.points[0].upper), (50, 50));
    }
    assert_eq!(Forecast::new(&series, 5, end).expect("a history").history, 41);
    assert!(matches!(
        Forecast::new(&series, 5, end.minus(60 * 22)),
        Err(ForecastError::TooShort { available: 19, required: 20 })
    ));
}

#[test]
fn future_days_start_at_local_midnight() {
    let (mut series, end) = series(DAY, (0..40).map(|day| 10 + day % 7));
    let earlier = |at: Timestamp| at.minus(19_800);
    series.precision = series.precision.utc_offset(19_800);
    series.range = earlier(series.range.start)..earlier(series.range.end);
    for sample in &mut series.samples {
        sample.start = earlier(sample.start);
    }
    for now in [earlier(end), end, earlier(end).plus(86_399)] {
        let forecast = Forecast::new(&series, 14, now).expect("a history");
        assert_eq!((forecast.history, forecast.season), (40, Some(7)));
        assert_eq!(forecast.points[1].start, earlier(end).plus(86_400));
        let tops = forecast.points.iter().filter(|point| point.expected > 15.5);
        assert!(tops.map(|point| (point.start.as_unix() - ORIGIN + 19_800) / 86_400 % 7).eq([6, 6]));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn any_counts_give_a_forecast_in_bounds_or_an_error(
        width in prop::sample::select(vec![1, 60, 300, HOUR, 18_000, 43_200, DAY, 604_800, u32::MAX]),
        counts in prop_oneof![
            prop::collection::vec(0..3_u64, 0..130),
            prop::collection::vec(0..1000_u64, 0..130),
            prop::collection::vec(any::<u64>(), 0..130),
            prop::collection::vec(prop::sample::select(vec![0, 0, 0, 1, u64::MAX]), 0..130),
        ],
        horizon in 0_usize..70,
        late in 0_u64..10_000,
    ) {
        let (series, end) = series(width, counts);
        if let Ok(forecast) = Forecast::new(&series, horizon, end.minus(late)) {
            prop_assert_eq!(forecast.points.len(), horizon);
            for point in &forecast.points {
                prop_assert!(point.expected.is_finite() && point.expected >= 0.0, "{:?}", point);
                prop_assert!(point.lower <= point.upper, "{:?}", point);
                prop_assert!(point.lower as f64 <= point.expected * 1.000_001 + 1.0, "{:?}", point);
                prop_assert!(point.upper as f64 >= (point.expected - 1.0) * 0.999_999, "{:?}", point);
            }
            for figure in [forecast.backtest.mase, forecast.backtest.naive_mase].into_iter().flatten() {
                prop_assert!(figure.is_finite() && figure >= 0.0);
            }
            prop_assert!(forecast.unusual.is_sorted());
        }
    }
}
