//! The site summary, and the status of counting.

use std::time::Duration;

use counter_core::visits::{Hint, Requests};
use counter_core::{CounterName, Error, Health, Ledger, Timestamp};
use futures_util::future::try_join4;

use super::period::Period;
use crate::dashboard::format::numbers::{self, Change};
use crate::dashboard::format::units;
use crate::dashboard::reader::{self, Reader};
use crate::text::digits;
use counter_layer::internal::{AGENTS, HITS, STATUSES};

/// The time span in seconds used to compute hits per second.
const RATE_WINDOW: u64 = 10;

/// How long the store may fail until the page shows an alert.
const FAILURE_GRACE_PERIOD: Duration = Duration::from_secs(5);

/// The numbers at the top. `None` if not recorded on this site.
#[derive(Debug)]
pub(crate) struct Summary {
    pub(crate) rate: String,
    pub(crate) recent: String,
    pub(crate) period: String,
    pub(crate) total: String,
    pub(crate) change: Option<Change>,
    pub(crate) visitors: Option<String>,
    pub(crate) visitors_error: String,
    /// The share of human requests to this process without a visitor.
    pub(crate) unidentified: Option<String>,
    pub(crate) errors: Option<String>,
    pub(crate) client_errors: Option<String>,
    pub(crate) bots: Option<String>,
}

/// A status line about the store and the ledger.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Status {
    pub(crate) is_loud: bool,
    pub(crate) text: String,
}

impl Summary {
    pub(crate) async fn read(reader: &Reader<'_>, period: &Period, now: Timestamp) -> Result<Self, Error> {
        let names: Vec<_> = std::iter::once(HITS)
            .chain(STATUSES)
            .chain(AGENTS)
            .filter_map(|name| CounterName::new(name).ok())
            .collect();
        let (totals, before, uniques, (recent, seconds)) = try_join4(
            period.totals(reader, &names),
            period.previous_totals(reader, &names[..1]),
            period.visitors(reader, &names[..1]),
            recent(reader, &names[0], now),
        )
        .await?;
        let uniques = uniques.and_then(|uniques| uniques.first().copied().flatten());
        let of = |requested: &[&str]| {
            let all = names.iter().zip(&totals).filter(|(name, _)| requested.contains(&&***name));
            all.map(|(_, total)| *total).sum::<Option<u64>>()
        };
        let (hits, responses, agents) = (of(&[HITS]), of(&STATUSES), of(&AGENTS));
        Ok(Self {
            rate: recent.map_or_else(numbers::unknown, |recent| numbers::rate(recent, seconds)),
            recent: units::about(seconds),
            period: period.name.clone(),
            total: hits.map_or_else(numbers::unknown, digits::grouped),
            change: hits.and_then(|hits| numbers::change(hits, before.first().copied().unwrap_or_default())),
            visitors: uniques.map(|uniques| digits::grouped(uniques.visitors)),
            visitors_error: uniques
                .map(|uniques| format!("± {:.1} %", uniques.standard_error * 100.0))
                .unwrap_or_default(),
            unidentified: unidentified(reader.stats.ledger().requests),
            errors: share(of(&["status:5xx", "status:failed"]), responses),
            client_errors: share(of(&["status:4xx"]), responses),
            bots: share(of(&["agent:bot"]), agents),
        })
    }
}

fn share(part: Option<u64>, whole: Option<u64>) -> Option<String> {
    numbers::share(part?, whole?)
}

fn unidentified(requests: Requests) -> Option<String> {
    let of_people = requests.recorded.saturating_sub(requests.bots);
    numbers::share(requests.unidentified, of_people).filter(|_| requests.unidentified > 0)
}

/// Returns the hits in the most recent complete seconds, and the number of seconds.
async fn recent(
    reader: &Reader<'_>,
    hits: &CounterName,
    now: Timestamp,
) -> Result<(Option<u64>, u64), Error> {
    let Some(finest) = reader.stats.grid().counts.iter().next() else { return Ok((Some(0), RATE_WINDOW)) };
    let width = u64::from(finest.precision.as_seconds());
    // The latest flush might still be running, so we skip one more bucket.
    let end = finest.precision.bucket(now.minus(1)).start;
    let length = RATE_WINDOW.next_multiple_of(width);
    let start = end.minus(length).max(finest.oldest(now));
    if start >= end {
        return Ok((Some(0), length));
    }
    let series = reader.series_many(std::slice::from_ref(hits), finest.precision, start..end).await?;
    Ok((reader::total(series.into_iter().next().flatten()), end.as_unix() - start.as_unix()))
}

impl Status {
    pub(crate) fn of(ledger: &Ledger, health: &Health) -> Self {
        let mut problems = Vec::new();
        let pending = digits::grouped(health.pending);
        let mut is_loud = match (health.failing_for, health.stalled_for) {
            (Some(failing), _) => {
                let cause = health.last_error.as_deref().unwrap_or("unknown error");
                let since = units::about(failing.as_secs());
                problems.push(format!(
                    "Writes to the store have failed for {since} ({cause}). {pending} hits are queued, none are lost."
                ));
                failing >= FAILURE_GRACE_PERIOD
            }
            (None, Some(stalled)) => {
                let since = units::about(stalled.as_secs());
                problems.push(format!(
                    "No writes to the store for {since}, {pending} hits are queued: the background flush task is not running."
                ));
                true
            }
            (None, None) => false,
        };
        let quiet = problems.len();
        // The remedy is for developers: it names types and methods.
        problems
            .extend(health.hints.iter().map(|Hint { seen, .. }| format!("{seen} See the log for a fix.")));
        problems.extend(excessive_clock_skew(health));
        problems.extend(spool_failing(health));
        problems.extend(missing(ledger));
        is_loud |= problems.len() > quiet;
        if health.failing_for.is_none() && health.stalled_for.is_none() {
            let head = if problems.is_empty() { "Counting normally: this" } else { "This" };
            let counted = digits::grouped(ledger.requests.recorded);
            problems.insert(
                0,
                format!(
                    "{head} process has counted {counted} requests, and {pending} counts are queued for the store."
                ),
            );
        }
        if ledger.hits.overflow > 0 {
            let overflow = digits::grouped(ledger.hits.overflow);
            problems.push(format!(
                "{overflow} hits exceed the counter limit and are counted as {}.",
                CounterName::OTHER
            ));
        }
        Self { is_loud, text: problems.join(" ") }
    }

    /// Returns the status to show if the store can't be read. A process without pending hits would not notice
    /// the failure.
    pub(crate) fn unreadable(ledger: &Ledger, health: &Health) -> Self {
        let known = Self::of(ledger, health);
        if known.is_loud {
            return known;
        }
        let pending = digits::grouped(health.pending);
        Self { is_loud: true, text: format!("The store cannot be read. {pending} counts are queued.") }
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
    let (since, unwritten) = (units::about(spool.failing_for?.as_secs()), digits::grouped(spool.unwritten));
    let error = spool.last_error.as_deref()?;
    Some(format!(
        "Writes to the spool have failed for {since} ({error}). {unwritten} hits will be lost if this process is killed."
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
    missing.map(|(count, reason)| format!("{} hits {reason}.", digits::grouped(count)))
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
            failing.is_loud && failing.text.contains("12 s (no connection). 1,234 hits"),
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
        let words = "have failed for 12 s (disk full). 1,234 hits will be lost if";
        assert!(spooled.is_loud && spooled.text.contains(words), "{}", spooled.text);
        assert!(!status_after(&|_, health| health.spool = Some(SpoolHealth::default())).is_loud);
        let hint = Hint::new("one_address", "All came from one address.", "Trust the proxy.");
        let hinted = status_after(&|_, health| health.hints = vec![hint]);
        let words = "All came from one address. See the log for a fix.";
        assert!(hinted.is_loud && hinted.text.ends_with(words), "{}", hinted.text);
        assert!(!hinted.text.contains("Trust the proxy"), "{}", hinted.text);
        assert!(!hinted.text.contains("Counting normally"), "{}", hinted.text);
        let other = status_after(&|ledger, _| ledger.hits.overflow = 5);
        assert!(!other.is_loud && other.text.contains("5 hits exceed the counter limit"), "{}", other.text);
    }
}
