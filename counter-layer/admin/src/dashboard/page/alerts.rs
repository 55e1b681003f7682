//! The page of alerts: rules with their state, the history, and the forms that change something.

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

/// The page.
#[derive(Debug, Template)]
#[template(path = "pages/alerts.html")]
pub(crate) struct AlertsPage {
    frame: Frame,
    /// The raised alerts, in words.
    summary: String,
    is_raised: bool,
    /// The rules that are raised first, then those that are silenced.
    rules: Vec<Rule>,
    /// A note about rules that are left out.
    more_rules: Option<String>,
    history: Vec<Message>,
    /// A note about messages that are left out.
    more_history: Option<String>,
    /// The names of all rules, where this client may silence them.
    forms: Option<Forms>,
    /// The format of instants.
    style: &'static str,
}

/// The forms of the page.
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
    /// Which buckets raise and resolve it, in words.
    when: String,
    state: &'static str,
    since: Option<Instant>,
    silenced: Option<Instant>,
    reason: Option<String>,
    /// The value of the last bucket, where that is not among those that decided.
    last: Option<String>,
    last_start: Option<Instant>,
    /// The buckets that raised it, while it is raised.
    buckets: Vec<Bucket>,
    /// Set where one of the buckets has what a model expects.
    has_model: bool,
    /// The pages of the counters that it looks at.
    counters: Vec<(String, String)>,
}

/// A bucket that decided.
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

/// A message of the history.
#[derive(Debug)]
struct Message {
    at: Instant,
    rule: String,
    kind: &'static str,
    reason: String,
    arrival: &'static str,
    arrived: Option<Instant>,
}

/// A time for machines, and for people.
#[derive(Debug)]
struct Instant {
    iso: String,
    text: String,
}

/// The times for which the form silences a rule.
pub(crate) const SILENCES: [(u64, &str); 4] =
    [(3600, "an hour"), (86_400, "a day"), (7 * 86_400, "a week"), (30 * 86_400, "30 days")];

/// Rules and messages on the page.
const ROWS: usize = 100;

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
            more_rules: left_out(rules.len(), "rules", "api/alerts"),
            rules: rules.into_iter().take(ROWS).map(|rule| Rule::of(rule, view)).collect(),
            more_history: left_out(known.history.len(), "messages", "api/alerts/history"),
            history: known.history.iter().take(ROWS).map(|entry| Message::of(entry, view)).collect(),
            forms,
            style: style.name(),
        }
    }
}

/// A note about what is beyond the rows of a table.
fn left_out(all: usize, what: &str, path: &str) -> Option<String> {
    let more = all.checked_sub(ROWS + 1)? as u64 + 1;
    Some(format!("{} more {what} are at {path}.", digits::grouped(more)))
}

impl Rule {
    fn of(rule: &RuleStatus, view: &View) -> Self {
        let unit = rule.unit;
        let raised = rule.raised.is_some();
        let buckets = if raised { &rule.buckets[..] } else { &[] };
        let width = rule.precision.map(|precision| units::unit(u64::from(precision.as_seconds())));
        let in_a_row = |after: u32| match after {
            1 => String::new(),
            after => format!(" for {after} in a row"),
        };
        let by = width.map_or_else(|| "Of this process".to_owned(), |width| format!("By the {width}"));
        let when = format!(
            "{by}: raised when this holds{}, resolved when it does not{}.",
            in_a_row(rule.raise_after),
            in_a_row(rule.resolve_after)
        );
        // What is in the table need not be told again.
        let is_told = |last: &&Explanation| buckets.iter().all(|of| of.start != last.start);
        let (judged, last) = (rule.last.is_some(), rule.last.as_ref().filter(is_told));
        Self {
            name: rule.name.clone(),
            severity: rule.severity.to_string(),
            condition: rule.condition.clone(),
            when,
            state: match (raised, judged) {
                (true, _) => "raised",
                (false, true) => "ok",
                (false, false) => "not judged yet",
            },
            since: rule.raised.map(|at| Instant::of(at, view)),
            silenced: rule.silenced.map(|at| Instant::of(at, view)),
            reason: rule.reason().map(str::to_owned),
            last: last.map(|last| format!("{}, bound {}", unit.text(last.value), unit.text(last.bound))),
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
            Arrival::Arrived(at) => ("told", Some(instant(at))),
            Arrival::Silenced => ("not told: silenced", None),
            Arrival::Lost => ("lost: no receiver took it", None),
            _ => ("on its way", None),
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
