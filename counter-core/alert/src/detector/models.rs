//! Models of a series, which are compared by error. A model consists of a season and a level.

use counter_core::{Precision, Timestamp};

use super::profile::Profile;

/// The season in the model of a [`Detector`](super::Detector).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DetectedSeason {
    /// Just the latest values.
    Level,
    /// The time of day and the latest values.
    Day,
    /// The time of the week and the latest values.
    Week,
}

/// The weight of the latest error in the moving average used for comparison.
const FIT_WEIGHT: f64 = 0.01;
/// We switch to another model if its squared error is smaller by this factor.
const SWITCH_RATIO: f64 = 0.95;

/// The models: a season, and the weight of the latest error in the level.
const MODELS: [(DetectedSeason, f64); 7] = [
    (DetectedSeason::Level, 0.05),
    (DetectedSeason::Level, 0.3),
    (DetectedSeason::Level, 0.8),
    (DetectedSeason::Day, 0.02),
    (DetectedSeason::Day, 0.2),
    (DetectedSeason::Week, 0.02),
    (DetectedSeason::Week, 0.2),
];

/// The index of the default model in [`MODELS`], which does not need a season or a long history.
const DEFAULT: usize = 1;

/// The minimum weight of an error in the level while we recover from a gap.
const MIN_GAP_WEIGHT: f64 = 0.5;

/// A value for each model.
pub(super) type PerModel<T> = [T; MODELS.len()];

/// All models, and the selected model.
#[derive(Clone, Debug)]
pub(super) struct Models {
    profile: Profile,
    levels: PerModel<Option<f64>>,
    fits: PerModel<Fit>,
    used: usize,
}

/// The mean squared error of a model, and the total weight of this mean.
#[derive(Clone, Copy, Debug, Default)]
struct Fit {
    error: f64,
    weight: f64,
}

/// A snapshot of the selected model and all levels.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Levels {
    pub(super) used: usize,
    levels: PerModel<Option<f64>>,
}

impl Models {
    pub(super) fn new(precision: Precision) -> Self {
        let (levels, fits) = (Default::default(), Default::default());
        Self { profile: Profile::new(precision), levels, fits, used: DEFAULT }
    }

    /// Returns the season of the selected model.
    pub(super) fn used_season(&self) -> DetectedSeason {
        MODELS[self.used].0
    }

    /// Returns a snapshot of the selected model and all levels.
    pub(super) fn levels(&self) -> Levels {
        Levels { used: self.used, levels: self.levels }
    }

    /// Returns the level of the latest values, without a season.
    pub(super) fn latest_level(&self) -> f64 {
        self.levels[DEFAULT].unwrap_or(0.0)
    }

    fn season(&self, season: DetectedSeason, start: Timestamp) -> Option<f64> {
        match season {
            DetectedSeason::Level => Some(0.0),
            DetectedSeason::Day => self.profile.day(start),
            DetectedSeason::Week => self.profile.week(start),
        }
    }

    /// Returns the expected value of each model.
    pub(super) fn all_expected(&self, start: Timestamp) -> PerModel<Option<f64>> {
        let (day, week) = (self.profile.day(start), self.profile.week(start));
        std::array::from_fn(|index| {
            let level = self.levels[index];
            match MODELS[index].0 {
                DetectedSeason::Level => level,
                DetectedSeason::Day => Some(day? + level.unwrap_or(0.0)),
                DetectedSeason::Week => Some(week? + level.unwrap_or(0.0)),
            }
        })
    }

    /// Returns the expected value of the selected model.
    pub(super) fn expected(&self, start: Timestamp) -> Option<f64> {
        self.expected_by(self.used, start)
    }

    /// Returns the expected value without a season.
    pub(super) fn expected_without_season(&self) -> Option<f64> {
        self.levels[DEFAULT]
    }

    fn expected_by(&self, index: usize, start: Timestamp) -> Option<f64> {
        let season = self.season(MODELS[index].0, start)?;
        // The profile already includes a level.
        let level = self.levels[index];
        if MODELS[index].0 == DetectedSeason::Level { level } else { Some(season + level.unwrap_or(0.0)) }
    }

    /// Returns the expected value for an earlier snapshot, if the profile has been shifted by `shift` since
    /// then.
    pub(super) fn expected_with(&self, earlier: &Levels, shift: f64, start: Timestamp) -> Option<f64> {
        let (season, _) = MODELS[earlier.used];
        let typical = self.season(season, start)?;
        let moved = if season == DetectedSeason::Level { 0.0 } else { shift };
        Some(typical - moved + earlier.levels[earlier.used].unwrap_or(0.0))
    }

    /// Trains the seasons with a value.
    pub(super) fn learn_season(&mut self, start: Timestamp, value: f64) {
        self.profile.add(start, value);
    }

    /// Moves all levels towards a value. `bounded` limits the error for levels, and `max_square` limits the
    /// squared error for the comparison of models.
    pub(super) fn follow(
        &mut self,
        expected: &PerModel<Option<f64>>,
        value: f64,
        bounded: impl Fn(f64) -> f64,
        max_square: f64,
        is_after_gap: bool,
    ) {
        for (index, (season, weight)) in MODELS.into_iter().enumerate() {
            let Some(expected) = expected[index] else {
                if season == DetectedSeason::Level {
                    self.levels[index] = Some(value);
                }
                continue;
            };
            let error = value - expected;
            let weight = if is_after_gap { weight.max(MIN_GAP_WEIGHT) } else { weight };
            self.levels[index] = Some(self.levels[index].unwrap_or(0.0) + weight * bounded(error));
            let fit = &mut self.fits[index];
            fit.error += FIT_WEIGHT * (error.powi(2).min(max_square) - fit.error);
            fit.weight += FIT_WEIGHT * (1.0 - fit.weight);
        }
    }

    /// Selects the model with the smallest error, ignoring models that have not been compared for long
    /// enough.
    pub(super) fn choose(&mut self) {
        let figure = |fit: &Fit| (fit.weight > 0.2).then(|| fit.error / fit.weight);
        let Some(current) = figure(&self.fits[self.used]) else { return };
        let figures = self.fits.iter().enumerate().filter_map(|(index, fit)| Some((index, figure(fit)?)));
        let best = figures.min_by(|a, b| a.1.total_cmp(&b.1));
        if let Some((index, error)) = best
            && error < current * SWITCH_RATIO
        {
            self.used = index;
        }
    }

    /// Adopts the level of these values, which follow the `earlier` snapshot. Returns the shift of the
    /// profile.
    pub(super) fn shift_to(&mut self, values: &[(Timestamp, f64)], earlier: &Levels) -> f64 {
        let mut levels = earlier.levels;
        for (index, (season, _)) in MODELS.into_iter().enumerate() {
            let offsets =
                values.iter().filter_map(|(start, value)| Some(value - self.season(season, *start)?));
            let mut offsets: Vec<f64> = offsets.collect();
            if !offsets.is_empty() {
                let middle = offsets.len() / 2;
                levels[index] = Some(*offsets.select_nth_unstable_by(middle, f64::total_cmp).1);
            }
        }
        let used = earlier.used;
        let shift = levels[used].unwrap_or(0.0) - earlier.levels[used].unwrap_or(0.0);
        for (level, (new, (season, _))) in self.levels.iter_mut().zip(levels.into_iter().zip(MODELS)) {
            let moved = if season == DetectedSeason::Level { 0.0 } else { shift };
            *level = new.map(|new| new - moved);
        }
        self.profile.shift(shift);
        shift
    }

    /// Restores an earlier snapshot, and undoes the profile shift.
    pub(super) fn restore(&mut self, earlier: &Levels, shift: f64) {
        (self.used, self.levels) = (earlier.used, earlier.levels);
        self.profile.shift(-shift);
    }
}
