//! Level shifts: a run of outliers on the same side, and the return to the previous level.

use counter_core::Timestamp;

use super::models::{Levels, Models};

/// The number of consecutive outliers on the same side that make up a new level.
const SHIFT: usize = 8;

/// The current run of outliers, and the level prior to the latest shift.
#[derive(Clone, Debug)]
pub(super) struct Shifts {
    run: Run,
    before: Option<Before>,
    /// The seconds for which we remember a level.
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

/// The level prior to a shift.
#[derive(Clone, Debug)]
struct Before {
    levels: Levels,
    /// The amount by which the profile was shifted.
    shift: f64,
    until: Timestamp,
}

impl Shifts {
    /// Creates the state for buckets of this width, in seconds.
    pub(super) fn new(width: u64) -> Self {
        Self { run: Run::default(), before: None, memory: width + (100 * width).max(86_400) }
    }

    /// Returns the length of the current run.
    pub(super) fn outliers(&self) -> usize {
        self.run.values.len()
    }

    /// Returns `true` if the profile has been shifted, but the shift can still be undone.
    pub(super) fn is_shifted(&self) -> bool {
        self.before.as_ref().is_some_and(|before| before.shift != 0.0)
    }

    /// Drops the current run when there is a gap.
    pub(super) fn skip(&mut self) {
        self.run.values.clear();
    }

    /// Drops the previous level if it is too old to return to.
    pub(super) fn expire(&mut self, start: Timestamp) {
        self.before.take_if(|before| start >= before.until);
    }

    /// Returns the value that we would expect without the latest shift.
    pub(super) fn expected_before(&self, models: &Models, start: Timestamp) -> Option<f64> {
        let before = self.before.as_ref().filter(|before| start < before.until)?;
        models.expected_with(&before.levels, before.shift, start)
    }

    /// Undoes the latest shift.
    pub(super) fn undo(&mut self, models: &mut Models) {
        if let Some(before) = self.before.take() {
            models.return_to(&before.levels, before.shift);
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
        if self.run.values.len() > 1 && self.before.is_none() {
            self.before = Some(self.before_run(0.0, start));
        }
        self.run.values.clear();
    }

    /// Adopts the level of the current run, if it is long enough.
    pub(super) fn shift(&mut self, models: &mut Models, start: Timestamp) {
        if self.run.values.len() >= SHIFT {
            let values = std::mem::take(&mut self.run.values);
            let shift = models.shift_to(&values, &self.run.levels);
            self.before = Some(self.before_run(shift, start));
        }
    }

    fn before_run(&self, shift: f64, start: Timestamp) -> Before {
        Before { levels: self.run.levels, shift, until: start.plus(self.memory) }
    }
}
