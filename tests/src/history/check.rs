//! The decision.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;

use super::Event;

/// The promise of a system to its readers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Promise {
    /// Reads see everything once it is settled. In between, they may miss anything, e.g. after a failover.
    Eventual,
    /// Counts, in addition, never decrease. An acknowledged addition need not be visible before it is settled.
    Monotonic,
    /// Reads see everything that was acknowledged before they started. They may also see additions that are
    /// lost when the server is killed, but only if these were not acknowledged.
    Acknowledged,
    /// Reads see everything that was acknowledged before they started, and counts never decrease.
    Immediate,
}

/// Numbers of a history without violations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Acknowledged additions.
    pub acknowledged: u64,
    /// Additions with an unknown outcome.
    pub unknown: u64,
    /// Rejected additions.
    pub rejected: u64,
    /// Completed reads.
    pub reads: u64,
    /// Counters that were read after everything was settled.
    pub settled: u64,
}

/// A note that contradicts the notes before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The position of the note, from 0.
    pub note: usize,
    /// The counter.
    pub counter: String,
    /// A description of the contradiction.
    pub reason: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "note {}: counter {}: {}", self.note, self.counter, self.reason)
    }
}

/// Sums for a counter up to a note.
#[derive(Debug, Default)]
struct Counter {
    /// Additions that may count.
    attempted: u64,
    acknowledged: u64,
    /// Acknowledged before the last [`Event::Settle`].
    settled: u64,
    /// Greatest count that a completed read or an acknowledgment returned.
    seen: u64,
    /// What certainly counts by now. Even if `seen` includes additions with an unknown outcome, this includes
    /// additions that started later.
    certain: u64,
    /// The note in which a count has raised `certain`.
    raised_at: usize,
    is_read_after_settling: bool,
    /// The amounts of acknowledged additions by the new count.
    counts: BTreeMap<u64, u64>,
}

/// An addition or a read in progress.
#[derive(Debug)]
struct Call<'a> {
    note: usize,
    is_read: bool,
    counter: &'a str,
    amount: u64,
    /// What this call must at least see.
    least: u64,
    is_settled: bool,
}

impl Counter {
    /// Returns the least count that a call must see if it starts now.
    fn least(&self, promise: Promise) -> u64 {
        match promise {
            Promise::Eventual => self.settled,
            Promise::Monotonic => self.settled.max(self.seen),
            Promise::Acknowledged => self.acknowledged,
            Promise::Immediate => self.certain,
        }
    }

    fn see(&mut self, note: usize, call: &Call<'_>, count: u64) -> Result<(), String> {
        let (least, most) = (call.least + call.amount, self.attempted);
        if !(least..=most).contains(&count) {
            return Err(format!("{count} is not within {least}..={most}"));
        }
        self.seen = self.seen.max(count);
        if count > self.certain {
            (self.certain, self.raised_at) = (count, note);
        }
        Ok(())
    }

    /// Notes an acknowledgment without a count.
    fn acknowledge(&mut self, call: &Call<'_>) {
        self.acknowledged += call.amount;
        // An addition that was in progress may be included already.
        let added = if call.note > self.raised_at { self.certain + call.amount } else { 0 };
        self.certain = self.certain.max(added).max(call.least + call.amount).max(self.acknowledged);
    }

    /// Notes a count that an addition resulted in. Each unit can only be added once.
    fn reach(&mut self, amount: u64, count: u64) -> Result<(), String> {
        let before = count - amount;
        let next = self.counts.range(before + 1..).next();
        if let Some((other, by)) = next.filter(|(other, by)| **other - **by < count) {
            return Err(format!("both {count} after adding {amount} and {other} after adding {by}"));
        }
        self.counts.insert(count, amount);
        Ok(())
    }
}

/// Ends a read or an addition that must be in progress.
fn end<'a>(calls: &mut HashMap<usize, Call<'a>>, number: usize, is_read: bool) -> Result<Call<'a>, String> {
    let call = calls.remove(&number).filter(|call| call.is_read == is_read);
    call.ok_or_else(|| format!("no call of this kind in progress: {number}"))
}

pub(super) fn check(events: &[Event], promise: Promise) -> Result<Summary, Violation> {
    let rejected: HashSet<usize> = events
        .iter()
        .filter_map(|event| if let Event::Reject { addition } = event { Some(*addition) } else { None })
        .collect();
    let mut summary = Summary { rejected: rejected.len() as u64, ..Summary::default() };
    let mut counters = HashMap::<&str, Counter>::new();
    let mut calls = HashMap::<usize, Call<'_>>::new();
    let mut additions = 0_u64;
    let mut is_settled = false;
    for (note, event) in events.iter().enumerate() {
        let violation = |counter: &str, reason| Violation { note, counter: counter.to_owned(), reason };
        match event {
            Event::Add { counter, amount } => {
                let state = counters.entry(counter).or_default();
                let least = state.least(promise);
                let amount = *amount;
                calls.insert(note, Call { note, is_read: false, counter, amount, least, is_settled });
                additions += 1;
                if !rejected.contains(&note) {
                    state.attempted += amount;
                }
            }
            Event::Read { counter } => {
                let least = counters.entry(counter).or_default().least(promise);
                calls.insert(note, Call { note, is_read: true, counter, amount: 0, least, is_settled });
            }
            Event::Acknowledge { addition: call, count } => {
                let call = end(&mut calls, *call, false).map_err(|reason| violation("", reason))?;
                let state = counters.entry(call.counter).or_default();
                state.acknowledge(&call);
                if let Some(count) = count {
                    state.see(note, &call, *count).map_err(|reason| violation(call.counter, reason))?;
                    if promise == Promise::Immediate {
                        state.reach(call.amount, *count).map_err(|reason| violation(call.counter, reason))?;
                    }
                }
                summary.acknowledged += 1;
            }
            Event::See { read: call, count } => {
                let call = end(&mut calls, *call, true).map_err(|reason| violation("", reason))?;
                let state = counters.entry(call.counter).or_default();
                state.see(note, &call, *count).map_err(|reason| violation(call.counter, reason))?;
                state.is_read_after_settling |= call.is_settled;
                summary.reads += 1;
            }
            Event::Reject { addition } => {
                end(&mut calls, *addition, false).map_err(|reason| violation("", reason))?;
            }
            Event::Settle => {
                is_settled = true;
                counters.values_mut().for_each(|state| state.settled = state.acknowledged);
            }
        }
    }
    summary.unknown = additions - summary.acknowledged - summary.rejected;
    summary.settled = counters.values().filter(|state| state.is_read_after_settling).count() as u64;
    Ok(summary)
}

#[cfg(test)]
mod tests {
    use super::{Promise, Summary};
    use crate::history::History;

    const PROMISES: [Promise; 4] =
        [Promise::Eventual, Promise::Monotonic, Promise::Acknowledged, Promise::Immediate];

    /// Checks the history against each promise.
    fn check(history: &str) -> [Result<Summary, String>; 4] {
        let history: History = history.parse().expect("a history");
        PROMISES.map(|promise| history.check(promise).map_err(|violation| violation.reason))
    }

    fn violates(history: &str) -> [bool; 4] {
        check(history).map(|result| result.is_err())
    }

    #[test]
    fn a_read_sees_at_most_what_was_attempted() {
        assert_eq!(violates("add 2 a\nread a\nsee 1 2"), [false; 4]);
        assert_eq!(violates("add 2 a\nread a\nsee 1 3"), [true; 4]);
        assert_eq!(violates("add 2 b\nread a\nsee 1 1"), [true; 4], "another counter");
        assert_eq!(violates("read a\nadd 2 a\nsee 0 2"), [false; 4], "attempted during the read");
        assert_eq!(violates("read a\nsee 0 2\nadd 2 a"), [true; 4], "attempted after the read");
    }

    #[test]
    fn a_rejected_addition_never_counts() {
        assert_eq!(violates("add 2 a\nread a\nsee 1 2\nreject 0"), [true; 4]);
        assert_eq!(violates("add 2 a\nread a\nsee 1 0\nreject 0"), [false; 4]);
    }

    #[test]
    fn an_acknowledged_addition_is_visible_at_once_or_when_it_is_settled() {
        assert_eq!(violates("add 2 a\nacknowledge 0\nread a\nsee 2 0"), [false, false, true, true]);
        assert_eq!(violates("add 2 a\nread a\nacknowledge 0\nsee 1 0"), [false; 4], "acknowledged later");
        assert_eq!(violates("add 2 a\nacknowledge 0\nsettle\nread a\nsee 3 0"), [true; 4]);
        assert_eq!(violates("add 2 a\nacknowledge 0\nread a\nsettle\nsee 2 0"), [false, false, true, true]);
        assert_eq!(violates("add 2 a\nsettle\nread a\nsee 2 0"), [false; 4], "the outcome is unknown");
    }

    #[test]
    fn counts_do_not_decrease_unless_they_only_settle_later() {
        let decreasing = "add 2 a\nread a\nsee 1 2\nread a\nsee 3 1";
        assert_eq!(violates(decreasing), [false, true, false, true]);
        let concurrent = "add 2 a\nread a\nread a\nsee 1 2\nsee 2 0";
        assert_eq!(violates(concurrent), [false; 4]);
    }

    #[test]
    fn an_addition_of_unknown_outcome_does_not_hide_a_lost_one() {
        let lost = "add 1 a\nread a\nsee 1 1\nadd 1 a\nacknowledge 3\nread a\nsee 5 1";
        assert_eq!(violates(lost), [false, false, false, true]);
        let included = "add 1 a\nadd 1 a\nread a\nsee 2 1\nacknowledge 1\nread a\nsee 5 1";
        assert_eq!(violates(included), [false; 4], "the first read may include the acknowledged addition");
    }

    #[test]
    fn a_note_that_refers_to_another_kind_of_call_is_a_violation() {
        for history in ["add 5 a\nsee 0 5", "read a\nacknowledge 0", "add 1 a\nacknowledge 0\nreject 0"] {
            assert_eq!(violates(history), [true; 4], "{history}");
        }
    }

    #[test]
    fn the_count_of_an_acknowledgment_includes_the_addition_and_no_other_has_it() {
        assert_eq!(violates("add 2 a\nacknowledge 0 2"), [false; 4]);
        assert_eq!(violates("add 2 a\nacknowledge 0 1"), [true; 4]);
        let sharing = "add 2 a\nadd 2 a\nacknowledge 0 3\nacknowledge 1 4";
        assert_eq!(violates(sharing), [false, false, false, true]);
        let apart = "add 2 a\nadd 2 a\nacknowledge 1 4\nacknowledge 0 2";
        assert_eq!(violates(apart), [false; 4]);
    }

    #[test]
    fn a_history_is_summarized() {
        let history =
            "add 1 a\nacknowledge 0\nadd 1 a\nreject 2\nadd 1 b\nread a\nsee 5 1\nsettle\nread a\nsee 8 1";
        let summary = Summary { acknowledged: 1, unknown: 1, rejected: 1, reads: 2, settled: 1 };
        assert_eq!(check(history), PROMISES.map(|_| Ok(summary)));
    }

    #[test]
    fn a_history_survives_as_text() {
        let history = History::default();
        history.add("a page", 2).acknowledge();
        history.add("b", 1).acknowledge_with(1);
        history.add("b", 1).reject();
        history.read("a page").see(2);
        history.settle();
        let text = history.to_string();
        assert_eq!(text.parse::<History>().expect("a history").to_string(), text);
        let unparsed = "see 0 1".parse::<History>().expect_err("a read that does not exist");
        assert_eq!(unparsed, "line 1: not a note: see 0 1");
    }
}
