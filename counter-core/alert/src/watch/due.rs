use std::ops::Range;

use counter_core::Timestamp;

use super::state::{AHEAD, RuleState};
use crate::rules::condition::Condition;
use crate::rules::rule::AlertRule;

/// A rule with the buckets of it that are to be judged.
#[derive(Debug)]
pub(super) struct Due<'a> {
    pub(super) rule: &'a AlertRule,
    pub(super) range: Range<Timestamp>,
}

/// The buckets that a rule catches up with after a pause.
const CATCH_UP: u64 = 60;

/// The buckets before the first pass that a rule about dead routes looks at.
const BEFORE: u32 = 366;

/// The maximum number of past buckets for a rule about a label: each takes a separate read.
const LABELS: u64 = 3;

impl<'a> Due<'a> {
    /// Returns the rule with its buckets that have closed by `end`, from the end of the last that was judged; `None` where
    /// there are none.
    pub(super) fn of(rule: &'a AlertRule, state: Option<&RuleState>, end: Timestamp) -> Option<Self> {
        let width = u64::from(rule.precision.as_seconds());
        let end = rule.precision.bucket(end).start;
        let (before, catch_up) = match rule.condition {
            Condition::Dead { .. } => (rule.raise_after.min(BEFORE).into(), BEFORE.into()),
            Condition::NewLabel { .. } => (1, LABELS),
            _ => (1, CATCH_UP),
        };
        let first = match state.map_or(0, |state| state.judged) {
            0 => end.minus(before * width),
            judged if judged > end.as_unix().saturating_add(AHEAD) => end.minus(width),
            judged => {
                rule.precision.bucket(Timestamp::from_unix(judged)).start.max(end.minus(catch_up * width))
            }
        };
        (first < end).then_some(Self { rule, range: first..end })
    }

    /// Returns the starts of the buckets.
    pub(super) fn starts(&self) -> impl Iterator<Item = Timestamp> + use<'a> {
        self.rule.precision.starts(self.range.clone())
    }
}
