//! The state shared by the watches of all processes: the rule states, the outbox, and the history.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;

use counter_core::internal::emit;
use counter_core::{Error, ErrorKind, Timestamp};
use serde::{Deserialize, Serialize};

use super::history::{Arrival, HistoryEntry, MAX_HISTORY};
use super::state::{Decision, RuleState};
use crate::alert::{Alert, AlertKind};
use crate::document::DocumentVersion;
use crate::message::Message;

/// The content of the alerts document: the state of all rules, and the undelivered messages.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Shared {
    #[serde(default)]
    version: DocumentVersion<2>,
    pub(crate) rules: BTreeMap<String, RuleState>,
    pub(crate) outbox: Vec<Outgoing>,
    /// The end of the latest reported day or week, by report name.
    #[serde(default)]
    pub(crate) reports: BTreeMap<String, u64>,
    /// The keys that can't be read, so that rules can't be evaluated, for which a message was sent.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    told_unread: BTreeSet<String>,
    /// The latest alerts and tests, oldest first.
    #[serde(default)]
    pub(crate) history: VecDeque<HistoryEntry>,
}

/// An undelivered message in the outbox.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Outgoing {
    pub(crate) message: Message,
    /// The id of the watch that has claimed the message. Empty if the message waits for a retry.
    holder: String,
    /// The end of the claim or of the retry delay, in Unix seconds.
    until: u64,
    /// The number of failed deliveries.
    failures: u32,
}

/// The name of the document with the state of all rules, in the document store.
pub(crate) const DOCUMENT: &str = "alerts";

/// The time in seconds for which a claim is valid.
const CLAIM_TTL: u64 = 60;

/// The retry delay after the first failed delivery, in seconds. The delay doubles up to the maximum.
const MIN_RETRY_DELAY: u64 = 10;
/// The maximum retry delay, in seconds.
const MAX_RETRY_DELAY: u64 = 600;

/// The maximum number of messages in the outbox.
const MAX_OUTBOX: usize = 1000;

impl Shared {
    pub(crate) fn decode(content: &[u8]) -> Result<Self, Error> {
        if content.is_empty() {
            return Ok(Self::default());
        }
        serde_json::from_slice(content)
            .map_err(|error| Error::new(ErrorKind::Malformed { key: "alerts".to_owned() }).caused_by(error))
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("numbers are finite, and keys are strings")
    }

    /// Records the decision of a rule, and sends the message, unless the rule is silenced.
    pub(crate) fn decide(&mut self, decision: Decision, now: Timestamp) {
        let Decision { alert, buckets } = decision;
        let state = self.rules.entry(alert.rule.clone()).or_default();
        state.is_withheld = state.is_silenced(now);
        let arrival = if state.is_withheld { Arrival::Silenced } else { Arrival::Waiting };
        if !state.is_withheld {
            state.is_told_raised = alert.kind == AlertKind::Raised;
        }
        self.record(HistoryEntry { alert: alert.clone(), at: now.as_unix(), arrival, buckets });
        if arrival == Arrival::Waiting {
            self.push(Message::Alert(alert));
        }
    }

    /// Sends a message if rules can't be evaluated because of a key for which there was none, or if all rules can be evaluated
    /// again. `reasons` contains the reason for each key that could not be read now.
    pub(crate) fn tell_unread(
        &mut self,
        is_known: impl Fn(&str) -> bool,
        reasons: &BTreeMap<String, String>,
        now: Timestamp,
    ) {
        let known = self.rules.iter().filter(|(name, _)| is_known(name));
        let unread: Vec<_> =
            known.filter_map(|(_, state)| Some(state.unread.as_ref()?.key.clone())).collect();
        let keys: BTreeSet<_> = unread.iter().cloned().collect();
        let mut new = keys.difference(&self.told_unread).filter_map(|key| reasons.get(key));
        let alert = match new.next() {
            Some(reason) => Alert::unknown(unread.len(), reason, now),
            None if keys.is_empty() && !self.told_unread.is_empty() => Alert::known(now),
            None => {
                self.told_unread.retain(|key| keys.contains(key));
                return;
            }
        };
        self.told_unread = keys;
        let (at, arrival, buckets) = (now.as_unix(), Arrival::Waiting, Vec::new());
        self.record(HistoryEntry { alert: alert.clone(), at, arrival, buckets });
        self.push(Message::Alert(alert));
    }

    /// Ends expired silences.
    pub(crate) fn end_silences(&mut self, now: Timestamp) {
        let is_over = |state: &RuleState| state.silenced.is_some() && !state.is_silenced(now);
        let over = self.rules.iter().filter(|(_, state)| is_over(state)).map(|(name, _)| name.clone());
        for rule in over.collect::<Vec<_>>() {
            self.end_silence(&rule, now);
        }
    }

    /// Ends the silence of a rule, and sends an update if the receivers missed a change, i.e. if the alert is
    /// now raised, or if an alert they have received is now resolved.
    pub(crate) fn end_silence(&mut self, rule: &str, now: Timestamp) {
        let Some(state) = self.rules.get_mut(rule) else { return };
        state.silenced = None;
        let withheld = if std::mem::take(&mut state.is_withheld) { state.decision.clone() } else { None };
        let Some(Decision { alert, buckets }) = withheld else { return };
        let is_raised = alert.kind == AlertKind::Raised;
        if is_raised || state.is_told_raised {
            state.is_told_raised = is_raised;
            self.history.retain(|entry| entry.alert.id != alert.id);
            let (at, arrival) = (now.as_unix(), Arrival::Waiting);
            self.record(HistoryEntry { alert: alert.clone(), at, arrival, buckets });
            self.push(Message::Alert(alert));
        }
    }

    /// Returns the pending test, or adds a new test when no test is pending.
    pub(crate) fn test(&mut self, now: Timestamp) -> Alert {
        let waiting = self.outbox.iter().find_map(|outgoing| match &outgoing.message {
            Message::Alert(alert) if alert.kind == AlertKind::Test => Some(alert.clone()),
            _ => None,
        });
        if let Some(test) = waiting {
            return test;
        }
        let (alert, at) = (Alert::test(now), now.as_unix());
        let (arrival, buckets) = (Arrival::Waiting, Vec::new());
        self.record(HistoryEntry { alert: alert.clone(), at, arrival, buckets });
        self.push(Message::Alert(alert.clone()));
        alert
    }

    /// Adds a message to the history, and removes the oldest message if the history is full.
    fn record(&mut self, entry: HistoryEntry) {
        self.history.push_back(entry);
        self.history.drain(..self.history.len().saturating_sub(MAX_HISTORY));
    }

    /// Adds a message to the outbox. If the outbox is full, this drops the oldest message.
    pub(crate) fn push(&mut self, message: Message) {
        self.outbox.push(Outgoing { message, holder: String::new(), until: 0, failures: 0 });
        if self.outbox.len() > MAX_OUTBOX {
            let lost = self.outbox.remove(0).message;
            emit(|| {
                tracing::error!(lost = lost.title(), "outbox is full, dropping the oldest message");
            });
            self.set_arrival(lost.id(), Arrival::Lost);
        }
    }

    fn set_arrival(&mut self, id: &str, arrival: Arrival) {
        let entry = self.history.iter_mut().rev().find(|entry| entry.alert.id == id);
        if let Some(entry) = entry {
            entry.arrival = arrival;
        }
    }

    /// Returns the alerts raised in this range.
    pub(crate) fn raised_in(&self, range: &Range<Timestamp>) -> Vec<Alert> {
        let range = range.start.as_unix()..range.end.as_unix();
        let alerts = self.history.iter().map(|entry| &entry.alert);
        alerts
            .filter(|alert| alert.kind == AlertKind::Raised && range.contains(&alert.start))
            .cloned()
            .collect()
    }

    /// Claims all messages in order, except for paused messages and claims of other watches.
    pub(crate) fn claim(&mut self, holder: &str, now: Timestamp) -> Vec<Message> {
        let now = now.as_unix();
        // A longer claim must be due to a clock that was ahead.
        let is_free = |outgoing: &&mut Outgoing| {
            outgoing.holder == holder
                || outgoing.until <= now
                || outgoing.until > now.saturating_add(MAX_RETRY_DELAY)
        };
        let free = self.outbox.iter_mut().filter(is_free).map(|outgoing| {
            (outgoing.holder, outgoing.until) = (holder.to_owned(), now.saturating_add(CLAIM_TTL));
            outgoing.message.clone()
        });
        free.collect()
    }

    /// Removes delivered messages. The remaining messages of this watch can be retried by any watch when the
    /// delay is over.
    pub(crate) fn finish(&mut self, holder: &str, arrived: &[String], now: Timestamp) {
        for id in arrived {
            self.set_arrival(id, Arrival::Arrived(now.as_unix()));
        }
        self.outbox.retain(|outgoing| !arrived.iter().any(|id| id == outgoing.message.id()));
        for outgoing in self.outbox.iter_mut().filter(|outgoing| outgoing.holder == holder) {
            outgoing.failures = outgoing.failures.saturating_add(1);
            outgoing.holder.clear();
            outgoing.until = now.as_unix().saturating_add(retry_delay(outgoing.failures));
        }
    }
}

/// Returns the retry delay in seconds for this number of failures.
pub(crate) fn retry_delay(failures: u32) -> u64 {
    let doubled = 1_u64.checked_shl(failures.saturating_sub(1)).unwrap_or(u64::MAX);
    doubled.saturating_mul(MIN_RETRY_DELAY).min(MAX_RETRY_DELAY)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::rules::rule::AlertRule;
    use crate::watch::state::Unread;
    use counter_core::Precision;

    #[derive(Clone, Debug)]
    enum Step {
        Bucket(Option<u64>),
        /// The duration in minutes; 0 ends the silence.
        Silence(u64),
        /// The time in minutes for which we do not run a watch.
        Idle(u64),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => prop::option::of(0..20_u64).prop_map(Step::Bucket),
            1 => (0..10_u64).prop_map(Step::Silence),
            1 => (1..5_u64).prop_map(Step::Idle),
        ]
    }

    proptest! {
        #[test]
        fn silenced_rules_send_no_messages_and_update_receivers_when_the_silence_ends(
            steps in prop::collection::vec(step(), 0..200),
            raise_after in 1..3_u32,
        ) {
            let minute = Precision::MINUTE;
            let rule = AlertRule::above("busy", "hits".parse().expect("a name"), minute, 10).raise_after(raise_after);
            let (mut shared, mut now, mut until) = (Shared::default(), Timestamp::from_unix(6000), 0);
            let (mut ids, mut is_known_raised) = (Vec::new(), false);
            for step in steps {
                match step {
                    Step::Idle(minutes) => {
                        now = now.plus(60 * minutes);
                        continue;
                    }
                    Step::Silence(0) => {
                        until = 0;
                        shared.end_silence("busy", now);
                    }
                    Step::Silence(minutes) => {
                        until = now.plus(60 * minutes).as_unix();
                        // The previous silence may have run out, but no watch has ended it yet.
                        shared.rules.entry("busy".to_owned()).or_default().silenced = Some(until);
                    }
                    Step::Bucket(hits) => {
                        now = now.plus(60);
                        shared.end_silences(now);
                        let state = shared.rules.entry("busy".to_owned()).or_default();
                        let verdict = rule.condition.evaluate(|_| hits);
                        if let Some(decision) = state.apply(&rule, now.minus(60), verdict) {
                            shared.decide(decision, now);
                        }
                    }
                }
                let sent = shared.claim("receiver", now);
                prop_assert!(sent.is_empty() || until <= now.as_unix());
                shared.finish("receiver", &sent.iter().map(|message| message.id().to_owned()).collect::<Vec<_>>(), now);
                for message in sent {
                    let Message::Alert(alert) = message else { panic!("unexpected report") };
                    prop_assert!(!ids.contains(&alert.id));
                    prop_assert!(alert.kind == AlertKind::Raised || is_known_raised, "resolved without being raised");
                    is_known_raised = alert.kind == AlertKind::Raised;
                    ids.push(alert.id);
                }
                let raised = shared.rules.get("busy").is_some_and(|state| state.raised.is_some());
                if until <= now.as_unix() && matches!(step, Step::Bucket(_) | Step::Silence(0)) {
                    prop_assert_eq!(is_known_raised, raised);
                }
                let arrived = shared.history.iter().filter(|entry| matches!(entry.arrival, Arrival::Arrived(_)));
                prop_assert_eq!(arrived.count(), ids.len());
            }
        }
    }

    #[test]
    fn each_key_that_cannot_be_read_is_told_once() {
        let (mut shared, now) = (Shared::default(), Timestamp::from_unix(6000));
        let mut told = |unread: &[(&str, &str)]| {
            shared.rules.clear();
            for (rule, key) in unread {
                let state = shared.rules.entry((*rule).to_owned()).or_default();
                state.unread = Some(Unread { key: (*key).to_owned(), since: 0 });
            }
            let reasons =
                unread.iter().map(|(_, key)| ((*key).to_owned(), format!("{key} is away"))).collect();
            shared.tell_unread(|rule| rule != "of another version", &reasons, now);
            let told = shared.outbox.drain(..).map(|outgoing| outgoing.message.to_string());
            told.collect::<Vec<_>>().join("; ")
        };
        assert_eq!(told(&[]), "");
        let one = "warning: unknown: 1 rule cannot be evaluated: a key is away";
        assert_eq!(told(&[("busy", "a key")]), one);
        let both = [("busy", "a key"), ("quiet", "site us")];
        assert_eq!(told(&both), "warning: unknown: 2 rules cannot be evaluated: site us is away");
        assert_eq!(told(&both), "");
        // The site comes back, and goes away again.
        assert_eq!(told(&both[..1]), "");
        assert!(told(&both).ends_with("site us is away"));
        assert_eq!(
            told(&[("of another version", "a key")]),
            "resolved: unknown: all rules are evaluated again"
        );
    }

    #[test]
    fn a_silence_set_by_a_clock_far_in_the_future_is_ignored() {
        let mut shared = Shared::default();
        shared.rules.entry("busy".to_owned()).or_default().silenced = Some(u64::MAX);
        shared.end_silences(Timestamp::from_unix(6000));
        assert_eq!(shared.rules["busy"].silenced, None);
    }

    #[test]
    fn history_and_outbox_are_bounded_and_dropped_messages_are_recorded() {
        let (mut shared, now) = (Shared::default(), Timestamp::from_unix(6000));
        for number in 0..MAX_OUTBOX + 20 {
            let mut alert = Alert::test(now);
            (alert.kind, alert.id) = (AlertKind::Raised, number.to_string());
            shared.decide(Decision { alert, buckets: Vec::new() }, now);
        }
        assert_eq!((shared.outbox.len(), shared.history.len()), (MAX_OUTBOX, MAX_HISTORY));
        assert_eq!(shared.history.front().map(|entry| &*entry.alert.id), Some("520"));
        shared.history.push_front(HistoryEntry {
            alert: Alert { id: shared.outbox[0].message.id().to_owned(), ..Alert::test(now) },
            at: 0,
            arrival: Arrival::Waiting,
            buckets: Vec::new(),
        });
        shared.push(Message::Alert(Alert::test(now)));
        assert_eq!(shared.history[0].arrival, Arrival::Lost);
        let test = shared.test(now).id;
        assert_eq!(shared.test(now).id, test, "a test is pending");
    }
}
