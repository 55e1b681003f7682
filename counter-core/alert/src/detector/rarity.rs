//! Rarity: the rank of a value's deviation from the time of day among all deviations so far.
//!
//! The profile is not protected from outliers, and does not follow the level, so that slow changes remain
//! visible. We rank the deviation of a value and, to detect a long and small change, the moving average of
//! the latest deviations.

use counter_core::{Precision, Timestamp};

use super::profile::Profile;
use super::sizes::Sizes;

/// The weight of the latest day in the profile.
const DAY_WEIGHT: f64 = 0.1;
/// The weight of the latest deviation in the moving average.
const DRIFT_WEIGHT: f64 = 0.05;
/// A deviation is part of an event if its share is smaller than this.
const EVENT_SHARE: f64 = 1e-3;
/// The maximum number of deviations to learn from an event.
pub(super) const MAX_EVENT_ERRORS: usize = 3;

/// The ranks of the latest deviation and drift.
#[derive(Clone, Debug)]
pub(super) struct Rarity {
    profile: Profile,
    deviations: Sizes,
    drifts: Sizes,
    drift: f64,
    /// The length of the current event.
    event: usize,
}

impl Rarity {
    pub(super) fn new(precision: Precision) -> Self {
        let (deviations, drifts) = Default::default();
        Self { profile: Profile::daily(precision, DAY_WEIGHT), deviations, drifts, drift: 0.0, event: 0 }
    }

    /// Observes a value. Returns the share of earlier deviations or drifts that were at least as large.
    pub(super) fn observe(&mut self, start: Timestamp, value: f64) -> f64 {
        let expected = self.profile.day(start);
        self.profile.add(start, value);
        let Some(deviation) = expected.map(|expected| value - expected) else { return 1.0 };
        self.drift += DRIFT_WEIGHT * (deviation - self.drift);
        let (deviation, drift) = (deviation.abs(), self.drift.abs());
        let share = self.deviations.share_above(deviation);
        let share_of_drift = self.drifts.share_above(drift);
        self.event = if share < EVENT_SHARE { self.event + 1 } else { 0 };
        if self.event <= MAX_EVENT_ERRORS {
            self.deviations.add(deviation);
        }
        self.drifts.add(drift);
        share.min(share_of_drift)
    }
}
