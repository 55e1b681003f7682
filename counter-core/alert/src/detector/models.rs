//! Models of a series, which are compared by their errors: each has a season, and a level around it.

use counter_core::{Precision, Timestamp};

use super::profile::Profile;

/// The season by which a [`Detector`](super::Detector) expects values.
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

/// The weight of the latest error in the figure by which models are compared.
const COMPARED: f64 = 0.01;
/// A model is replaced by one whose squared errors are smaller by this factor.
const BETTER: f64 = 0.95;

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

/// The model that needs no season and no long history.
const DEFAULT: usize = 1;

/// The least weight of an error in a level after a gap.
const AFTER_GAP: f64 = 0.5;

/// A value for each model.
pub(super) type Each<T> = [T; MODELS.len()];

/// All models, and which one is in use.
#[derive(Clone, Debug)]
pub(super) struct Models {
    profile: Profile,
    levels: Each<Option<f64>>,
    fits: Each<Fit>,
    used: usize,
}

/// The mean squared error of a model, and the weight of the values that it is a mean of.
#[derive(Clone, Copy, Debug, Default)]
struct Fit {
    error: f64,
    weight: f64,
}

/// The model that was used, and the levels of all models, at one instant.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Levels {
    pub(super) used: usize,
    levels: Each<Option<f64>>,
}

impl Models {
    pub(super) fn new(precision: Precision) -> Self {
        let (levels, fits) = (Default::default(), Default::default());
        Self { profile: Profile::new(precision), levels, fits, used: DEFAULT }
    }

    /// Returns the season of the model that is used.
    pub(super) fn used_season(&self) -> DetectedSeason {
        MODELS[self.used].0
    }

    /// Returns the model that is used, and all levels.
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

    /// Returns the value that each model expects.
    pub(super) fn all_expected(&self, start: Timestamp) -> Each<Option<f64>> {
        let (day, week) = (self.profile.day(start), self.profile.week(start));
        std::array::from_fn(|place| {
            let level = self.levels[place];
            match MODELS[place].0 {
                DetectedSeason::Level => level,
                DetectedSeason::Day => Some(day? + level.unwrap_or(0.0)),
                DetectedSeason::Week => Some(week? + level.unwrap_or(0.0)),
            }
        })
    }

    /// Returns the value that the model expects which is used.
    pub(super) fn expected(&self, start: Timestamp) -> Option<f64> {
        self.expected_by(self.used, start)
    }

    /// Returns the value that is expected without a season.
    pub(super) fn expected_without_season(&self) -> Option<f64> {
        self.levels[DEFAULT]
    }

    fn expected_by(&self, place: usize, start: Timestamp) -> Option<f64> {
        let season = self.season(MODELS[place].0, start)?;
        // The profile is a level by itself.
        let level = self.levels[place];
        if MODELS[place].0 == DetectedSeason::Level { level } else { Some(season + level.unwrap_or(0.0)) }
    }

    /// Returns the value that is expected with earlier levels, if the profile was moved by `shift` since then.
    pub(super) fn expected_with(&self, earlier: &Levels, shift: f64, start: Timestamp) -> Option<f64> {
        let (season, _) = MODELS[earlier.used];
        let usual = self.season(season, start)?;
        let moved = if season == DetectedSeason::Level { 0.0 } else { shift };
        Some(usual - moved + earlier.levels[earlier.used].unwrap_or(0.0))
    }

    /// Learns the seasons from a value.
    pub(super) fn learn_season(&mut self, start: Timestamp, value: f64) {
        self.profile.add(start, value);
    }

    /// Moves all levels towards a value. `bounded` limits the error that a level follows, and `max_square` the squared error
    /// by which models are compared.
    pub(super) fn follow(
        &mut self,
        expected: &Each<Option<f64>>,
        value: f64,
        bounded: impl Fn(f64) -> f64,
        max_square: f64,
        is_after_gap: bool,
    ) {
        for (place, (season, weight)) in MODELS.into_iter().enumerate() {
            let Some(expected) = expected[place] else {
                if season == DetectedSeason::Level {
                    self.levels[place] = Some(value);
                }
                continue;
            };
            let error = value - expected;
            let weight = if is_after_gap { weight.max(AFTER_GAP) } else { weight };
            self.levels[place] = Some(self.levels[place].unwrap_or(0.0) + weight * bounded(error));
            let fit = &mut self.fits[place];
            fit.error += COMPARED * (error.powi(2).min(max_square) - fit.error);
            fit.weight += COMPARED * (1.0 - fit.weight);
        }
    }

    /// Uses the model with the smallest errors, of those that were compared for long enough.
    pub(super) fn choose(&mut self) {
        let figure = |fit: &Fit| (fit.weight > 0.2).then(|| fit.error / fit.weight);
        let Some(current) = figure(&self.fits[self.used]) else { return };
        let figures = self.fits.iter().enumerate().filter_map(|(place, fit)| Some((place, figure(fit)?)));
        let best = figures.min_by(|one, other| one.1.total_cmp(&other.1));
        if let Some((place, error)) = best
            && error < current * BETTER
        {
            self.used = place;
        }
    }

    /// Adopts the level of these values, which came after `earlier`; returns the shift of the profile.
    pub(super) fn shift_to(&mut self, values: &[(Timestamp, f64)], earlier: &Levels) -> f64 {
        let mut levels = earlier.levels;
        for (place, (season, _)) in MODELS.into_iter().enumerate() {
            let beyond =
                values.iter().filter_map(|(start, value)| Some(value - self.season(season, *start)?));
            let mut beyond: Vec<f64> = beyond.collect();
            if !beyond.is_empty() {
                let middle = beyond.len() / 2;
                levels[place] = Some(*beyond.select_nth_unstable_by(middle, f64::total_cmp).1);
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

    /// Returns to earlier levels, from which the profile was moved by `shift`.
    pub(super) fn return_to(&mut self, earlier: &Levels, shift: f64) {
        (self.used, self.levels) = (earlier.used, earlier.levels);
        self.profile.shift(-shift);
    }
}
