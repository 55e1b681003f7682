//! Level shifts: a run of outliers on the same side, and the return to the previous level.

use counter_core::Timestamp;

use super::models::{Levels, Models};

/// The number of consecutive outliers on the same side that make up a new level.
const MIN_SHIFT_OUTLIERS: usize = 8;

/// The current run of outliers, and the level prior to the latest shift.
#[derive(Clone, Debug)]
pub(super) struct Shifts {
    run: Run,
    previous: Option<PreviousLevel>,
    /// The seconds for which the previous level is remembered.
    memory: u64,
}

/// A run of consecutive outliers on the same side, up to the latest value.
#[derive(Clone, Debug, Default)]
struct Run {
    is_above: bool,
    values: Vec<(Timestamp, f64)>,
    /// The levels at the start of the run.
    levels: Levels,
}

/// The level prior to the latest shift, to which the series may return.
#[derive(Clone, Debug)]
struct PreviousLevel {
    levels: Levels,
    /// The amount by which the profile was shifted.
    shift: f64,
    until: Timestamp,
}

impl Shifts {
    /// Creates the state for buckets of this width, in seconds.
    pub(super) fn new(width: u64) -> Self {
        Self { run: Run::default(), previous: None, memory: width + (100 * width).max(86_400) }
    }

    /// Returns the length of the current run.
    pub(super) fn outliers(&self) -> usize {
        self.run.values.len()
    }

    /// Returns `true` if the profile has been shifted, but the shift can still be undone.
    pub(super) fn is_shifted(&self) -> bool {
        self.previous.as_ref().is_some_and(|previous| previous.shift != 0.0)
    }

    /// Drops the current run when there is a gap.
    pub(super) fn skip(&mut self) {
        self.run.values.clear();
    }

    /// Drops the previous level if it is too old to return to.
    pub(super) fn expire(&mut self, start: Timestamp) {
        self.previous.take_if(|previous| start >= previous.until);
    }

    /// Returns the value that we would expect without the latest shift.
    pub(super) fn expected_before_shift(&self, models: &Models, start: Timestamp) -> Option<f64> {
        let previous = self.previous.as_ref().filter(|previous| start < previous.until)?;
        models.expected_with(&previous.levels, previous.shift, start)
    }

    /// Undoes the latest shift.
    pub(super) fn undo(&mut self, models: &mut Models) {
        if let Some(previous) = self.previous.take() {
            models.restore(&previous.levels, previous.shift);
            self.run.values.clear();
        }
    }

    /// Observes a value. `is_above` is the side on which the value is an outlier, if any.
    pub(super) fn observe(&mut self, models: &Models, start: Timestamp, value: f64, is_above: Option<bool>) {
        if is_above != Some(self.run.is_above) {
            self.end_run(start);
        }
        if let Some(is_above) = is_above {
            if self.run.values.is_empty() {
                self.run.levels = models.levels();
            }
            self.run.is_above = is_above;
            self.run.values.push((start, value));
        }
    }

    /// Ends a run that was too short to be a new level. A level might have followed it, so we need to be able
    /// to go back.
    fn end_run(&mut self, start: Timestamp) {
        if self.run.values.len() > 1 && self.previous.is_none() {
            self.previous = Some(self.previous_level(0.0, start));
        }
        self.run.values.clear();
    }

    /// Adopts the level of the current run, if it is long enough.
    pub(super) fn shift(&mut self, models: &mut Models, start: Timestamp) {
        if self.run.values.len() >= MIN_SHIFT_OUTLIERS {
            let values = std::mem::take(&mut self.run.values);
            let shift = models.shift_to(&values, &self.run.levels);
            self.previous = Some(self.previous_level(shift, start));
        }
    }

    fn previous_level(&self, shift: f64, start: Timestamp) -> PreviousLevel {
        PreviousLevel { levels: self.run.levels, shift, until: start.plus(self.memory) }
    }
}
