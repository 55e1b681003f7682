//! The rule state: the number of buckets in a row that meet the condition, and the raised alert. This module
//! does not use a clock or a store.

use std::collections::BTreeMap;
use std::ops::Not;
use std::time::Duration;

use counter_core::Timestamp;
use serde::{Deserialize, Serialize};

use super::history::{Explanation, MAX_EXPLANATIONS};
use crate::alert::{Alert, AlertKind};
use crate::rules::rule::AlertRule;
use crate::rules::run::Run;
use crate::rules::verdict::Verdict;

/// The state of a rule, stored in the alerts document.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct RuleState {
    /// The end of the latest evaluated bucket, or 0 if there are none yet.
    pub(crate) judged: u64,
    /// What could not be read, if the latest bucket could not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) unread: Option<Unread>,
    /// The number of latest buckets in a row that meet the condition.
    met: u32,
    /// The number of latest buckets in a row that do not meet the condition. Either `met` or `unmet` is 0.
    pub(crate) unmet: u32,
    /// The start of the bucket that raised the alert, if the alert is raised.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) raised: Option<u64>,
    /// The time of the latest alert.
    last: u64,
    /// The number of alerts so far.
    number: u64,
    /// The known label values, with the start of the latest bucket in which they were in the top list.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    known: BTreeMap<String, u64>,
    /// The number of buckets used for learning.
    #[serde(default, skip_serializing_if = "is_zero")]
    learnt: u32,
    /// The latest buckets of the current run, oldest first: as many buckets as needed for a decision, and
    /// always the latest bucket.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) seen: Vec<Explanation>,
    /// The latest decision, with the deciding buckets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) decision: Option<Decision>,
    /// The end of the silence, in Unix seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) silenced: Option<u64>,
    /// True if the latest decision was withheld because the rule is silenced.
    #[serde(default, skip_serializing_if = "Not::not")]
    pub(crate) is_withheld: bool,
    /// True if the latest message sent was [`AlertKind::Raised`].
    #[serde(default, skip_serializing_if = "Not::not")]
    pub(crate) is_told_raised: bool,
}

/// What can't be read, e.g. a site, so that buckets can't be evaluated.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Unread {
    pub(crate) key: String,
    /// The start of the first bucket.
    pub(crate) since: u64,
}

/// A message that an alert is raised or resolved, with the deciding buckets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Decision {
    pub(crate) alert: Alert,
    pub(crate) buckets: Vec<Explanation>,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "required by serde")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// The maximum duration of a silence.
pub(crate) const MAX_SILENCE: Duration = Duration::from_secs(30 * 86_400);

/// The maximum time in seconds by which a clock may be ahead. A larger difference must be due to a wrong
/// clock.
pub(crate) const MAX_CLOCK_SKEW: u64 = 86_400;

/// The time in seconds to keep the state of a rule that is not evaluated.
const UNUSED_RULE_TTL: u64 = 7 * 86_400;

/// The number of non-empty buckets used to learn label values. During this time, values are not reported as
/// new.
const LEARNING_BUCKETS: u32 = 24;

/// The maximum number of label values to remember.
const MAX_KNOWN_VALUES: usize = 1000;

impl RuleState {
    /// Applies the verdict on the bucket with this start. Returns a decision if this changes the alert.
    pub(crate) fn apply(
        &mut self,
        rule: &AlertRule,
        start: Timestamp,
        verdict: Option<Verdict>,
    ) -> Option<Decision> {
        let end = start.plus(rule.precision.as_seconds().into()).as_unix();
        (self.judged, self.unread) = (end, None);
        let verdict = verdict?;
        (self.met, self.unmet) = match verdict.is_met {
            true => (self.met.saturating_add(1), 0),
            false => (0, self.unmet.saturating_add(1)),
        };
        // When a run ends, we drop its buckets. When nothing can change, we only keep the latest bucket.
        let row = match (self.raised, verdict.is_met) {
            (None, true) => rule.raise_after,
            (Some(_), false) => rule.resolve_after,
            _ => 1,
        };
        self.seen.retain(|seen| seen.is_met == verdict.is_met);
        self.seen.push(Explanation::of(start, verdict.clone()));
        self.seen.drain(..self.seen.len().saturating_sub(MAX_EXPLANATIONS.min(row as usize)));
        let is_paused = self.number > 0 && end < self.last.saturating_add(rule.pause.as_secs());
        match self.raised {
            None if self.met >= rule.raise_after && !is_paused => {
                (self.raised, self.last) = (Some(start.as_unix()), end);
                self.number += 1;
                Some(self.decide(rule, AlertKind::Raised, start, &verdict))
            }
            Some(_) if self.unmet >= rule.resolve_after => {
                self.raised = None;
                Some(self.decide(rule, AlertKind::Resolved, start, &verdict))
            }
            _ => None,
        }
    }

    /// Skips the bucket with this start, because this key could not be read.
    pub(crate) fn skip(&mut self, rule: &AlertRule, start: Timestamp, key: &str) {
        self.judged = start.plus(rule.precision.as_seconds().into()).as_unix();
        let since = self.unread.as_ref().map_or(start.as_unix(), |unread| unread.since);
        self.unread = Some(Unread { key: key.to_owned(), since });
    }

    /// Returns `true` if the rule was removed, i.e. was not evaluated for 7 days and is not silenced.
    pub(crate) fn is_unused(&self, now: Timestamp) -> bool {
        self.judged < now.minus(UNUSED_RULE_TTL).as_unix() && !self.is_silenced(now)
    }

    /// Returns `true` if the rule is silenced at this time.
    pub(crate) fn is_silenced(&self, now: Timestamp) -> bool {
        // A longer silence must come from a clock that was ahead.
        let longest = now.plus(MAX_SILENCE.as_secs() + MAX_CLOCK_SKEW).as_unix();
        self.silenced.is_some_and(|until| until > now.as_unix() && until <= longest)
    }

    fn decide(&mut self, rule: &AlertRule, kind: AlertKind, start: Timestamp, verdict: &Verdict) -> Decision {
        let alert = self.message(rule, kind, start, verdict);
        let decision = Decision { alert, buckets: self.seen.clone() };
        self.decision = Some(decision.clone());
        decision
    }

    fn message(&self, rule: &AlertRule, kind: AlertKind, start: Timestamp, verdict: &Verdict) -> Alert {
        let width = u64::from(rule.precision.as_seconds());
        let earlier = u64::from(self.met.max(self.unmet).saturating_sub(1));
        let run = Run { start, width, since: start.minus(earlier * width) };
        let word = if kind == AlertKind::Raised { "raised" } else { "resolved" };
        Alert {
            // The time keeps ids unique even if the state was lost.
            id: format!("{}:{}:{}:{word}", rule.name, self.last, self.number),
            rule: rule.name.clone(),
            kind,
            severity: rule.severity,
            precision: rule.precision.as_seconds(),
            start: start.as_unix(),
            value: verdict.value,
            bound: verdict.bound,
            reason: rule.condition.explain(verdict, run),
        }
    }

    /// Learns the most frequent label values in a bucket. The verdict is met if a value is new, and contains
    /// the most frequent new value.
    pub(crate) fn learn(&mut self, start: Timestamp, values: &[(String, u64)], min_count: u64) -> Verdict {
        let is_new = |(value, hits): &&(String, u64)| *hits >= min_count && !self.known.contains_key(value);
        let new = values.iter().find(is_new).filter(|_| self.learnt >= LEARNING_BUCKETS).cloned();
        self.learnt = self.learnt.saturating_add((!values.is_empty()).into());
        let frequent = values.iter().filter(|(_, hits)| *hits >= min_count);
        self.known.extend(frequent.map(|(value, _)| (value.clone(), start.as_unix())));
        while self.known.len() > MAX_KNOWN_VALUES {
            let oldest = self.known.iter().min_by_key(|(_, last)| **last).map(|(value, _)| value.clone());
            self.known.remove(&oldest.unwrap_or_default());
        }
        let hits = new.as_ref().map_or(0, |(_, hits)| *hits);
        let label = new.map(|(value, _)| value);
        let verdict = Verdict::new(label.is_some(), hits as f64, min_count as f64);
        Verdict { label, ..verdict }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use counter_core::Precision;

    fn rule() -> AlertRule {
        let minute = Precision::MINUTE;
        AlertRule::above("busy", "hits".parse().expect("a name"), minute, 10)
    }

    /// Returns the decisions for buckets with these hits. `None` is a bucket that can't be read.
    fn decisions(rule: &AlertRule, hits: &[Option<u64>]) -> Vec<(usize, AlertKind)> {
        let mut state = RuleState::default();
        let apply = |(minute, hits): (usize, &Option<u64>)| {
            let verdict = rule.condition.evaluate(|_| *hits);
            let decision = state.apply(rule, Timestamp::from_unix(60 * minute as u64), verdict)?;
            Some((minute, decision.alert.kind))
        };
        hits.iter().enumerate().filter_map(apply).collect()
    }

    #[test]
    fn alerts_are_raised_and_resolved_after_consecutive_buckets() {
        use AlertKind::{Raised, Resolved};
        let (low, high, unknown) = (Some(10), Some(11), None);
        assert_eq!(decisions(&rule(), &[low, high, high, low]), [(1, Raised), (3, Resolved)]);
        let slow = rule().raise_after(3).resolve_after(2);
        assert_eq!(decisions(&slow, &[high, high, low, high, high, high]), [(5, Raised)]);
        // An unknown bucket should not raise or resolve the alert, and should not restart the run.
        assert_eq!(decisions(&slow, &[high, unknown, high, unknown, high]), [(4, Raised)]);
        let hits = [high, high, high, low, unknown, high, low, unknown, low];
        assert_eq!(decisions(&slow, &hits), [(2, Raised), (8, Resolved)]);
    }

    #[test]
    fn deciding_buckets_and_the_latest_bucket_are_retained() {
        let (rule, mut state) = (rule().raise_after(3).resolve_after(2), RuleState::default());
        let retained = [0, 0, 11, 11, 11, 11, 0, 0, 0].map(|hits| {
            let verdict = rule.condition.evaluate(|_| Some(hits));
            state.apply(&rule, Timestamp::from_unix(state.judged.max(60)), verdict);
            assert_eq!(
                state.seen.last().map(|last| (last.start + 60, last.value)),
                Some((state.judged, hits as f64))
            );
            state.seen.len()
        });
        assert_eq!(retained, [1, 1, 1, 2, 3, 1, 1, 2, 1]);
    }

    #[test]
    fn the_state_of_older_versions_can_be_read() {
        let written = r#"{
            "judged": 120, "met": 0, "unmet": 2, "raised": null, "last": 0, "number": 0,
            "seen": [
                { "start": 0, "is_met": false, "value": 1.0, "bound": 10.0 },
                { "start": 60, "is_met": false, "value": 2.0, "bound": 10.0 }
            ],
            "is_withheld": false, "is_told_raised": false
        }"#;
        let mut state: RuleState = serde_json::from_str(written).expect("a state");
        assert_eq!((state.judged, state.unmet, state.seen.len()), (120, 2, 2));
        let (rule, verdict) = (rule(), rule().condition.evaluate(|_| Some(3)));
        assert!(state.apply(&rule, Timestamp::from_unix(120), verdict).is_none());
        assert_eq!(state.seen.iter().map(|of| of.value).collect::<Vec<_>>(), [3.0]);
        let quiet = serde_json::to_string(&state).expect("finite numbers");
        // Older versions need these fields.
        for field in ["judged", "met", "unmet", "last", "number"] {
            assert!(quiet.contains(&format!("\"{field}\":")), "{quiet}");
        }
        assert!(!quiet.contains("null") && !quiet.contains("is_told_raised"), "{quiet}");
    }

    #[test]
    fn an_alert_is_not_raised_again_during_the_pause() {
        use AlertKind::{Raised, Resolved};
        let rule = rule().pause(Duration::from_secs(300));
        let hits = [11, 0, 11, 0, 11, 11, 11].map(Some);
        assert_eq!(decisions(&rule, &hits), [(0, Raised), (1, Resolved), (5, Raised)]);
        let always = rule.clone().pause(Duration::MAX);
        assert_eq!(decisions(&always, &hits), [(0, Raised), (1, Resolved)]);
    }

    proptest! {
        #[test]
        fn raised_and_resolved_alternate_with_unique_ids(
            hits in prop::collection::vec(prop::option::of(0..20_u64), 0..200),
            raise_after in 0..4_u32,
            resolve_after in 0..4_u32,
        ) {
            let rule = rule().raise_after(raise_after).resolve_after(resolve_after);
            let (mut state, mut ids, mut last) = (RuleState::default(), Vec::new(), AlertKind::Resolved);
            for (minute, hits) in hits.into_iter().enumerate() {
                let verdict = rule.condition.evaluate(|_| hits);
                if let Some(decision) = state.apply(&rule, Timestamp::from_unix(60 * minute as u64), verdict) {
                    let Decision { alert, buckets } = decision;
                    let after = if alert.kind == AlertKind::Raised { raise_after } else { resolve_after };
                    prop_assert_eq!(buckets.len(), after.max(1) as usize);
                    prop_assert!(buckets.iter().all(|of| of.is_met == (alert.kind == AlertKind::Raised)));
                    prop_assert_eq!(buckets.last().map(|of| (of.start, of.value)), Some((alert.start, alert.value)));
                    prop_assert_ne!(alert.kind, last);
                    prop_assert_eq!(alert.kind == AlertKind::Raised, alert.value > 10.0);
                    prop_assert!(!ids.contains(&alert.id));
                    last = alert.kind;
                    ids.push(alert.id);
                }
            }
            prop_assert_eq!(state.raised.is_some(), last == AlertKind::Raised);
        }
    }
}
