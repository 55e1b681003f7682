//! Silences: buckets without hits, and the hits that were expected in them.

use counter_core::Timestamp;

use super::models::{Levels, Models};
use super::scale::Scale;

/// The part of the longest silence that is left one bucket later.
const FORGOTTEN: f64 = 1.0 - 1.0 / 4096.0;

/// The buckets without hits up to the last one.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Silence {
    /// The levels at their begin.
    begun: Option<Levels>,
    /// The hits that were expected in them.
    missed: f64,
    /// The most that were missed in one of the silences of late.
    longest: f64,
    /// The recent means of the squared error of counts and of the expected count.
    squares: f64,
    expected: f64,
}

impl Silence {
    /// Ends a silence without an answer, at a gap.
    pub(super) fn skip(&mut self) {
        (self.begun, self.missed) = (None, 0.0);
    }

    /// Returns the hits that were expected since the last one.
    pub(super) fn missed(&self) -> f64 {
        self.missed
    }

    /// Takes a count, which has this weight in the means.
    pub(super) fn observe(&mut self, models: &Models, start: Timestamp, count: f64, weight: f64) {
        let Some(expected) = models.expected(start) else { return };
        let expected = Scale::Counts.invert(expected);
        let levels = *self.begun.get_or_insert_with(|| models.levels());
        let due = models.expected_with(&levels, 0.0, start).map_or(0.0, |due| Scale::Counts.invert(due));
        // An outlier widens it, but does not end it.
        let square = (count - expected).powi(2).min(100.0 * expected.max(0.05).max(self.squares));
        self.squares += weight * (square - self.squares);
        self.expected += weight * (expected - self.expected);
        self.longest *= FORGOTTEN;
        if count > 0.0 {
            self.longest = self.longest.max(self.missed);
            self.skip();
        } else {
            self.missed += due;
        }
    }

    /// Returns the probability that this number of expected hits is missing, by a Poisson distribution of hits or, if hits come
    /// in groups, of groups. A silence is usual if a recent one was nearly as long.
    pub(super) fn probability(&self) -> f64 {
        if self.missed <= 1.5 * self.longest {
            return 1.0;
        }
        let together = (self.squares / self.expected.max(f64::MIN_POSITIVE)).max(1.0);
        (-self.missed / together).exp()
    }
}
