use std::fmt;
use std::ops::Range;

use counter_core::time::Retention;
use counter_core::{CounterName, Error, Precision, Sample, Series, Stats, Timestamp};

use super::backtest::{self, Backtest, Sums};
use super::model::Model;
use super::{band, season};

/// The minimum number of buckets for a forecast.
const MIN_BUCKETS: usize = 20;
/// The maximum number of buckets in the history of a forecast.
const MAX_BUCKETS: usize = 1000;

/// A forecast of the counts in future buckets.
///
/// The history consists of all finished buckets since the first sample, up to the latest 1,000. Empty buckets
/// count as 0. The bucket that contains `now` is not finished yet, so it is the start of the forecast.
///
/// The season is a whole number of days if the precision is finer than a day, or 7 days for days. To use a
/// season, the history must cover it three times. With 120 samples, this is true for hours (24 buckets),
/// 18,000 s (24 buckets, i.e. five days) and days. If the history covers three weeks, e.g. 504 hours, a
/// weekly season will be used instead if it predicts the latest week better than a daily season. The model is
/// STL (Cleveland et al. 1990; Bandara et al. 2021 for MSTL), followed by exponential smoothing (Hyndman &
/// Athanasopoulos, *Forecasting: Principles and Practice*, third edition, chapter 8). If the naive forecast
/// is better in the [`Backtest`] by more than a tenth, it will be used instead.
///
/// ```
/// use counter_alert::forecast::Forecast;
/// use counter_core::{Precision, Sample, Series, Timestamp};
///
/// // 40 in every hour, and 100 at noon, for five days.
/// let hour = Precision::HOUR;
/// let start = |n: u64| Timestamp::from_unix(1_585_872_000 + n * 3600);
/// let count = |n| if n % 24 == 12 { 100 } else { 40 };
/// let samples = (0..120).map(|n| Sample { start: start(n), count: count(n) }).collect();
/// let series = Series::new(hour, start(0)..start(120), samples);
///
/// let forecast = Forecast::new(&series, 24, start(120))?;
/// assert_eq!(forecast.season, Some(24));
/// assert_eq!(forecast.points[11].start, start(131));
/// assert!((forecast.points[11].expected - 40.0).abs() < 0.5);
/// assert!((forecast.points[12].expected - 100.0).abs() < 0.5);
/// assert!(forecast.backtest.mase < Some(0.01));
/// assert!(forecast.unusual.is_empty());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Forecast {
    /// The bucket precision.
    pub precision: Precision,
    /// The number of finished buckets in the history.
    pub history: usize,
    /// The number of buckets in a season. This is `None` without a season, or if the history covers less than
    /// three.
    pub season: Option<usize>,
    /// The method that produced the points.
    pub method: Method,
    /// The future buckets, in ascending order.
    pub points: Vec<Point>,
    /// The share of future counts that should be within the band, per bucket: 0.95. This holds for noise
    /// around a level, a line or a season, but a random walk will leave the band more often.
    pub level: f64,
    /// The accuracy of the same forecast in the past.
    pub backtest: Backtest,
    /// The samples of the history outside the expected band, in ascending order, including counts of 0. This
    /// band is wider than for future buckets, so that ordinary samples will only be outside in 1 of 20
    /// histories.
    pub unusual: Vec<Sample>,
}

/// The method that produced the points of a [`Forecast`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Method {
    /// Seasonal decomposition, if there is a season, and exponential smoothing.
    Smoothing,
    /// Repeats the latest season or bucket. This is used if smoothing is worse in the backtest by more than a
    /// tenth.
    Naive,
}

/// A bucket in a [`Forecast`]. Counts are in hits.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Point {
    /// The start of the bucket.
    pub start: Timestamp,
    /// The expected count, which is never negative.
    pub expected: f64,
    /// The smallest count in the band.
    pub lower: u64,
    /// The largest count in the band.
    pub upper: u64,
}

/// The error when a forecast is not possible.
#[non_exhaustive]
pub enum ForecastError {
    /// The history is too short.
    TooShort {
        /// The number of finished buckets since the first sample.
        available: usize,
        /// The number of finished buckets required.
        required: usize,
    },
    /// The horizon is 0 or too large.
    Horizon {
        /// The number of buckets requested.
        requested: usize,
        /// The maximum number of buckets: half of the history.
        max: usize,
    },
    /// The history can't be read.
    Unread(Error),
}

impl Forecast {
    /// Computes a forecast for the `horizon` buckets that follow a series.
    ///
    /// This only uses buckets that are finished at `now`. A store lags behind by the time of a flush. If the
    /// precision is in seconds, you should pass an earlier `now`, because otherwise the latest bucket might
    /// lack some hits.
    ///
    /// This blocks the thread for up to 1.5 ms with 120 buckets, or 15 ms with the maximum of 1,000 buckets
    /// (in release mode). To run it in slices, use [`read`](Self::read) instead.
    ///
    /// # Errors
    /// Fails if there are less than 20 such buckets since the first sample, or if the horizon is 0 or more
    /// than half of these.
    pub fn new(series: &Series, horizon: usize, now: Timestamp) -> Result<Self, ForecastError> {
        Self::excluding(series, &[], horizon, now)
    }

    /// Computes a forecast like [`new`](Self::new), but excludes these times from training, e.g. holidays and
    /// outages. This also excludes buckets with an unknown count. Excluded buckets are replaced by the median
    /// of the same phase in other seasons, or by the overall median when there is no season. They are never
    /// considered unusual.
    ///
    /// ```
    /// use counter_alert::forecast::Forecast;
    /// use counter_core::{Precision, Sample, Series, Timestamp};
    ///
    /// // Five weeks of days, of which one was a holiday.
    /// let day = Precision::DAY;
    /// let start = |n: u64| Timestamp::from_unix(1_585_872_000 + n * 86_400);
    /// let count = |n| if n == 30 { 3 } else { 100 + n % 7 };
    /// let samples = (0..35).map(|n| Sample { start: start(n), count: count(n) }).collect();
    /// let series = Series::new(day, start(0)..start(35), samples);
    ///
    /// assert_eq!(Forecast::new(&series, 7, start(35))?.unusual.len(), 1);
    /// let forecast = Forecast::excluding(&series, &[start(30)..start(31)], 7, start(35))?;
    /// assert!(forecast.unusual.is_empty());
    /// assert!((forecast.points[2].expected - 102.0).abs() < 0.5);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// See [`new`](Self::new). Excluded buckets do not count.
    pub fn excluding(
        series: &Series,
        excluded: &[Range<Timestamp>],
        horizon: usize,
        now: Timestamp,
    ) -> Result<Self, ForecastError> {
        let mut work = Work::new(series, excluded, horizon, now)?;
        while work.test_once() {}
        Ok(work.finish())
    }

    /// Reads the history of a counter, and computes a forecast for the next `horizon` buckets.
    ///
    /// The bucket that contains `now` is part of the forecast, and its current count is ignored. A store lags
    /// behind by the time of a flush. If the precision is in seconds, you should pass an earlier `now`,
    /// because otherwise the latest bucket might lack some hits.
    ///
    /// This reads from the store in a single call, then computes in up to 11 slices, and yields to other
    /// tasks between slices. A slice takes up to 0.2 ms with 120 samples, and less than 2 ms with 1,000 (in
    /// release mode).
    ///
    /// # Errors
    /// Fails if the counters do not keep this precision, or if the store can't be read. See also
    /// [`new`](Self::new).
    ///
    /// # Cancel safety
    /// This only reads, so you can safely drop it at any time.
    pub async fn read(
        stats: &Stats,
        counter: &CounterName,
        precision: Precision,
        horizon: usize,
        now: Timestamp,
    ) -> Result<Self, ForecastError> {
        let end = precision.bucket(now).start;
        let earliest = end.minus(u64::from(precision.as_seconds()) * MAX_BUCKETS as u64);
        let retained = stats.grid().counts.of_width(precision.as_seconds());
        let oldest = retained.map_or(earliest, |retention| Retention { precision, ..retention }.oldest(now));
        // The range must not be empty, even if only the current bucket is kept, which is dropped below.
        let range = oldest.max(earliest)..end.plus(1);
        let series = stats.series(counter, precision, range).await?;
        // We can't use a history with unknown counts.
        series.total().map_err(Error::from)?;
        let mut work = Work::new(&series, &[], horizon, now)?;
        while work.test_once() {
            tokio::task::yield_now().await;
        }
        Ok(work.finish())
    }
}

/// A forecast in progress, split into slices of one model each.
struct Work {
    precision: Precision,
    /// The samples of finished buckets with a known count.
    samples: Vec<Sample>,
    /// The values of all buckets from the first sample to the latest finished bucket.
    values: Vec<f64>,
    last: Timestamp,
    horizon: usize,
    season: Option<usize>,
    /// The origins of the backtest that are not tested yet, as an index of `values`.
    origins: std::vec::IntoIter<usize>,
    sums: Sums,
    test_horizon: usize,
}

impl Work {
    fn new(
        series: &Series,
        excluded: &[Range<Timestamp>],
        horizon: usize,
        now: Timestamp,
    ) -> Result<Self, ForecastError> {
        let width = u64::from(series.precision.as_seconds());
        let is_excluded = |sample: &Sample| {
            let end = sample.start.plus(width);
            excluded.iter().any(|times| times.start < end && sample.start < times.end)
        };
        let mut samples = finished(series, now);
        samples.retain(|sample| !is_excluded(sample));
        let available = samples.len();
        if available < MIN_BUCKETS {
            return Err(ForecastError::TooShort { available, required: MIN_BUCKETS });
        }
        let max = available / 2;
        if horizon == 0 || horizon > max {
            return Err(ForecastError::Horizon { requested: horizon, max });
        }
        let last = last_finished(series, now);
        let values = filled(&samples, last, width, season::of(series.precision, available));
        let season = season::of_values(series.precision, &values);
        let available = values.len();
        let least =
            season.map_or(MIN_BUCKETS / 2, |period| (season::MIN_CYCLES - 1) * period).max(MIN_BUCKETS / 2);
        let (test_horizon, origins) = backtest::origins(available, least, horizon);
        Ok(Self {
            precision: series.precision,
            values,
            last,
            samples,
            horizon,
            season,
            origins: origins.into_iter(),
            sums: Sums::new(test_horizon),
            test_horizon,
        })
    }

    /// Tests the forecast from the next origin. Returns `false` if there is nothing left to test.
    fn test_once(&mut self) -> bool {
        let Some(origin) = self.origins.next() else { return false };
        let (before, after) = self.values.split_at(origin);
        let forecast: Vec<_> = Model::of(before, self.season).expected(self.test_horizon).collect();
        self.sums.add(before, &after[..self.test_horizon], &forecast, self.season.unwrap_or(1));
        true
    }

    fn finish(self) -> Forecast {
        let model = Model::of(&self.values, self.season);
        let method = if self.sums.model_is_as_good() { Method::Smoothing } else { Method::Naive };
        let expected: Vec<_> = match method {
            Method::Smoothing => model.points(self.horizon).collect(),
            Method::Naive => model.naive_points(&self.values, self.horizon).collect(),
        };
        let width = u64::from(self.precision.as_seconds());
        let starts = (1..).map(|step| self.last.plus(width * step));
        let points = starts
            .zip(expected)
            .map(|(start, (expected, band))| Point {
                start,
                expected,
                lower: *band.start(),
                upper: *band.end(),
            })
            .collect();
        let bands: Vec<_> = model.history().collect();
        let first_start = self.samples.first().map_or(Timestamp::MIN, |sample| sample.start);
        let band = |sample: &Sample| bands.get(buckets(first_start, sample.start, width));
        let is_unusual = |sample: &&Sample| band(sample).is_some_and(|band| !band.contains(&sample.count));
        let unusual = self.samples.iter().filter(is_unusual).copied();
        Forecast {
            precision: self.precision,
            history: self.values.len(),
            season: self.season,
            method,
            points,
            level: band::LEVEL,
            backtest: self.sums.result(),
            unusual: unusual.collect(),
        }
    }
}

/// Returns the start of the latest bucket that is finished at `now`.
fn last_finished(series: &Series, now: Timestamp) -> Timestamp {
    let end = series.range.end.min(series.precision.bucket(now).start);
    series.precision.bucket(end.minus(1)).start
}

/// Returns the latest buckets that are finished at `now`, beginning with the first sample. Buckets with an
/// unknown count are left out.
fn finished(series: &Series, now: Timestamp) -> Vec<Sample> {
    let width = u64::from(series.precision.as_seconds());
    let end = series.range.end.min(series.precision.bucket(now).start);
    let first = series.samples.iter().find(|sample| sample.count > 0).map_or(end, |sample| sample.start);
    let last = last_finished(series, now);
    let start = first.max(series.range.start).max(last.minus(width * (MAX_BUCKETS as u64 - 1)));
    let mut latest = series.clone();
    latest.samples.retain(|sample| sample.start >= start);
    latest.range = start..end;
    latest.zero_filled().collect()
}

/// Returns the number of buckets between two starts.
fn buckets(from: Timestamp, to: Timestamp, width: u64) -> usize {
    usize::try_from(to.as_unix().saturating_sub(from.as_unix()) / width).unwrap_or(usize::MAX)
}

/// Returns the values of all buckets from the first sample to the last bucket. Gaps are filled with typical
/// values.
fn filled(samples: &[Sample], last: Timestamp, width: u64, season: Option<usize>) -> Vec<f64> {
    let Some(first) = samples.first() else { return Vec::new() };
    let mut values = vec![None; buckets(first.start, last, width) + 1];
    for sample in samples {
        if let Some(value) = values.get_mut(buckets(first.start, sample.start, width)) {
            *value = Some(sample.count as f64);
        }
    }
    let typical = |at: usize, period: usize| {
        let mut same: Vec<f64> = values.iter().skip(at % period).step_by(period).copied().flatten().collect();
        let middle = same.len() / 2;
        (!same.is_empty()).then(|| *same.select_nth_unstable_by(middle, f64::total_cmp).1)
    };
    let fill = |(at, value): (usize, &Option<f64>)| {
        value.or_else(|| typical(at, season?)).or_else(|| typical(at, 1)).unwrap_or(0.0)
    };
    values.iter().enumerate().map(fill).collect()
}

impl fmt::Display for ForecastError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooShort { available, required } => {
                write!(f, "a forecast needs {required} finished buckets, but there are only {available}")
            }
            Self::Horizon { requested, max } => {
                write!(f, "a forecast may have 1 to {max} buckets (half of the history), not {requested}")
            }
            Self::Unread(_) => f.write_str("the history cannot be read"),
        }
    }
}

impl std::error::Error for ForecastError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Unread(error) => Some(error),
            Self::TooShort { .. } | Self::Horizon { .. } => None,
        }
    }
}

counter_core::internal::debug_in_full!(ForecastError);

impl From<Error> for ForecastError {
    fn from(error: Error) -> Self {
        Self::Unread(error)
    }
}

#[cfg(test)]
mod reading {
    use std::num::NonZeroU32;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use counter_core::{Counters, MemoryStore};

    use super::*;

    #[tokio::test]
    async fn read_uses_the_retained_history_and_yields_between_slices() {
        let minute = Precision::MINUTE;
        // We need to retry if a minute ends in the meantime, because the oldest bucket would leave retention
        // before it is flushed.
        let (counters, now) = loop {
            let mut counters = Counters::builder(MemoryStore::new()).build().expect("a recorder");
            let recorder = counters.recorder();
            let (hits, now) = (recorder.counter("hits"), Timestamp::now());
            for ago in 0..200 {
                recorder.record_at(hits, None, now.minus(60 * ago), NonZeroU32::MIN);
                counters.flush().await.expect("a memory");
            }
            if minute.bucket(Timestamp::now()) == minute.bucket(now) {
                break (counters, now);
            }
        };
        let (stats, name) = (counters.stats(), "hits".parse().expect("a name"));
        let mut polls = 0;
        let forecast = {
            let mut task = pin!(Forecast::read(&stats, &name, minute, 10, now));
            loop {
                polls += 1;
                if let Poll::Ready(forecast) = task.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                    break forecast.expect("a history");
                }
            }
        };
        assert_eq!((forecast.history, forecast.points[9].upper), (119, 1));
        assert_eq!(forecast.points[0].start, minute.bucket(now).start);
        assert_eq!(polls, forecast.backtest.folds + 1);

        let unknown = "nobody".parse().expect("a name");
        let error = Forecast::read(&stats, &unknown, minute, 10, now).await.expect_err("no history");
        assert!(matches!(error, ForecastError::TooShort { available: 0, .. }), "{error}");
        let unretained = Precision::try_from(61).expect("a width");
        let error = Forecast::read(&stats, &name, unretained, 10, now).await.expect_err("not kept");
        assert!(matches!(error, ForecastError::Unread(_)), "{error}");
    }
}
