use std::ops::RangeInclusive;

use counter_core::{Precision, Timestamp};

use super::evaluation::Evaluation;
use super::models::{DetectedSeason, Models};
use super::poisson;
use super::rarity::Rarity;
use super::scale::Scale;
use super::shifts::Shifts;
use super::silence::Silence;
use super::sizes::{MAX_EVENT_ERRORS, Sizes};
use super::tail::Tails;

/// The minimum number of values that a detector needs to evaluate a bucket.
const MIN_VALUES: u32 = 30;
/// The minimum number of errors to estimate the tails.
const MIN_ERRORS: f32 = 25.0;
/// The number of values in the averages for silences: three weeks, within these bounds.
const SILENCE_WINDOW: RangeInclusive<u64> = 128..=1024;
/// A value is an outlier if it is less probable than this. Outliers are clamped to this limit for learning.
const OUTLIER_PROBABILITY: f64 = 1e-3;
/// A value is only unusual if less than this share of earlier errors were as large.
const MIN_RANK: f64 = 1e-3;
/// A deviation is unusual if one as large is expected once in this time, in seconds: eight weeks.
const RANK_INTERVAL: f64 = 8.0 * 7.0 * 86_400.0;
/// The distance of the expected value from the middle of the band for the time of day, as a share of this band's width, up to
/// which this band is used.
const MAX_SHIFT: f64 = 0.125;
/// The band of a measure has at least this distance, in the smallest standard deviations that we assume.
const MIN_DEVIATIONS: f64 = 6.0;
/// The number of buckets to skip if there is a gap.
const GAP_COOLDOWN: u32 = 3;
/// The maximum error for the comparison of models, in standard deviations.
const MAX_ERROR: f64 = 10.0;

/// An online detector for unusual values in a series.
///
/// The expected value is based on the time of day, the time of the week, and the latest values. The detector
/// runs multiple such models and selects one of them by past errors. The band around the expected value is
/// derived from the tails of these errors, and contains all values except for 1 in 1,000. We only learn three
/// errors from an event, so it does not widen the band, but an event that repeats becomes normal. The band
/// also ends at the deviation from the expected value, or from the time of day, that is as large as is expected
/// once in eight weeks, or once in 1,000 buckets if that is longer.
///
/// - Evaluation starts with the 31st value. A missing bucket does not count as 0. The three buckets that
///   follow a gap will not be evaluated, because an outage might have changed the level.
/// - The level follows the values. Eight consecutive outliers on the same side will be adopted as a new
///   level. A return to the old level within a day is not considered unusual.
/// - Counts are assumed to vary by at least as much as independent hits: 0 instead of 2 is not unusual.
///
/// A detector takes ~8 KB, and three microseconds per bucket (in release mode). It does not read a clock, and is
/// deterministic.
///
/// ```
/// use counter_alert::detector::Detector;
/// use counter_core::{Precision, Timestamp};
///
/// let minute = Precision::MINUTE;
/// let start = |n: u64| Timestamp::from_unix(1_585_872_000 + n * 60);
/// let mut detector = Detector::of_counts(minute);
/// for n in 0..120 {
///     let evaluation = detector.observe(start(n), [97.0, 104.0, 99.0, 110.0, 90.0][n as usize % 5]);
///     assert!(evaluation.is_none_or(|evaluation| !evaluation.is_unusual()));
/// }
/// let evaluation = detector.observe(start(120), 400.0).ok_or("30 buckets are enough")?;
/// assert!(evaluation.is_high() && evaluation.upper < 200.0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Detector {
    width: u64,
    scale: Scale,
    false_alarms: f64,
    models: Models,
    tails: Option<Tails>,
    /// The number of values so far.
    observed: u32,
    /// The end of the latest bucket.
    next: Option<Timestamp>,
    cooldown: u32,
    shifts: Shifts,
    silence: Silence,
    rarity: Rarity,
    /// The errors of the selected model above and below the expected value.
    sizes: [Sizes; 2],
    /// These errors since the weekly season was first selected, for the band.
    repeats: [Sizes; 2],
    knows_weeks: bool,
    /// The size of errors that repeat, above and below, before the current event.
    repeated: [f64; 2],
}

impl Detector {
    /// The default share of ordinary buckets outside the band, on either side: 1 in 250,000, i.e. a minute in
    /// six months.
    pub const FALSE_ALARMS: f64 = 1.0 / 250_000.0;

    /// Creates a detector for counts with this precision.
    pub fn of_counts(precision: Precision) -> Self {
        Self::new(precision, Scale::Counts)
    }

    /// Creates a detector for measured values, like a temperature or a percentile: -1e30 to 1e30.
    pub fn of_measures(precision: Precision) -> Self {
        Self::new(precision, Scale::Measures)
    }

    fn new(precision: Precision, scale: Scale) -> Self {
        let width = u64::from(precision.as_seconds());
        Self {
            width,
            scale,
            false_alarms: Self::FALSE_ALARMS,
            models: Models::new(precision),
            tails: None,
            observed: 0,
            next: None,
            cooldown: 0,
            shifts: Shifts::new(width),
            silence: Silence::default(),
            rarity: Rarity::new(precision),
            sizes: Default::default(),
            repeats: Default::default(),
            knows_weeks: false,
            repeated: [0.0; 2],
        }
    }

    /// Sets the share of ordinary buckets outside the band, on either side: 1e-12 to 0.01. Default:
    /// [`FALSE_ALARMS`](Self::FALSE_ALARMS). This is the share according to the tails. The time of the other limits
    /// changes accordingly: with twice the share, a deviation as large is expected once in four weeks.
    #[must_use]
    pub fn false_alarms(mut self, share: f64) -> Self {
        self.false_alarms = if share.is_nan() { Self::FALSE_ALARMS } else { share.clamp(1e-12, 0.01) };
        self
    }

    /// Returns the end of the latest observed bucket.
    pub fn next(&self) -> Option<Timestamp> {
        self.next
    }

    /// Learns the mean of a longer time, such as an hour. You can use this to train the day and week for
    /// buckets of minutes. This must be called before the first bucket is observed, in chronological order.
    pub fn learn(&mut self, start: Timestamp, width: u64, mean: f64) {
        if self.observed == 0 && mean.is_finite() {
            let middle = start.plus(width / 2).minus(self.width / 2);
            self.models.learn_season(middle, self.scale.apply(mean));
        }
    }

    /// Evaluates the value of the bucket with this start, and learns from it.
    ///
    /// Buckets must be passed in order. You can skip buckets that are unknown or should be ignored, e.g.
    /// holidays. Returns `None` if we can't evaluate the value: at the start, following a gap, if the bucket
    /// was already observed, and if the value is not finite.
    pub fn observe(&mut self, start: Timestamp, value: f64) -> Option<Evaluation> {
        if !value.is_finite() || self.next.is_some_and(|next| start < next) {
            return None;
        }
        let missing = self.next.map_or(0, |next| (start.as_unix() - next.as_unix()) / self.width);
        self.next = Some(start.plus(self.width));
        if missing > 1 {
            self.cooldown = GAP_COOLDOWN;
            self.shifts.skip();
            self.silence.skip();
        }
        if self.scale == Scale::Counts {
            let window = (21 * 86_400 / self.width).clamp(*SILENCE_WINDOW.start(), *SILENCE_WINDOW.end());
            let weight = 1.0 / (f64::from(self.observed) + 1.0).min(window as f64);
            self.silence.observe(&self.models, start, value, weight);
        }
        let typical = self.rarity.band(start, self.rare());
        let rarity = self.rarity.observe(start, value);
        let evaluation = self.evaluate(start, value, rarity, &typical);
        self.adapt(start, self.scale.apply(value));
        evaluation
    }

    /// Returns the tails for evaluation, if there are enough values and no recent gap.
    fn tails_to_judge(&self) -> Option<Tails> {
        self.tails.filter(|_| self.observed >= MIN_VALUES && self.cooldown == 0)
    }

    /// Returns the share of deviations that are outside the band because of their rank. What is more frequent than 1 in 1,000
    /// repeats.
    fn rare(&self) -> f64 {
        let share = self.width as f64 / RANK_INTERVAL * self.false_alarms / Self::FALSE_ALARMS;
        share.min(self.false_alarms.max(MIN_RANK))
    }

    fn evaluate(
        &mut self,
        start: Timestamp,
        value: f64,
        rarity: f64,
        typical: &RangeInclusive<f64>,
    ) -> Option<Evaluation> {
        let tails = self.tails_to_judge()?;
        let scaled = self.scale.apply(value);
        let mut expected = self.models.expected(start).or_else(|| self.models.expected_without_season())?;
        if tails.probability(scaled - expected) < OUTLIER_PROBABILITY
            && let Some(before) = self.shifts.expected_before_shift(&self.models, start)
            && tails.probability(scaled - before) >= OUTLIER_PROBABILITY
        {
            self.shifts.undo(&mut self.models);
            expected = before;
        }
        let count = self.scale.invert(expected);
        let (error, [above, below]) = (scaled - expected, &self.sizes);
        let side = if error < 0.0 { below } else { above };
        // There are two sides.
        let probability = rarity.min(2.0 * side.share_above(error.abs()));
        let (min, max) = tails.limits(self.false_alarms);
        let (min, max) = (min.min(-self.repeated[1]), max.max(self.repeated[0]));
        let [highest, lowest] = [above, below].map(|sizes| sizes.size_above(self.rare() / 2.0));
        let (min, max) = (min.max(-lowest), max.min(highest));
        let (mut lower, mut upper) = (self.scale.invert(expected + min), self.scale.invert(expected + max));
        let (start, end) = (*typical.start(), *typical.end());
        // At another level, the time of day says nothing about what is usual.
        if (count - f64::midpoint(start, end)).abs() <= MAX_SHIFT * (end - start) {
            (lower, upper) = (lower.max(start), upper.min(end));
        }
        match self.scale {
            Scale::Counts => {
                let (min, max) = poisson::band(count, self.false_alarms);
                (lower, upper) = (lower.min(min).ceil(), upper.max(max).floor());
            }
            Scale::Measures => {
                let least = MIN_DEVIATIONS * self.scale.min_deviation(count);
                (lower, upper) = (lower.min(count - least), upper.max(count + least));
            }
        }
        Some(Evaluation {
            value,
            expected: count,
            lower,
            upper,
            probability,
            missed: self.silence.missed(),
            silence: self.silence.probability(),
            error: self.scale.deviation(tails.scale, count),
            season: self.models.used_season(),
            false_alarms: self.false_alarms,
        })
    }

    /// Learns from a value.
    fn adapt(&mut self, start: Timestamp, scaled: f64) {
        self.shifts.expire(start);
        let expected = self.models.all_expected(start);
        let error = self.models.expected(start).map(|expected| scaled - expected);
        let tails = self.tails_to_judge();
        let limits = tails.map(|tails| tails.limits(OUTLIER_PROBABILITY));
        let bounded = |error: f64| limits.map_or(error, |(min, max)| error.clamp(min, max));
        if let (Some(error), Some((min, max))) = (error, limits) {
            let is_above = if error > max { Some(true) } else { (error < min).then_some(false) };
            self.shifts.observe(&self.models, start, scaled, is_above);
        }
        if let Some(error) = error.filter(|_| self.cooldown == 0) {
            if self.shifts.outliers() <= MAX_EVENT_ERRORS {
                for [above, below] in [&mut self.sizes, &mut self.repeats] {
                    above.add(error.max(0.0));
                    below.add((-error).max(0.0));
                }
            }
            // An event stays unusual until it is over.
            if self.shifts.outliers() == 0 && self.repeats[0].total() >= MIN_ERRORS {
                let min_deviation = self.scale.min_deviation(self.models.latest_level());
                self.tails = Some(Tails::of(&self.repeats, min_deviation));
                let share = self.false_alarms.max(MIN_RANK);
                self.repeated = self.repeats.each_ref().map(|sizes| sizes.size_at(share));
            }
        }
        let max_square = self.tails.map_or(f64::INFINITY, |tails| (MAX_ERROR * tails.scale).powi(2));
        self.models.follow(&expected, scaled, bounded, max_square, self.cooldown > 0);
        // We must not train the profile while a shift can still be undone.
        if !self.shifts.is_shifted() && self.shifts.outliers() == 0 {
            self.models.learn_season(start, error.map_or(scaled, |error| scaled - error + bounded(error)));
        }
        self.models.choose();
        if !self.knows_weeks && self.models.used_season() == DetectedSeason::Week {
            // Until now, each weekend was an error.
            self.knows_weeks = true;
            self.repeats = Default::default();
        }
        self.shifts.shift(&mut self.models, start);
        self.cooldown = self.cooldown.saturating_sub(1);
        self.observed = self.observed.saturating_add(1);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn detector(width: u32) -> Detector {
        Detector::of_counts(Precision::try_from(width).expect("a width"))
    }

    fn start(width: u32, bucket: u64) -> Timestamp {
        Timestamp::from_unix(1_585_526_400 + bucket * u64::from(width))
    }

    #[test]
    fn evaluation_starts_at_the_31st_value_and_pauses_after_a_gap() {
        let mut minutes = detector(60);
        for n in 0..40 {
            assert_eq!(minutes.observe(start(60, n), 10.0).is_some(), n >= 30, "{n}");
        }
        // A single missing bucket is fine, but two are a gap.
        assert!(minutes.observe(start(60, 41), 10.0).is_some());
        for (n, is_judged) in [(44, false), (45, false), (46, false), (47, true)] {
            assert_eq!(minutes.observe(start(60, n), 10.0).is_some(), is_judged, "{n}");
        }
        assert_eq!(minutes.observe(start(60, 47), 10.0), None);
        assert_eq!(minutes.observe(start(60, 48), f64::NAN), None);
    }

    #[test]
    fn low_counts_are_not_unusual_and_eight_outliers_are_a_new_level() {
        let mut minutes = detector(60);
        for n in 0..200 {
            minutes.observe(start(60, n), if n % 4 < 3 { 1.0 + (n % 4) as f64 } else { 2.0 });
        }
        let evaluation = minutes.clone().observe(start(60, 200), 0.0).expect("it judges");
        assert!(
            !evaluation.is_unusual() && !evaluation.is_silent() && evaluation.lower == 0.0,
            "{evaluation:?}"
        );
        let mut unusual =
            |n| minutes.observe(start(60, n), 50.0).is_some_and(|evaluation| evaluation.is_high());
        let high: Vec<u64> = (200..212).filter(|n| unusual(*n)).collect();
        assert!(high.first() == Some(&200) && (2..=8).contains(&high.len()), "{high:?}");
        // We return to the old level, and then to the new level.
        for (n, value) in [(212, 2.0), (213, 1.0), (214, 3.0)] {
            let evaluation = minutes.observe(start(60, n), value).expect("it judges");
            assert!(!evaluation.is_unusual(), "{evaluation:?}");
        }
        assert!(minutes.observe(start(60, 215), 50.0).expect("it judges").is_high());
    }

    #[test]
    fn a_higher_false_alarm_rate_narrows_the_band() {
        let band = |share: f64| {
            let mut minutes = detector(60).false_alarms(share);
            let evaluate = |n: u64| minutes.observe(start(60, n), 100.0 + (n * 7 % 13) as f64);
            let evaluation = (0..100).filter_map(evaluate).last().expect("it judges");
            (evaluation.lower, evaluation.upper)
        };
        let (seldom, often) = (band(1e-9), band(0.01));
        assert!(seldom.0 < often.0 && often.1 < seldom.1, "{seldom:?} {often:?}");
        assert_eq!(band(f64::NAN), band(Detector::FALSE_ALARMS));
    }

    #[test]
    fn a_slow_change_is_unusual_if_it_does_not_fit_the_time_of_day() {
        // Half of the day is busy, and it takes two hours to get there.
        let usual = |n: u64| 100.0 + (n % 288).min(288 - n % 288).clamp(60, 84) as f64 * 10.0;
        let noise = |n: u64| (n * 7919 % 101) as f64 / 5.0;
        let mut detector = Detector::of_measures(Precision::try_from(300).expect("a width"));
        // On the last day, the site gets busier in the first two hours, when it should not.
        let early = |n: u64| n.saturating_sub(20 * 288) as f64 * 3.0;
        let mut is_high = |n: u64| {
            let evaluation = detector.observe(start(300, n), usual(n) + noise(n) + early(n));
            evaluation.is_some_and(|evaluation| evaluation.is_high())
        };
        let high: Vec<_> = (0..20 * 288 + 24).filter(|n| is_high(*n)).collect();
        assert!(!high.is_empty() && high.iter().all(|n| *n >= 20 * 288), "{high:?}");
    }

    #[test]
    fn a_record_is_unusual_although_the_tails_allow_it() {
        // Errors within ±10, most of them small. The level grows, so that the time of day says nothing.
        let error = |n: u64| ((n * 7919 % 1009) as f64 / 504.5 - 1.0).powi(5) * 10.0;
        let level = |n: u64| 100.0 + n as f64 * 0.5;
        let mut detector = Detector::of_measures(Precision::try_from(3600).expect("a width"));
        for n in 0..4000 {
            detector.observe(start(3600, n), level(n) + error(n));
        }
        let is_high = |error: f64| {
            let evaluation = detector.clone().observe(start(3600, 4000), level(4000) + error);
            evaluation.expect("it judges").is_high()
        };
        assert_eq!([8.0, 16.0].map(is_high), [false, true]);
    }

    #[test]
    fn a_measure_that_stands_still_may_differ_slightly() {
        let mut detector = Detector::of_measures(Precision::MINUTE);
        for n in 0..350 {
            detector.observe(start(60, n), 100.0);
        }
        for (n, value, is_unusual) in [(350, 100.000_1, false), (351, 100.0, false), (352, 100.1, true)] {
            let evaluation = detector.observe(start(60, n), value).expect("it judges");
            assert_eq!(evaluation.is_unusual(), is_unusual, "{evaluation:?}");
        }
    }

    proptest! {
        #[test]
        fn any_values_give_a_band_around_the_expected_value(
            width in prop::sample::select(vec![1_u32, 60, 300, 3600, 18_000, 86_400, 604_800]),
            is_count: bool,
            values in prop::collection::vec(
                (0..4_u64, prop_oneof![0.0..5.0_f64, 0.0..1e6_f64, Just(u64::MAX as f64), Just(f64::MAX), Just(-1e300)]),
                0..300,
            ),
        ) {
            let precision = Precision::try_from(width).expect("a width");
            let new = || if is_count { Detector::of_counts(precision) } else { Detector::of_measures(precision) };
            let (mut detector, mut second, mut bucket) = (new(), new(), 0);
            for (skipped, value) in values {
                bucket += skipped;
                let value = if is_count { value.clamp(0.0, u64::MAX as f64).round() } else { value.clamp(-1e30, 1e30) };
                let evaluation = detector.observe(start(width, bucket), value);
                prop_assert_eq!(evaluation, second.observe(start(width, bucket), value));
                bucket += 1;
                let Some(evaluation) = evaluation else { continue };
                let Evaluation { expected, lower, upper, probability, silence, missed, error, .. } = evaluation;
                prop_assert!(lower <= upper && error >= 0.0 && missed >= 0.0, "{:?}", evaluation);
                prop_assert!((0.0..=1.0).contains(&probability) && (0.0..=1.0).contains(&silence), "{:?}", evaluation);
                prop_assert!([expected, lower, upper, error, missed].iter().all(|number| number.is_finite()), "{:?}", evaluation);
                prop_assert!(!is_count || lower <= expected.ceil() && expected.floor() <= upper, "{:?}", evaluation);
            }
        }
    }
}
