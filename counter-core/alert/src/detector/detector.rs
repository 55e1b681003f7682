use std::collections::VecDeque;

use counter_core::{Precision, Timestamp};

use super::profile::Profile;
use super::tail::Tails;

/// The number of values that a detector needs before it judges.
const LEAST: u32 = 30;
/// The latest errors, by which it knows how far ordinary values stray: those of three weeks, within these bounds.
const ERRORS: std::ops::RangeInclusive<u64> = 128..=1024;
/// The probability from which on a value is an outlier: it is learned from no more than as one that is as improbable.
const OUTLIER: f64 = 1e-3;
/// The relative error of large counts, on the scale that counts are compared on.
const RELATIVE: f64 = 0.1;
/// The largest measure, in either direction: single precision is enough for errors.
const LARGEST_MEASURE: f64 = 1e30;
/// The number of outliers in a row, on one side, that are a new level.
const SHIFT: usize = 8;
/// The buckets after a gap that are not judged.
const SETTLE: u32 = 3;
/// The weight of the latest error in the figure by which models are compared.
const COMPARED: f64 = 0.01;
/// The largest error that is compared, in standard deviations.
const LARGEST: f64 = 10.0;
/// A model is replaced by one whose squared errors are smaller by this factor.
const BETTER: f64 = 0.95;
/// The part of the longest silence that is left one bucket later.
const FORGOTTEN: f64 = 1.0 - 1.0 / 4096.0;

/// A detector of what is unusual in a series, one bucket after the other.
///
/// It expects a value by the time of day and of the week, as far as it has seen days and weeks, and by the latest values.
/// It compares several such models by their errors so far, and has the band around the best of them by the tails of its
/// errors. Outliers are no part of what it learns: it is as sure after them as before.
///
/// - It judges from the 31st value on, and takes no bucket that it is not given for a 0. The three buckets after a gap are
///   not judged: what comes after an outage is not compared with what was before.
/// - Its level follows, and eight outliers in a row on one side are a new one, from which it goes on. A return to the level
///   before, within a day, is nothing unusual.
/// - Counts are never steadier than those of hits that arrive independently: 0 instead of 2 is nothing unusual.
///
/// It takes about 8 KB, and a microsecond for a bucket (in release). It reads no clock, and two detectors that were given
/// the same say the same.
///
/// ```
/// use counter_alert::detector::Detector;
/// use counter_core::{Precision, Timestamp};
///
/// let minute = Precision::try_from(60)?;
/// let start = |n: u64| Timestamp::from_unix(1_585_872_000 + n * 60);
/// let mut detector = Detector::of_counts(minute);
/// for n in 0..120 {
///     let judgement = detector.observe(start(n), [97.0, 104.0, 99.0, 110.0, 90.0][n as usize % 5]);
///     assert!(judgement.is_none_or(|judgement| !judgement.is_unusual()));
/// }
/// let judgement = detector.observe(start(120), 400.0).ok_or("30 buckets are enough")?;
/// assert!(judgement.is_high() && judgement.upper < 200.0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Detector {
    width: u64,
    is_count: bool,
    false_alarms: f64,
    profile: Profile,
    models: [Model; MODELS.len()],
    /// The place of the model that is used.
    best: usize,
    errors: VecDeque<f32>,
    /// The number of these that are kept.
    kept: usize,
    tails: Option<Tails>,
    /// The errors that came since the tails were measured.
    fresh: usize,
    /// The number of values so far.
    seen: u32,
    /// The end of the last bucket.
    next: Option<Timestamp>,
    settling: u32,
    run: Run,
    /// The way back to the level before the last shift.
    before: Option<Before>,
    silence: Silence,
}

/// A judgement of a [`Detector`] about a bucket.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Judgement {
    /// The value of the bucket.
    pub value: f64,
    /// The value that was expected.
    pub expected: f64,
    /// The smallest value in the band.
    pub lower: f64,
    /// The largest value in the band.
    pub upper: f64,
    /// The probability that an ordinary value strays as far to this side.
    pub probability: f64,
    /// The hits that were expected since the last one, this bucket included; 0 where it has hits.
    pub missed: f64,
    /// The probability that so many are missed, 1 where none are.
    pub silence: f64,
    /// The usual error of what was expected: one standard deviation.
    pub error: f64,
    /// The season by which it was expected.
    pub season: DetectedSeason,
    false_alarms: f64,
}

/// The season by which a [`Detector`] expects values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DetectedSeason {
    /// The latest values alone.
    Level,
    /// The time of day, and the latest values.
    Day,
    /// The time of the week, and the latest values.
    Week,
}

/// A way to expect the next value: a season, and a level around it that follows the errors with a weight.
#[derive(Clone, Copy, Debug)]
struct Model {
    level: Option<f64>,
    /// The mean error of late, and the weight of what it is a mean of.
    error: f64,
    weight: f64,
}

/// The models that are compared: their season, and the weight of an error in their level.
const MODELS: [(DetectedSeason, f64); 7] = [
    (DetectedSeason::Level, 0.05),
    (DetectedSeason::Level, 0.3),
    (DetectedSeason::Level, 0.8),
    (DetectedSeason::Day, 0.02),
    (DetectedSeason::Day, 0.2),
    (DetectedSeason::Week, 0.02),
    (DetectedSeason::Week, 0.2),
];

/// The outliers in a row up to the last value, on one side.
#[derive(Clone, Debug, Default)]
struct Run {
    is_above: bool,
    values: Vec<(Timestamp, f64)>,
    /// The model and the levels before the first of them.
    best: usize,
    levels: [Option<f64>; MODELS.len()],
}

/// The level before a shift.
#[derive(Clone, Debug)]
struct Before {
    best: usize,
    levels: [Option<f64>; MODELS.len()],
    /// The amount by which the profile was moved.
    shift: f64,
    until: Timestamp,
}

/// The buckets without hits up to the last one.
#[derive(Clone, Copy, Debug, Default)]
struct Silence {
    /// The model and the level at their begin.
    begun: Option<(usize, Option<f64>)>,
    /// The hits that were expected in them.
    missed: f64,
    /// The most that were missed in one of the silences of late.
    longest: f64,
    /// The variance of counts around what was expected, and what that was: their means of late.
    squares: f64,
    expected: f64,
}

impl Detector {
    /// The share of ordinary buckets beyond the band, on each side, unless another one is asked for: one in 250,000, which
    /// are the minutes of six months.
    pub const FALSE_ALARMS: f64 = 1.0 / 250_000.0;

    /// Creates a detector for counts in buckets of this width.
    pub fn of_counts(precision: Precision) -> Self {
        Self::new(precision, true)
    }

    /// Creates a detector for values that are measured, such as a temperature or a percentile: -1e30 to 1e30.
    pub fn of_measures(precision: Precision) -> Self {
        Self::new(precision, false)
    }

    fn new(precision: Precision, is_count: bool) -> Self {
        let width = u64::from(precision.as_seconds());
        Self {
            width,
            is_count,
            false_alarms: Self::FALSE_ALARMS,
            profile: Profile::new(precision),
            models: [Model { level: None, error: 0.0, weight: 0.0 }; MODELS.len()],
            best: 1,
            errors: VecDeque::new(),
            kept: usize::try_from((21 * 86_400 / width).clamp(*ERRORS.start(), *ERRORS.end())).unwrap_or(128),
            tails: None,
            fresh: 0,
            seen: 0,
            next: None,
            settling: 0,
            run: Run::default(),
            before: None,
            silence: Silence::default(),
        }
    }

    /// Sets the share of ordinary buckets that are beyond the band, on each side: 1e-12 to 0.01. Default:
    /// [`FALSE_ALARMS`](Self::FALSE_ALARMS).
    #[must_use]
    pub fn false_alarms(mut self, share: f64) -> Self {
        self.false_alarms = if share.is_nan() { Self::FALSE_ALARMS } else { share.clamp(1e-12, 0.01) };
        self
    }

    /// Returns the end of the last bucket that it was given.
    pub fn next(&self) -> Option<Timestamp> {
        self.next
    }

    /// Takes the mean value of a longer time, such as an hour, from which buckets of minutes learn their day and week.
    /// These have to be given before the buckets themselves, the oldest first.
    pub fn learn(&mut self, start: Timestamp, width: u64, mean: f64) {
        if self.seen == 0 && mean.is_finite() {
            let middle = start.plus(width / 2).minus(self.width / 2);
            self.profile.add(middle, self.scaled(mean));
        }
    }

    /// Judges the value of the bucket that starts here, and learns from it.
    ///
    /// Buckets come in their order. One that is left out is not known, or not to be compared, as a holiday. Returns
    /// `None` where there is nothing to compare with: at the beginning, after a gap, for a bucket that came already, and
    /// for a value that is no number.
    pub fn observe(&mut self, start: Timestamp, value: f64) -> Option<Judgement> {
        if !value.is_finite() || self.next.is_some_and(|next| start < next) {
            return None;
        }
        let missing = self.next.map_or(0, |next| (start.as_unix() - next.as_unix()) / self.width);
        self.next = Some(start.plus(self.width));
        if missing > 1 {
            (self.settling, self.run.values) = (SETTLE, Vec::new());
            (self.silence.begun, self.silence.missed) = (None, 0.0);
        }
        let scaled = self.scaled(value);
        if self.is_count {
            self.watch_silence(start, value);
        }
        let judgement = self.judge(start, value, scaled);
        self.adapt(start, scaled);
        judgement
    }

    /// The value on the scale on which errors are as large everywhere: for counts that of Anscombe (1948) for the
    /// negative binomial distribution. Small counts are on it as their square root, which strays by 1, and large ones as
    /// their logarithm, on which a season keeps its shape when the level doubles.
    fn scaled(&self, value: f64) -> f64 {
        if self.is_count {
            2.0 / RELATIVE * (RELATIVE * (value.max(0.0) + 0.375).sqrt()).asinh()
        } else {
            value.clamp(-LARGEST_MEASURE, LARGEST_MEASURE)
        }
    }

    fn unscaled(&self, scaled: f64) -> f64 {
        if self.is_count {
            ((scaled.max(0.0) * RELATIVE / 2.0).sinh() / RELATIVE).powi(2).clamp(0.375, u64::MAX as f64)
                - 0.375
        } else {
            scaled
        }
    }

    fn season(&self, season: DetectedSeason, start: Timestamp) -> Option<f64> {
        match season {
            DetectedSeason::Level => Some(0.0),
            DetectedSeason::Day => self.profile.day(start),
            DetectedSeason::Week => self.profile.week(start),
        }
    }

    /// Returns the value that each model expects, on the scale.
    fn all_expected(&self, start: Timestamp) -> [Option<f64>; MODELS.len()] {
        let (day, week) = (self.profile.day(start), self.profile.week(start));
        std::array::from_fn(|place| {
            let level = self.models[place].level;
            match MODELS[place].0 {
                DetectedSeason::Level => level,
                DetectedSeason::Day => Some(day? + level.unwrap_or(0.0)),
                DetectedSeason::Week => Some(week? + level.unwrap_or(0.0)),
            }
        })
    }

    /// Returns the value that a model expects, on the scale.
    fn expected(&self, place: usize, start: Timestamp) -> Option<f64> {
        let season = self.season(MODELS[place].0, start)?;
        // The profile is a level by itself.
        let level = self.models[place].level;
        if MODELS[place].0 == DetectedSeason::Level { level } else { Some(season + level.unwrap_or(0.0)) }
    }

    fn judge(&mut self, start: Timestamp, value: f64, scaled: f64) -> Option<Judgement> {
        let tails = self.tails.filter(|_| self.seen >= LEAST && self.settling == 0)?;
        let mut expected = self.expected(self.best, start).or_else(|| self.expected(1, start))?;
        let error = scaled - expected;
        if tails.probability(error) < OUTLIER
            && let Some(back) = self.back(start)
            && tails.probability(scaled - back) >= OUTLIER
        {
            self.go_back();
            expected = back;
        }
        let count = self.unscaled(expected);
        let (mut lower, mut upper) = (
            self.unscaled(expected - tails.below.distance(self.false_alarms)),
            self.unscaled(expected + tails.above.distance(self.false_alarms)),
        );
        let mut probability = tails.probability(scaled - expected);
        if self.is_count {
            let (least, most) = poisson_band(count, self.false_alarms);
            (lower, upper) = (lower.min(least).ceil(), upper.max(most).floor());
            probability = probability.max(poisson(value, count));
        }
        let missed = self.silence.missed;
        let steepness = ((count + 0.375) * (1.0 + RELATIVE.powi(2) * (count + 0.375))).sqrt();
        let deviation = if self.is_count { tails.scale * steepness } else { tails.scale };
        Some(Judgement {
            value,
            expected: count,
            lower,
            upper,
            probability,
            missed,
            silence: self.silence.probability(missed),
            error: deviation,
            season: MODELS[self.best].0,
            false_alarms: self.false_alarms,
        })
    }

    /// Returns the value that was expected of this bucket before the last shift of the level.
    fn back(&self, start: Timestamp) -> Option<f64> {
        let before = self.before.as_ref().filter(|before| start < before.until)?;
        let (season, _) = MODELS[before.best];
        let usual = self.season(season, start)?;
        let moved = if season == DetectedSeason::Level { 0.0 } else { before.shift };
        Some(usual - moved + before.levels[before.best].unwrap_or(0.0))
    }

    fn go_back(&mut self) {
        if let Some(before) = self.before.take() {
            self.best = before.best;
            for (model, level) in self.models.iter_mut().zip(before.levels) {
                model.level = level;
            }
            self.profile.shift(-before.shift);
            self.run.values.clear();
        }
    }

    /// Learns from a value.
    fn adapt(&mut self, start: Timestamp, scaled: f64) {
        if self.before.as_ref().is_some_and(|before| start >= before.until) {
            self.before = None;
        }
        let expected = self.all_expected(start);
        let error = expected[self.best].map(|expected| scaled - expected);
        let limits = self
            .tails
            .filter(|_| self.seen >= LEAST && self.settling == 0)
            .map(|tails| (tails.below.distance(OUTLIER), tails.above.distance(OUTLIER)));
        let bound = self.tails.map_or(f64::INFINITY, |tails| (LARGEST * tails.scale).powi(2));
        let bounded = |error: f64| limits.map_or(error, |(below, above)| error.clamp(-below, above));
        if let (Some(error), Some(limits)) = (error, limits) {
            self.count_outlier(start, scaled, error, limits);
        }
        if let Some(error) = error.filter(|_| self.run.values.len() < 2 && self.settling == 0) {
            self.keep(bounded(error));
        }
        for (place, (season, weight)) in MODELS.into_iter().enumerate() {
            let model = &mut self.models[place];
            let Some(expected) = expected[place] else {
                if season == DetectedSeason::Level {
                    model.level = Some(scaled);
                }
                continue;
            };
            let square = (scaled - expected).powi(2).min(bound);
            let error = bounded(scaled - expected);
            let weight = if self.settling > 0 { weight.max(0.5) } else { weight };
            model.level = Some(model.level.unwrap_or(0.0) + weight * error);
            model.error += COMPARED * (square - model.error);
            model.weight += COMPARED * (1.0 - model.weight);
        }
        // A shift that may be undone is learned by the levels alone.
        let is_shifted = self.before.as_ref().is_some_and(|before| before.shift != 0.0);
        if !is_shifted && self.run.values.is_empty() {
            let near = expected[self.best].map_or(scaled, |expected| expected + bounded(scaled - expected));
            self.profile.add(start, near);
        }
        self.choose();
        if self.run.values.len() >= SHIFT {
            self.shift();
        }
        self.settling = self.settling.saturating_sub(1);
        self.seen = self.seen.saturating_add(1);
    }

    /// Keeps an error of the model that is used, and measures the tails anew when there are enough fresh ones.
    fn keep(&mut self, error: f64) {
        if self.errors.len() >= self.kept {
            self.errors.pop_front();
        }
        #[expect(clippy::cast_possible_truncation, reason = "seven digits are enough")]
        self.errors.push_back(error as f32);
        self.fresh += 1;
        if self.fresh * 16 >= self.errors.len() {
            self.fresh = 0;
            let level = self.models[1].level.unwrap_or(0.0);
            let least = if self.is_count {
                (1.0 + RELATIVE.powi(2) * self.unscaled(level)).sqrt().recip()
            } else {
                (level.abs() * 1e-6).max(f64::MIN_POSITIVE)
            };
            self.tails = Some(Tails::of(self.errors.iter().copied().map(f64::from), least));
        }
    }

    fn count_outlier(&mut self, start: Timestamp, scaled: f64, error: f64, (below, above): (f64, f64)) {
        let side = if error > above { Some(true) } else { (error < -below).then_some(false) };
        if side != Some(self.run.is_above) {
            self.end_run();
        }
        if let Some(is_above) = side {
            if self.run.values.is_empty() {
                (self.run.best, self.run.levels) = (self.best, self.models.map(|model| model.level));
            }
            self.run.is_above = is_above;
            self.run.values.push((start, scaled));
        }
    }

    /// Ends a run that was no new level: a level that has followed it may go back.
    fn end_run(&mut self) {
        if self.run.values.len() > 1 && self.before.is_none() {
            self.before = Some(self.before_run(0.0));
        }
        self.run.values.clear();
    }

    fn before_run(&self, shift: f64) -> Before {
        let until = self.next.unwrap_or(Timestamp::MIN).plus((100 * self.width).max(86_400));
        Before { best: self.run.best, levels: self.run.levels, shift, until }
    }

    /// Uses the model with the smallest errors, of those that were compared for long enough.
    fn choose(&mut self) {
        let figure = |model: &Model| (model.weight > 0.2).then(|| model.error / model.weight);
        let Some(current) = figure(&self.models[self.best]) else { return };
        let figures =
            self.models.iter().enumerate().filter_map(|(place, model)| Some((place, figure(model)?)));
        let best = figures.min_by(|one, other| one.1.total_cmp(&other.1));
        if let Some((place, error)) = best
            && error < current * BETTER
        {
            self.best = place;
        }
    }

    /// Goes on from the level of the last outliers.
    fn shift(&mut self) {
        let values = std::mem::take(&mut self.run.values);
        let mut levels = self.run.levels;
        for (place, (season, _)) in MODELS.into_iter().enumerate() {
            let beyond =
                values.iter().filter_map(|(start, value)| Some(value - self.season(season, *start)?));
            let mut beyond: Vec<f64> = beyond.collect();
            if !beyond.is_empty() {
                let middle = beyond.len() / 2;
                levels[place] = Some(*beyond.select_nth_unstable_by(middle, f64::total_cmp).1);
            }
        }
        let best = self.run.best;
        let (new, old) = (levels[best].unwrap_or(0.0), self.run.levels[best].unwrap_or(0.0));
        let shift = new - old;
        for (model, ((season, _), level)) in self.models.iter_mut().zip(MODELS.into_iter().zip(levels)) {
            let moved = if season == DetectedSeason::Level { 0.0 } else { shift };
            model.level = level.map(|level| level - moved);
        }
        self.profile.shift(shift);
        self.before = Some(self.before_run(shift));
    }

    fn watch_silence(&mut self, start: Timestamp, value: f64) {
        let Some(expected) = self.expected(self.best, start) else { return };
        let count = self.unscaled(expected);
        let level = (self.best, self.models[self.best].level);
        let (place, level) = *self.silence.begun.get_or_insert(level);
        let season = self.season(MODELS[place].0, start);
        let due = season.map_or(0.0, |season| self.unscaled(season + level.unwrap_or(0.0)));
        let weight = 1.0 / (f64::from(self.seen) + 1.0).min(self.kept as f64);
        let silence = &mut self.silence;
        // An outlier widens it, but does not end it.
        let square = (value - count).powi(2).min(100.0 * count.max(0.05).max(silence.squares));
        silence.squares += weight * (square - silence.squares);
        silence.expected += weight * (count - silence.expected);
        silence.longest *= FORGOTTEN;
        if value > 0.0 {
            silence.longest = silence.longest.max(silence.missed);
            (silence.begun, silence.missed) = (None, 0.0);
        } else {
            silence.missed += due;
        }
    }
}

impl Silence {
    /// The probability that so many hits are missed: that of no hit of a Poisson distribution, where hits come together
    /// of one event for so many; but what was seen of late is not unusual.
    fn probability(&self, missed: f64) -> f64 {
        if missed <= 1.5 * self.longest {
            return 1.0;
        }
        let together = (self.squares / self.expected.max(f64::MIN_POSITIVE)).max(1.0);
        (-missed / together).exp()
    }
}

impl Judgement {
    /// Returns whether the value is above the band.
    pub fn is_high(&self) -> bool {
        self.value > self.upper
    }

    /// Returns whether the value is below the band.
    pub fn is_low(&self) -> bool {
        self.value < self.lower
    }

    /// Returns whether the value is above or below the band.
    pub fn is_unusual(&self) -> bool {
        self.is_high() || self.is_low()
    }

    /// Returns whether hits are missing that surely should have come.
    pub fn is_silent(&self) -> bool {
        self.silence < self.false_alarms
    }
}

/// A bound of the probability that a Poisson distribution of this mean strays as far as this count: that of Chernoff.
fn poisson(count: f64, mean: f64) -> f64 {
    let mean = mean.max(1e-9);
    let distance = if count > 0.0 { count * (count / mean).ln() - count + mean } else { mean };
    (-distance).exp().min(1.0)
}

/// The counts between which that bound is larger than this probability, by bisection.
fn poisson_band(mean: f64, probability: f64) -> (f64, f64) {
    let between = |mut inside: f64, mut outside: f64| {
        for _ in 0..50 {
            let middle = f64::midpoint(inside, outside);
            if (inside - outside).abs() < 0.1 {
                break;
            }
            *(if poisson(middle, mean) >= probability { &mut inside } else { &mut outside }) = middle;
        }
        inside
    };
    let far = -probability.ln();
    let least = if poisson(0.0, mean) >= probability { 0.0 } else { between(mean, 0.0) };
    (least, between(mean, mean + 2.0 * far + (8.0 * far * mean).sqrt()))
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
    fn it_judges_from_the_thirty_first_value_on_and_not_after_a_gap() {
        let mut minutes = detector(60);
        for n in 0..40 {
            assert_eq!(minutes.observe(start(60, n), 10.0).is_some(), n >= 30, "{n}");
        }
        // One bucket that is missing is none; two are a gap.
        assert!(minutes.observe(start(60, 41), 10.0).is_some());
        for (n, is_judged) in [(44, false), (45, false), (46, false), (47, true)] {
            assert_eq!(minutes.observe(start(60, n), 10.0).is_some(), is_judged, "{n}");
        }
        assert_eq!(minutes.observe(start(60, 47), 10.0), None);
        assert_eq!(minutes.observe(start(60, 48), f64::NAN), None);
    }

    #[test]
    fn few_hits_are_nothing_unusual_and_eight_outliers_are_a_new_level() {
        let mut minutes = detector(60);
        for n in 0..200 {
            minutes.observe(start(60, n), if n % 4 < 3 { 1.0 + (n % 4) as f64 } else { 2.0 });
        }
        let judgement = minutes.clone().observe(start(60, 200), 0.0).expect("it judges");
        assert!(!judgement.is_unusual() && !judgement.is_silent() && judgement.lower == 0.0, "{judgement:?}");
        let mut unusual =
            |n| minutes.observe(start(60, n), 50.0).is_some_and(|judgement| judgement.is_high());
        let high: Vec<u64> = (200..212).filter(|n| unusual(*n)).collect();
        assert!(high.first() == Some(&200) && (2..=8).contains(&high.len()), "{high:?}");
        // Back at the level before, and at the new one again.
        for (n, value) in [(212, 2.0), (213, 1.0), (214, 3.0)] {
            let judgement = minutes.observe(start(60, n), value).expect("it judges");
            assert!(!judgement.is_unusual(), "{judgement:?}");
        }
        assert!(minutes.observe(start(60, 215), 50.0).expect("it judges").is_high());
    }

    #[test]
    fn a_larger_share_of_false_alarms_makes_a_narrower_band() {
        let band = |share: f64| {
            let mut minutes = detector(60).false_alarms(share);
            let judge = |n: u64| minutes.observe(start(60, n), 100.0 + (n * 7 % 13) as f64);
            let judgement = (0..100).filter_map(judge).last().expect("it judges");
            (judgement.lower, judgement.upper)
        };
        let (seldom, often) = (band(1e-9), band(0.01));
        assert!(seldom.0 < often.0 && often.1 < seldom.1, "{seldom:?} {often:?}");
        assert_eq!(band(f64::NAN), band(Detector::FALSE_ALARMS));
    }

    proptest! {
        #[test]
        fn whatever_comes_it_answers_with_a_band_around_what_it_expects(
            width in prop::sample::select(vec![1_u32, 60, 300, 3600, 18_000, 86_400, 604_800]),
            is_count: bool,
            values in prop::collection::vec(
                (0..4_u64, prop_oneof![0.0..5.0_f64, 0.0..1e6_f64, Just(u64::MAX as f64), Just(f64::MAX), Just(-1e300)]),
                0..300,
            ),
        ) {
            let precision = Precision::try_from(width).expect("a width");
            let new = || if is_count { Detector::of_counts(precision) } else { Detector::of_measures(precision) };
            let (mut detector, mut twin, mut bucket) = (new(), new(), 0);
            for (skipped, value) in values {
                bucket += skipped;
                let value = if is_count { value.clamp(0.0, u64::MAX as f64).round() } else { value.clamp(-1e30, 1e30) };
                let judgement = detector.observe(start(width, bucket), value);
                prop_assert_eq!(judgement, twin.observe(start(width, bucket), value));
                bucket += 1;
                let Some(judgement) = judgement else { continue };
                let Judgement { expected, lower, upper, probability, silence, missed, error, .. } = judgement;
                prop_assert!(lower <= upper && error >= 0.0 && missed >= 0.0, "{:?}", judgement);
                prop_assert!((0.0..=1.0).contains(&probability) && (0.0..=1.0).contains(&silence), "{:?}", judgement);
                prop_assert!([expected, lower, upper, error, missed].iter().all(|number| number.is_finite()), "{:?}", judgement);
                prop_assert!(!is_count || lower <= expected.ceil() && expected.floor() <= upper, "{:?}", judgement);
                prop_assert!(!judgement.is_unusual() || probability < 1.01 * Detector::FALSE_ALARMS, "{:?}", judgement);
            }
        }
    }
}
