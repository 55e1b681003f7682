//! New levels: outliers in a row on one side, and the way back to the level before them.

use counter_core::Timestamp;

use super::models::{Levels, Models};

/// The number of outliers in a row, on one side, that are a new level.
const SHIFT: usize = 8;

/// The outliers up to the last value, and the level before the last shift.
#[derive(Clone, Debug)]
pub(super) struct Shifts {
    run: Run,
    before: Option<Before>,
    /// The seconds for which a level is remembered.
    memory: u64,
}

/// The outliers in a row up to the last value, on one side.
#[derive(Clone, Debug, Default)]
struct Run {
    is_above: bool,
    values: Vec<(Timestamp, f64)>,
    /// The levels before the first of them.
    levels: Levels,
}

/// The level before a shift.
#[derive(Clone, Debug)]
struct Before {
    levels: Levels,
    /// The amount by which the profile was moved.
    shift: f64,
    until: Timestamp,
}

impl Shifts {
    /// Creates the shifts of a series whose buckets are `width` seconds wide.
    pub(super) fn new(width: u64) -> Self {
        Self { run: Run::default(), before: None, memory: width + (100 * width).max(86_400) }
    }

    /// Returns the number of outliers in a row, up to the last value.
    pub(super) fn outliers(&self) -> usize {
        self.run.values.len()
    }

    /// Returns whether the profile was moved by a shift that may be undone.
    pub(super) fn is_shifted(&self) -> bool {
        self.before.as_ref().is_some_and(|before| before.shift != 0.0)
    }

    /// Forgets the outliers before a gap.
    pub(super) fn skip(&mut self) {
        self.run.values.clear();
    }

    /// Forgets a level that is too old to return to.
    pub(super) fn expire(&mut self, start: Timestamp) {
        self.before.take_if(|before| start >= before.until);
    }

    /// Returns the value that was expected of this bucket before the last shift.
    pub(super) fn expected_before(&self, models: &Models, start: Timestamp) -> Option<f64> {
        let before = self.before.as_ref().filter(|before| start < before.until)?;
        models.expected_with(&before.levels, before.shift, start)
    }

    /// Undoes the last shift.
    pub(super) fn undo(&mut self, models: &mut Models) {
        if let Some(before) = self.before.take() {
            models.return_to(&before.levels, before.shift);
            self.run.values.clear();
        }
    }

    /// Takes a value, which is beyond the band on the side that `is_above` names, if it is.
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

    /// Ends a run that was no new level: a level that has followed it may go back.
    fn end_run(&mut self, start: Timestamp) {
        if self.run.values.len() > 1 && self.before.is_none() {
            self.before = Some(self.before_run(0.0, start));
        }
        self.run.values.clear();
    }

    /// Continues from the level of the last outliers, if there are enough of them.
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
