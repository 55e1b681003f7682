//! Silences: empty buckets in a row, and the hits expected in this time.

use counter_core::Timestamp;

use super::models::{Levels, Models};
use super::scale::Scale;

/// The factor by which the longest silence is reduced with every bucket, so that it will be forgotten.
const DECAY: f64 = 1.0 - 1.0 / 4096.0;

/// The current silence, up to the latest bucket.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Silence {
    /// The levels at the start of the silence.
    initial_levels: Option<Levels>,
    /// The hits expected during the silence.
    missed: f64,
    /// The maximum of `missed` in recent silences.
    longest: f64,
    /// The moving average of the squared error.
    squares: f64,
    /// The moving average of the expected count.
    expected: f64,
}

impl Silence {
    /// Drops the current silence when there is a gap.
    pub(super) fn skip(&mut self) {
        (self.initial_levels, self.missed) = (None, 0.0);
    }

    /// Returns the hits expected since the most recent hit.
    pub(super) fn missed(&self) -> f64 {
        self.missed
    }

    /// Observes a count, with this weight in the averages.
    pub(super) fn observe(&mut self, models: &Models, start: Timestamp, count: f64, weight: f64) {
        let Some(expected) = models.expected(start) else { return };
        let expected = Scale::Counts.invert(expected);
        let levels = *self.initial_levels.get_or_insert_with(|| models.levels());
        let due = models.expected_with(&levels, 0.0, start).map_or(0.0, |due| Scale::Counts.invert(due));
        // We clamp the error so that an outlier can't ruin the average.
        let square = (count - expected).powi(2).min(100.0 * expected.max(0.05).max(self.squares));
        self.squares += weight * (square - self.squares);
        self.expected += weight * (expected - self.expected);
        self.longest *= DECAY;
        if count > 0.0 {
            self.longest = self.longest.max(self.missed);
            self.skip();
        } else {
            self.missed += due;
        }
    }

    /// Returns the probability that this number of hits is missing. We assume a Poisson distribution of hits
    /// or, if hits come in bursts, of bursts. A silence is normal if a recent silence was nearly as long.
    pub(super) fn probability(&self) -> f64 {
        if self.missed <= 1.5 * self.longest {
            return 1.0;
        }
        let burst_size = (self.squares / self.expected.max(f64::MIN_POSITIVE)).max(1.0);
        (-self.missed / burst_size).exp()
    }
}
