//! The status of counting.

use std::time::Duration;

use counter_core::visits::Hint;
use counter_core::{CounterName, Health, Ledger};

use crate::dashboard::format::units;
use crate::text::digits;

/// A status line about the store and the ledger.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Status {
    pub(crate) is_loud: bool,
    pub(crate) text: String,
    /// True if there is nothing to say.
    pub(crate) is_normal: bool,
}

/// How long the store may fail until the page shows an alert.
const FAILURE_GRACE_PERIOD: Duration = Duration::from_secs(5);

impl Status {
    pub(crate) fn of(ledger: &Ledger, health: &Health) -> Self {
        let mut problems = Vec::new();
        let queued = hits_that(health.pending, "are queued");
        let mut is_loud = match (health.failing_for, health.stalled_for) {
            (Some(failing), _) => {
                let since = units::about(failing.as_secs());
                problems.push(format!(
                    "Writes to the store have failed for {since}. {queued}, none are lost. See the log \
                      for the reason."
                ));
                failing >= FAILURE_GRACE_PERIOD
            }
            (None, Some(stalled)) => {
                let since = units::about(stalled.as_secs());
                problems.push(format!(
                    "No writes to the store for {since}, {queued}: the background flush task is not running."
                ));
                true
            }
            (None, None) => false,
        };
        let quiet = problems.len();
        // A page that lacks a site names it.
        let hints = health.hints.iter().filter(|hint| **hint != Hint::SITE_UNREADABLE);
        // The remedy is for developers: it names types and methods.
        problems.extend(hints.map(|Hint { seen, .. }| format!("{seen} See the log for a fix.")));
        problems.extend(excessive_clock_skew(health));
        problems.extend(spool_failing(health));
        problems.extend(missing(ledger));
        is_loud |= problems.len() > quiet;
        let mut is_normal = problems.is_empty();
        if is_normal {
            problems.push("Counting normally.".to_owned());
        }
        if ledger.hits.overflow > 0 {
            let words = format!("are above the counter limit and counted as {}", CounterName::OTHER);
            problems.push(format!("{}.", hits_that(ledger.hits.overflow, &words)));
            is_normal = false;
        }
        Self { is_loud, text: problems.join(" "), is_normal }
    }

    /// Returns the status to show if the store can't be read. A process without pending hits would not notice
    /// the failure.
    pub(crate) fn unreadable(ledger: &Ledger, health: &Health) -> Self {
        let known = Self::of(ledger, health);
        if known.is_loud {
            return known;
        }
        let queued = hits_that(health.pending, "are queued");
        Self { is_loud: true, text: format!("The store cannot be read. {queued}."), is_normal: false }
    }
}

fn excessive_clock_skew(health: &Health) -> Option<String> {
    let skew = health.excessive_clock_skew()?;
    let (by, direction) = (units::about(skew.unsigned_abs()), if skew > 0 { "ahead of" } else { "behind" });
    Some(format!(
        "The clock of this machine is {by} {direction} the store's, so hits are counted at the wrong time."
    ))
}

fn spool_failing(health: &Health) -> Option<String> {
    let spool = health.spool.as_ref()?;
    let since = units::about(spool.failing_for?.as_secs());
    let unwritten = hits_that(spool.unwritten, "will be lost");
    Some(format!(
        "Writes to the spool have failed for {since}. {unwritten} if this process is killed. See \
         the log for the reason."
    ))
}

/// Returns the hits missing in the buckets, by reason.
fn missing(ledger: &Ledger) -> impl Iterator<Item = String> {
    let (hits, dropped) = (ledger.hits, ledger.hits.dropped);
    let reasons = [
        (hits.expired, "are past retention and only included in all-time totals"),
        (hits.lost_by_server, "were accepted and then lost by the store"),
        (dropped.wrong_type, "were rejected: a key has the wrong type"),
        (dropped.not_a_number, "were rejected: a stored value is not a number"),
        (dropped.out_of_range, "were rejected: the sum is too large"),
        (dropped.ahead, "were rejected: the clock of this machine is too far ahead of the store's"),
        (dropped.in_doubt, "may or may not be counted: the store did not reply, and then lost its record"),
        (dropped.other, "were rejected by the store"),
    ];
    let missing = reasons.into_iter().filter(|(count, _)| *count > 0);
    missing.map(|(count, reason)| format!("{}.", hits_that(count, reason)))
}

/// Formats a sentence on hits, given its end in the plural.
fn hits_that(count: u64, words: &str) -> String {
    let singular = |(many, one)| Some(format!("1 hit {one}{}", words.strip_prefix(many)?));
    match count {
        1 => {
            [("are ", "is "), ("were ", "was "), ("", "")].into_iter().find_map(singular).unwrap_or_default()
        }
        _ => format!("{} hits {words}", digits::grouped(count)),
    }
}

#[cfg(test)]
mod tests {
    use counter_core::visits::SpoolHealth;
    use counter_core::{Counters, MemoryStore};

    use super::*;

    #[test]
    fn the_status_is_loud_after_long_failures_or_lost_hits() {
        let stats = Counters::builder(MemoryStore::new()).build().expect("the defaults are fine").stats();
        let status_after = |change: &dyn Fn(&mut Ledger, &mut Health)| {
            let (mut ledger, mut health) = (stats.ledger(), stats.health());
            change(&mut ledger, &mut health);
            Status::of(&ledger, &health)
        };
        let healthy = status_after(&|_, _| {});
        assert!(!healthy.is_loud && healthy.text.starts_with("Counting normally"), "{}", healthy.text);
        assert!(!status_after(&|_, health| health.failing_for = Some(Duration::from_secs(1))).is_loud);
        let failing = status_after(&|_, health| {
            health.failing_for = Some(Duration::from_secs(12));
            health.last_error = Some("no connection".to_owned());
            health.pending = 1234;
        });
        assert!(
            failing.is_loud
                && failing.text.contains("12 s. 1,234 hits")
                && !failing.text.contains("connection"),
            "{}",
            failing.text
        );
        let loud: [fn(&mut Ledger); 3] = [
            |ledger| ledger.hits.expired = 1,
            |ledger| ledger.hits.lost_by_server = 1,
            |ledger| ledger.hits.dropped.wrong_type = 1,
        ];
        for change in loud {
            let status = status_after(&|ledger, _| change(ledger));
            assert!(status.is_loud && !status.text.contains("Counting normally"), "{}", status.text);
        }
        let stalled = status_after(&|_, health| health.stalled_for = Some(Duration::from_secs(60)));
        assert!(stalled.is_loud && !stalled.text.contains("Counting normally"), "{}", stalled.text);
        let fast = status_after(&|_, health| health.clock_skew = Some(86_400));
        assert!(fast.is_loud && fast.text.contains("ahead of the store's"), "{}", fast.text);
        assert!(!fast.text.contains("Counting normally"), "{}", fast.text);
        let unreadable = Status::unreadable(&stats.ledger(), &stats.health());
        assert!(
            unreadable.is_loud && unreadable.text.starts_with("The store cannot be read"),
            "{}",
            unreadable.text
        );
        assert!(!status_after(&|_, health| health.clock_skew = Some(-2)).is_loud);
        let spooled = status_after(&|_, health| {
            let mut spool = SpoolHealth::default();
            spool.failing_for = Some(Duration::from_secs(12));
            (spool.last_error, spool.unwritten) = (Some("disk full".to_owned()), 1234);
            health.spool = Some(spool);
        });
        let words = "have failed for 12 s. 1,234 hits will be lost if";
        assert!(
            spooled.is_loud && spooled.text.contains(words) && !spooled.text.contains("disk full"),
            "{}",
            spooled.text
        );
        assert!(!status_after(&|_, health| health.spool = Some(SpoolHealth::default())).is_loud);
        let hint = Hint::new("one_address", "All came from one address.", "Trust the proxy.");
        let hinted = status_after(&|_, health| health.hints = vec![hint]);
        let words = "All came from one address. See the log for a fix.";
        assert!(hinted.is_loud && hinted.text.ends_with(words), "{}", hinted.text);
        assert!(!hinted.text.contains("Trust the proxy"), "{}", hinted.text);
        assert!(!hinted.text.contains("Counting normally"), "{}", hinted.text);
        let other = status_after(&|ledger, _| ledger.hits.overflow = 5);
        assert!(
            !other.is_loud && other.text.contains("5 hits are above the counter limit"),
            "{}",
            other.text
        );
    }
}
