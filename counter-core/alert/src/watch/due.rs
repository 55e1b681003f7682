use std::ops::Range;

use counter_core::Timestamp;

use super::state::{MAX_CLOCK_SKEW, RuleState};
use crate::rules::condition::Condition;
use crate::rules::rule::AlertRule;

/// A rule with the buckets to evaluate.
#[derive(Debug)]
pub(super) struct Due<'a> {
    pub(super) rule: &'a AlertRule,
    pub(super) range: Range<Timestamp>,
}

/// The maximum number of buckets that a rule will catch up with.
const MAX_CATCH_UP: u64 = 60;

/// The maximum number of past buckets for [`Condition::Dead`].
const MAX_DEAD_HISTORY: u32 = 366;

/// The maximum number of buckets to catch up with for a label rule, because each of these needs its own read.
const MAX_LABEL_CATCH_UP: u64 = 3;

impl<'a> Due<'a> {
    /// Returns the rule with all buckets that were closed by `end` but are not evaluated yet, if any.
    pub(super) fn of(rule: &'a AlertRule, state: Option<&RuleState>, end: Timestamp) -> Option<Self> {
        let width = u64::from(rule.precision.as_seconds());
        let end = rule.precision.bucket(end).start;
        let (before, catch_up) = match rule.condition {
            Condition::Dead { .. } => {
                (rule.raise_after.min(MAX_DEAD_HISTORY).into(), MAX_DEAD_HISTORY.into())
            }
            Condition::NewLabel { .. } => (1, MAX_LABEL_CATCH_UP),
            _ => (1, MAX_CATCH_UP),
        };
        let first = match state.map_or(0, |state| state.judged) {
            0 => end.minus(before * width),
            judged if judged > end.as_unix().saturating_add(MAX_CLOCK_SKEW) => end.minus(width),
            judged => {
                rule.precision.bucket(Timestamp::from_unix(judged)).start.max(end.minus(catch_up * width))
            }
        };
        (first < end).then_some(Self { rule, range: first..end })
    }

    pub(super) fn starts(&self) -> impl Iterator<Item = Timestamp> + use<'a> {
        self.rule.precision.starts(self.range.clone())
    }
}
