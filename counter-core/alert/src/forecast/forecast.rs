use std::fmt;
use std::ops::Range;

use counter_core::time::Retention;
use counter_core::{CounterName, Error, Precision, Sample, Series, Stats, Timestamp};

use super::backtest::{self, Backtest, Sums};
use super::model::Model;
use super::{band, season};

/// The number of buckets that a forecast needs.
const SHORTEST: usize = 20;
/// The number of buckets that are looked at, the latest ones.
const LONGEST: usize = 1000;

/// A forecast of the counts in the buckets to come.
///
/// The history consists of the finished buckets from the first sample on, at most the latest 1,000, with 0
/// where nothing was counted; the bucket that `now` lies in is not finished, and is the first of the
/// forecast.
///
/// The season is a whole number of days for precisions finer than a day, and 7 days for days. It is used when
/// the history holds three of them: with 120 samples, for hours (24 buckets), 18,000 s (24 buckets, five
/// days) and days. Where it holds three weeks, such as 504 hours, the season is a week with its days, if a week
/// says more of the last one than a day does. The model is STL (Cleveland et al. 1990; Bandara et al. 2021 for MSTL), then exponential
/// smoothing (Hyndman & Athanasopoulos, *Forecasting: Principles and Practice*, third edition, chapter 8).
/// Where the naive forecast was closer in the [`Backtest`], by more than a tenth, it is used instead.
///
/// ```
/// use counter_alert::forecast::Forecast;
/// use counter_core::{Precision, Sample, Series, Timestamp};
///
/// // 40 in every hour, and 100 at noon, for five days.
/// let hour = Precision::try_from(3600)?;
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
    /// The width of the buckets.
    pub precision: Precision,
    /// The number of finished buckets that the forecast was made from.
    pub history: usize,
    /// The number of buckets in a season; `None` without one, or if the history holds fewer than three.
    pub season: Option<usize>,
    /// The method that produced the points.
    pub method: Method,
    /// The buckets to come, ascending.
    pub points: Vec<Point>,
    /// The share of future counts that the bands are to cover, each bucket by itself: 0.95. They do so for
    /// noise around a level, a line or a season; a level that wanders at random leaves them more often.
    pub level: f64,
    /// The accuracy of the same forecast at earlier times.
    pub backtest: Backtest,
    /// The samples of the history outside the band that was expected of them, ascending; counts of 0 are
    /// samples here. This band is wider, so that ordinary samples are outside of it in one of twenty
    /// histories.
    pub unusual: Vec<Sample>,
}

/// The method that produced the points of a [`Forecast`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Method {
    /// The season, if there is one, and exponential smoothing.
    Smoothing,
    /// The last season again and again, or the last bucket: smoothing was further off in the backtest, by
    /// more than a tenth.
    Naive,
}

/// One bucket of a [`Forecast`]; counts are in hits.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Point {
    /// The bucket's first second.
    pub start: Timestamp,
    /// The expected count, never negative.
    pub expected: f64,
    /// The smallest count in the band.
    pub lower: u64,
    /// The largest count in the band.
    pub upper: u64,
}

/// Reasons for there to be no forecast.
#[non_exhaustive]
pub enum ForecastError {
    /// The history is too short.
    TooShort {
        /// Number of finished buckets, from the first sample on.
        has: usize,
        /// Number of finished buckets that a forecast needs.
        needs: usize,
    },
    /// The forecast is over no buckets, or over too many.
    Horizon {
        /// Number of buckets asked for.
        asked: usize,
        /// Largest number of buckets allowed: half of the history.
        most: usize,
    },
    /// The history could not be read.
    Unread(Error),
}

impl Forecast {
    /// Returns a forecast of the `horizon` buckets after a series.
    ///
    /// Only buckets that are finished at `now` are used. A store lags behind by one flush: for precisions of
    /// seconds, `now` should be that much earlier, or the last bucket lacks some hits.
    ///
    /// This computes without waiting, for up to 1.5 ms with 120 buckets and 15 ms with 1,000 (in release),
    /// which is the most that it uses; [`read`](Self::read) does it in slices.
    ///
    /// # Errors
    /// Fails when there are fewer than 20 such buckets from the first sample on, or when the horizon is 0 or
    /// more than half of them.
    pub fn new(series: &Series, horizon: usize, now: Timestamp) -> Result<Self, ForecastError> {
        Self::without(series, &[], horizon, now)
    }

    /// Returns a forecast as [`new`](Self::new) does, which learns nothing from these times, such as
    /// holidays and outages, nor from buckets whose count could not be read. What is usual stands for these
    /// buckets: the median of those that are a number of seasons away, or of all of them without a season. They
    /// are never unusual.
    ///
    /// ```
    /// use counter_alert::forecast::Forecast;
    /// use counter_core::{Precision, Sample, Series, Timestamp};
    ///
    /// // Five weeks of days, of which one was a holiday.
    /// let day = Precision::try_from(86_400)?;
    /// let start = |n: u64| Timestamp::from_unix(1_585_872_000 + n * 86_400);
    /// let count = |n| if n == 30 { 3 } else { 100 + n % 7 };
    /// let samples = (0..35).map(|n| Sample { start: start(n), count: count(n) }).collect();
    /// let series = Series::new(day, start(0)..start(35), samples);
    ///
    /// assert_eq!(Forecast::new(&series, 7, start(35))?.unusual.len(), 1);
    /// let forecast = Forecast::without(&series, &[start(30)..start(31)], 7, start(35))?;
    /// assert!(forecast.unusual.is_empty());
    /// assert!((forecast.points[2].expected - 102.0).abs() < 0.5);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`new`](Self::new), of the buckets that are left.
    pub fn without(
        series: &Series,
        left_out: &[Range<Timestamp>],
        horizon: usize,
        now: Timestamp,
    ) -> Result<Self, ForecastError> {
        let mut work = Work::new(series, left_out, horizon, now)?;
        while work.test_once() {}
        Ok(work.finish())
    }

    /// Returns a forecast of the next `horizon` buckets of a counter, from everything that is kept of it.
    ///
    /// The bucket of `now` is the first of them: what it has counted already is not used. A store lags behind
    /// by one flush: for precisions of seconds, `now` should be that much earlier, or the last bucket lacks
    /// some hits.
    ///
    /// It reads once and then computes in at most 11 slices, and other tasks run after each: the longest
    /// takes 0.2 ms with 120 samples and less than 2 ms with 1,000 (in release).
    ///
    /// # Errors
    /// Fails when the precision is not kept or the store cannot be read, and as [`new`](Self::new) does.
    ///
    /// # Cancel safety
    /// It only reads, so it can be dropped at any time.
    pub async fn read(
        stats: &Stats,
        counter: &CounterName,
        precision: Precision,
        horizon: usize,
        now: Timestamp,
    ) -> Result<Self, ForecastError> {
        let end = precision.bucket(now).start;
        let longest = end.minus(u64::from(precision.as_seconds()) * LONGEST as u64);
        let kept = stats.grid().counts.of_width(precision.as_seconds());
        let oldest = kept.map_or(longest, |kept| Retention { precision, ..kept }.oldest(now));
        // Not empty even where only the current bucket is kept: that one is left out below.
        let range = oldest.max(longest)..end.plus(1);
        let series = stats.series(counter, precision, range).await?;
        // A history with a bucket of unknown count will not do.
        series.known_total().map_err(Error::from)?;
        let mut work = Work::new(&series, &[], horizon, now)?;
        while work.test_once() {
            tokio::task::yield_now().await;
        }
        Ok(work.finish())
    }
}

/// A forecast that is being made, in slices of one model each.
struct Work {
    precision: Precision,
    /// The samples that are known, and what it learns from: all buckets from the first of them to the last that is
    /// finished.
    samples: Vec<Sample>,
    values: Vec<f64>,
    last: Timestamp,
    horizon: usize,
    season: Option<usize>,
    /// The origins that are still to be tested.
    origins: std::vec::IntoIter<usize>,
    sums: Sums,
    test_horizon: usize,
}

impl Work {
    fn new(
        series: &Series,
        left_out: &[Range<Timestamp>],
        horizon: usize,
        now: Timestamp,
    ) -> Result<Self, ForecastError> {
        let width = u64::from(series.precision.as_seconds());
        let is_left_out = |sample: &Sample| {
            let end = sample.start.plus(width);
            left_out.iter().any(|times| times.start < end && sample.start < times.end)
        };
        let mut samples = finished(series, now);
        samples.retain(|sample| !is_left_out(sample));
        let has = samples.len();
        if has < SHORTEST {
            return Err(ForecastError::TooShort { has, needs: SHORTEST });
        }
        let most = has / 2;
        if horizon == 0 || horizon > most {
            return Err(ForecastError::Horizon { asked: horizon, most });
        }
        let last = last_finished(series, now);
        let values = filled(&samples, last, width, season::of(series.precision, has));
        let season = season::of_values(series.precision, &values);
        let has = values.len();
        let least = season.map_or(SHORTEST / 2, |period| (season::CYCLES - 1) * period).max(SHORTEST / 2);
        let (test_horizon, origins) = backtest::origins(has, least, horizon);
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

    /// Makes the forecast of one origin and compares it with what came; returns false when none is left.
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
        let begin = self.samples.first().map_or(Timestamp::MIN, |sample| sample.start);
        let band = |sample: &Sample| bands.get(buckets(begin, sample.start, width));
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

/// Returns the start of the last bucket that is finished at `now`.
fn last_finished(series: &Series, now: Timestamp) -> Timestamp {
    let end = series.range.end.min(series.precision.bucket(now).start);
    series.precision.bucket(end.minus(1)).start
}

/// Returns the latest buckets that are finished at `now`, from the first sample on; without those whose
/// count could not be read.
fn finished(series: &Series, now: Timestamp) -> Vec<Sample> {
    let width = u64::from(series.precision.as_seconds());
    let end = series.range.end.min(series.precision.bucket(now).start);
    let first = series.samples.iter().find(|sample| sample.count > 0).map_or(end, |sample| sample.start);
    let last = last_finished(series, now);
    let start = first.max(series.range.start).max(last.minus(width * (LONGEST as u64 - 1)));
    let mut latest = series.clone();
    latest.samples.retain(|sample| sample.start >= start);
    latest.range = start..end;
    latest.zero_filled().collect()
}

/// The number of buckets between two starts.
fn buckets(from: Timestamp, to: Timestamp, width: u64) -> usize {
    usize::try_from(to.as_unix().saturating_sub(from.as_unix()) / width).unwrap_or(usize::MAX)
}

/// Returns the values of all buckets from the first sample to the last bucket, with what is usual where there is none.
fn filled(samples: &[Sample], last: Timestamp, width: u64, season: Option<usize>) -> Vec<f64> {
    let Some(first) = samples.first() else { return Vec::new() };
    let mut values = vec![None; buckets(first.start, last, width) + 1];
    for sample in samples {
        if let Some(value) = values.get_mut(buckets(first.start, sample.start, width)) {
            *value = Some(sample.count as f64);
        }
    }
    let usual = |at: usize, period: usize| {
        let mut same: Vec<f64> = values.iter().skip(at % period).step_by(period).copied().flatten().collect();
        let middle = same.len() / 2;
        (!same.is_empty()).then(|| *same.select_nth_unstable_by(middle, f64::total_cmp).1)
    };
    let fill = |(at, value): (usize, &Option<f64>)| {
        value.or_else(|| usual(at, season?)).or_else(|| usual(at, 1)).unwrap_or(0.0)
    };
    values.iter().enumerate().map(fill).collect()
}

impl fmt::Display for ForecastError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooShort { has, needs } => {
                write!(f, "a forecast needs {needs} finished buckets, and there are {has}")
            }
            Self::Horizon { asked, most } => {
                write!(f, "a forecast may have 1 to {most} buckets (half of the history), not {asked}")
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
    async fn stats_forecast_what_is_kept_and_let_others_run_between_slices() {
        let minute = Precision::try_from(60).expect("a width");
        // Again, should a minute end meanwhile: the oldest would have left retention before it was flushed.
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

        let nobody = "nobody".parse().expect("a name");
        let error = Forecast::read(&stats, &nobody, minute, 10, now).await.expect_err("no history");
        assert!(matches!(error, ForecastError::TooShort { has: 0, .. }), "{error}");
        let strange = Precision::try_from(61).expect("a width");
        let error = Forecast::read(&stats, &name, strange, 10, now).await.expect_err("not kept");
        assert!(matches!(error, ForecastError::Unread(_)), "{error}");
    }
}
