//! The alerts page: rules and states, the history, and forms for changes.

use askama::Template;
use counter_alert::{AlertKind, AlertsStatus, Arrival, Explanation, HistoryEntry, RuleStatus, Unit};
use counter_core::{Stats, Timestamp};

use super::frame::Frame;
use crate::access::right::{SILENCE_FORM, TEST_FORM};
use crate::dashboard::format::instants::{self, Style};
use crate::dashboard::format::units;
use crate::dashboard::view::addresses::ALERTS;
use crate::dashboard::view::view::View;
use crate::text::digits;
use crate::text::escape;

/// The alerts page.
#[derive(Debug, Template)]
#[template(path = "pages/alerts.html")]
pub(crate) struct AlertsPage {
    frame: Frame,
    /// A sentence about the raised alerts.
    summary: String,
    is_raised: bool,
    /// Raised rules, followed by muted rules, followed by all other rules.
    rules: Vec<Rule>,
    /// A hint if rules are omitted.
    more_rules: Option<String>,
    history: Vec<Message>,
    /// A hint if messages are omitted.
    more_history: Option<String>,
    /// The forms, if this client may mute rules.
    forms: Option<Forms>,
    /// The format name of instants, for the script.
    style: &'static str,
}

/// The page forms, with all rule names.
#[derive(Debug)]
struct Forms {
    silence: String,
    test: String,
    names: Vec<String>,
}

/// A rule on the page.
#[derive(Debug)]
struct Rule {
    name: String,
    severity: String,
    condition: String,
    /// A sentence on when the rule is raised and resolved.
    when: String,
    state: &'static str,
    since: Option<Instant>,
    silenced: Option<Instant>,
    reason: Option<String>,
    /// The latest value, if not already included in `buckets`.
    last: Option<String>,
    last_start: Option<Instant>,
    /// The buckets that raised the rule. Empty if the rule is not raised.
    buckets: Vec<Bucket>,
    /// True if any bucket has values from a model.
    has_model: bool,
    /// The counters of this rule, as names and URLs.
    counters: Vec<(String, String)>,
}

/// A bucket that contributed to the decision.
#[derive(Debug)]
struct Bucket {
    start: Instant,
    value: String,
    bound: String,
    expected: String,
    band: String,
    model: String,
    error: String,
}

/// A message in the history.
#[derive(Debug)]
struct Message {
    at: Instant,
    rule: String,
    kind: &'static str,
    reason: String,
    arrival: &'static str,
    arrived: Option<Instant>,
}

/// An instant for machines and for humans.
#[derive(Debug)]
struct Instant {
    iso: String,
    text: String,
}

/// The durations offered for muting a rule.
pub(crate) const MUTE_DURATIONS: [(u64, &str); 4] =
    [(3600, "1 hour"), (86_400, "1 day"), (7 * 86_400, "1 week"), (30 * 86_400, "30 days")];

/// The maximum number of rules and messages on the page.
const MAX_ROWS: usize = 100;

impl AlertsPage {
    pub(crate) fn of(stats: &Stats, view: &View, known: &AlertsStatus, may_silence: bool) -> Self {
        let mut rules: Vec<_> = known.rules.iter().collect();
        rules.sort_by_key(|rule| (rule.raised.is_none(), rule.silenced.is_none()));
        let raised: Vec<_> = rules.iter().filter(|rule| rule.raised.is_some()).collect();
        let summary = match raised.len() {
            0 => "No alert is raised.".to_owned(),
            1 => "One alert is raised.".to_owned(),
            more => format!("{} alerts are raised.", digits::grouped(more as u64)),
        };
        let address =
            |utc: bool| format!("{}{ALERTS}{}", view.site.mount, if utc { "?zone=utc" } else { "" });
        let forms = may_silence.then(|| Forms {
            silence: format!("{}{SILENCE_FORM}", view.site.mount),
            test: format!("{}{TEST_FORM}", view.site.mount),
            names: known.rules.iter().map(|rule| rule.name.clone()).collect(),
        });
        let style = Style::FullOfYear;
        Self {
            frame: Frame {
                address: address(view.utc),
                parts: address(view.utc),
                toggled_zone: address(!view.utc),
                alerts: None,
                ..Frame::of(stats, view)
            },
            summary,
            is_raised: !raised.is_empty(),
            more_rules: omitted_hint(rules.len(), "rules", "api/alerts"),
            rules: rules.into_iter().take(MAX_ROWS).map(|rule| Rule::of(rule, view)).collect(),
            more_history: omitted_hint(known.history.len(), "messages", "api/alerts/history"),
            history: known.history.iter().take(MAX_ROWS).map(|entry| Message::of(entry, view)).collect(),
            forms,
            style: style.name(),
        }
    }
}

/// Returns a hint if the table can't show all rows.
fn omitted_hint(all: usize, noun: &str, path: &str) -> Option<String> {
    let more = all.checked_sub(MAX_ROWS + 1)? as u64 + 1;
    Some(format!("{} more {noun} in {path}.", digits::grouped(more)))
}

impl Rule {
    fn of(rule: &RuleStatus, view: &View) -> Self {
        let unit = rule.unit;
        let raised = rule.raised.is_some();
        let buckets = if raised { &rule.buckets[..] } else { &[] };
        let width = rule.precision.map(|precision| units::unit(u64::from(precision.as_seconds())));
        let in_a_row = |after: u32| match after {
            1 => String::new(),
            after => format!(" {after} times in a row"),
        };
        let by = width.map_or_else(|| "This process".to_owned(), |width| format!("Per {width}"));
        let when = format!(
            "{by}: raised when true{}, resolved when false{}.",
            in_a_row(rule.raise_after),
            in_a_row(rule.resolve_after)
        );
        // Values that are already in the table don't need to be repeated here.
        let is_unlisted = |last: &&Explanation| buckets.iter().all(|of| of.start != last.start);
        let (evaluated, last) = (rule.last.is_some(), rule.last.as_ref().filter(is_unlisted));
        Self {
            name: rule.name.clone(),
            severity: rule.severity.to_string(),
            condition: rule.condition.clone(),
            when,
            state: match (raised, evaluated) {
                (true, _) => "raised",
                (false, true) => "ok",
                (false, false) => "no data yet",
            },
            since: rule.raised.map(|at| Instant::of(at, view)),
            silenced: rule.silenced.map(|at| Instant::of(at, view)),
            reason: rule.reason().map(str::to_owned),
            last: last.map(|last| format!("{}, threshold {}", unit.text(last.value), unit.text(last.bound))),
            last_start: last.map(|last| Instant::of(Timestamp::from_unix(last.start), view)),
            has_model: buckets
                .iter()
                .any(|of| of.expected.is_some() || of.band.is_some() || of.model.is_some()),
            buckets: buckets.iter().map(|of| Bucket::of(of, unit, view)).collect(),
            counters: rule.counters.iter().map(|name| (name.to_string(), view.counter(name))).collect(),
        }
    }
}

impl Bucket {
    fn of(of: &Explanation, unit: Unit, view: &View) -> Self {
        let text = |value: Option<f64>| value.map_or_else(|| "–".to_owned(), |value| unit.text(value));
        Self {
            start: Instant::of(Timestamp::from_unix(of.start), view),
            value: unit.text(of.value),
            bound: unit.text(of.bound),
            expected: text(of.expected),
            band: of.band.map_or_else(
                || "–".to_owned(),
                |(low, high)| format!("{} to {}", unit.text(low), unit.text(high)),
            ),
            model: of.model.clone().unwrap_or_else(|| "–".to_owned()),
            error: text(of.error),
        }
    }
}

impl Message {
    fn of(entry: &HistoryEntry, view: &View) -> Self {
        let instant = |at| Instant::of(Timestamp::from_unix(at), view);
        let (arrival, arrived) = match entry.arrival {
            Arrival::Arrived(at) => ("sent", Some(instant(at))),
            Arrival::Silenced => ("not sent: muted", None),
            Arrival::Lost => ("lost: delivery failed", None),
            _ => ("pending", None),
        };
        Self {
            at: instant(entry.at),
            rule: entry.alert.rule.clone(),
            kind: match entry.alert.kind {
                AlertKind::Raised => "raised",
                AlertKind::Resolved => "resolved",
                _ => "test",
            },
            reason: entry.alert.reason.clone(),
            arrival,
            arrived,
        }
    }
}

impl Instant {
    fn of(at: Timestamp, view: &View) -> Self {
        Self { iso: instants::iso(at), text: instants::instant(view.site.zone.local(at), Style::FullOfYear) }
    }
}
