//! The alerts page: the rules with their states, the history, and forms to add, mute and remove rules.

use std::hash::{DefaultHasher, Hash, Hasher};

use askama::Template;
use counter_alert::{
    AlertKind, AlertsStatus, Arrival, Explanation, HistoryEntry, RuleStatus, Severity, Unit,
};
use counter_core::{Stats, Timestamp};

use super::frame::Frame;
use crate::access::right::{NO_RULE_FORM, RULE_FORM, SILENCE_FORM, TEST_FORM};
use crate::dashboard::format::counters;
use crate::dashboard::format::instants::{self, Style};
use crate::dashboard::format::units;
use crate::dashboard::plot::sums::Instant;
use crate::dashboard::view::addresses::ALERTS;
use crate::dashboard::view::view::View;
use crate::text::digits;
use crate::text::escape;
use crate::zone::Zone;

/// The alerts page.
#[derive(Debug, Template)]
#[template(path = "pages/alerts.html", whitespace = "minimize")]
pub(crate) struct AlertsPage {
    frame: Frame,
    /// The number of firing and muted rules in words.
    summary: String,
    /// True if any rule is firing.
    is_firing: bool,
    /// True if any rule is firing and not muted.
    is_loud: bool,
    /// Firing rules first, then muted rules, then those in the store, then all others.
    rules: Vec<Rule>,
    /// A hint if rules are omitted.
    more_rules: Option<Omitted>,
    history: Vec<Message>,
    /// A hint if messages are omitted.
    more_history: Option<Omitted>,
    /// The forms, if this client may change rules.
    forms: Option<Forms>,
    /// The format name of instants, for the script.
    style: &'static str,
}

/// The URLs of the forms.
#[derive(Debug)]
struct Forms {
    silence: String,
    test: String,
    add: String,
    remove: String,
}

/// The rows that exceed the limit of the page, with a URL to get all rows.
#[derive(Debug)]
struct Omitted {
    text: String,
    address: String,
}

/// A row of the rules table.
#[derive(Debug)]
struct Rule {
    /// A hash of the name, which identifies the row. A position would not, because rules can be removed while the page is open.
    id: String,
    name: String,
    /// True if the rule is in the store, so that it can be removed.
    is_stored: bool,
    /// The page of the first counter, if any.
    address: Option<String>,
    /// The condition in one line.
    condition: String,
    /// The badges: both firing and muted, or one.
    states: Vec<State>,
    muted_until: Option<Instant>,
    /// Since when the values of a firing rule are normal, and when it is resolved if they stay so.
    recovery: Option<(Instant, Instant)>,
    /// Why the rule is firing, and which data can't be read.
    reasons: Vec<String>,
    value: String,
    /// The start of the latest interval with a value, if newer intervals have no data.
    outdated: Option<Instant>,
    threshold: String,
    since: Option<Instant>,
    last_sent: Option<Instant>,
    severity: Severity,
    /// A sentence on when the rule fires and is resolved.
    evaluation: String,
    /// The intervals behind the state, newest first.
    values: Vec<Value>,
    /// True if any value is compared with a model.
    has_model: bool,
    /// All counters of the rule as names and URLs.
    counters: Vec<(String, String)>,
}

/// The state of a rule or the event of a message, as a class and a word.
#[derive(Debug)]
struct State {
    class: &'static str,
    text: &'static str,
}

/// The value of a rule in an interval.
#[derive(Debug)]
struct Value {
    start: Instant,
    value: String,
    threshold: String,
    expected: String,
    band: Option<String>,
    model: String,
    error: String,
}

/// A message in the history.
#[derive(Debug)]
struct Message {
    at: Instant,
    rule: String,
    event: State,
    reason: String,
    delivery: &'static str,
    delivered: Option<Instant>,
}

/// Formats the times on the page, with the year if any time is not in the current year.
#[derive(Debug)]
struct Times<'a> {
    zone: &'a Zone,
    style: Style,
}

/// The durations to mute a rule for, in seconds.
pub(crate) const MUTE_DURATIONS: [u64; 3] = [3600, 8 * 3600, 86_400];

/// The maximum number of rules and messages on the page.
const MAX_ROWS: usize = 100;

const FIRING: State = State { class: "firing", text: "Firing" };
const MUTED: State = State { class: "muted", text: "Muted" };
const OK: State = State { class: "ok", text: "OK" };
const UNKNOWN: State = State { class: "unknown", text: "Unknown" };
const NO_DATA: State = State { class: "unknown", text: "No data" };
const RESOLVED: State = State { class: "ok", text: "Resolved" };
const TEST: State = State { class: "unknown", text: "Test" };

impl AlertsPage {
    pub(crate) fn of(stats: &Stats, view: &View, known: &AlertsStatus, may_silence: bool) -> Self {
        let mut rules: Vec<_> = known.rules.iter().collect();
        rules.sort_by_key(|rule| (rule.raised.is_none(), rule.silenced.is_none(), !rule.is_stored));
        let forms = may_silence.then(|| {
            let address = |path| format!("{}{path}{}", view.site.mount, zone(view.is_local));
            Forms {
                silence: address(SILENCE_FORM),
                test: address(TEST_FORM),
                add: address(RULE_FORM),
                remove: address(NO_RULE_FORM),
            }
        });
        let times = Times::of(known, &view.site.zone);
        let address = |is_local: bool| format!("{}{}", view.site.mount, path(is_local));
        let omitted = |all: usize, noun: &str, path: &str| {
            let text = format!("{MAX_ROWS} of {} {noun} are shown.", digits::grouped(all as u64));
            (all > MAX_ROWS).then(|| Omitted { text, address: format!("{}{path}", view.site.mount) })
        };
        Self {
            frame: Frame {
                address: address(view.is_local),
                parts: address(view.is_local),
                toggled_zone: Some(address(!view.is_local)),
                is_local: view.is_local,
                alerts: None,
                ..Frame::of(stats, view)
            },
            summary: summary(&known.rules),
            is_firing: known.rules.iter().any(|rule| rule.raised.is_some()),
            is_loud: known.rules.iter().any(|rule| rule.raised.is_some() && rule.silenced.is_none()),
            more_rules: omitted(rules.len(), "rules", "/api/alerts"),
            rules: rules
                .into_iter()
                .take(MAX_ROWS)
                .map(|rule| Rule::of(rule, &known.history, view, &times))
                .collect(),
            more_history: omitted(known.history.len(), "messages", "/api/alerts/history"),
            history: known.history.iter().take(MAX_ROWS).map(|entry| Message::of(entry, &times)).collect(),
            forms,
            style: times.style.name(),
        }
    }
}

/// Returns the path of the page, which keeps the zone of the times on the page.
pub(crate) fn path(is_local: bool) -> String {
    format!("{ALERTS}{}", zone(is_local))
}

const fn zone(is_local: bool) -> &'static str {
    if is_local { "?zone=local" } else { "" }
}

/// Returns the id of the row of a rule, for HTML.
fn id(name: &str) -> String {
    let mut hasher = DefaultHasher::new();
    name.hash(&mut hasher);
    format!("{:x}", hasher.finish())
}

/// Returns the number of firing and muted rules in words.
fn summary(rules: &[RuleStatus]) -> String {
    let count = |predicate: fn(&&RuleStatus) -> bool| match rules.iter().filter(predicate).count() {
        0 => None,
        1 => Some("1 rule is".to_owned()),
        all => Some(format!("{} rules are", digits::grouped(all as u64))),
    };
    let firing = count(|rule| rule.raised.is_some()).unwrap_or_else(|| "No rule is".to_owned());
    let mut text = format!("{firing} firing.");
    for (number, state) in [
        (count(|rule| rule.silenced.is_some()), "muted"),
        (count(|rule| rule.unread.is_some()), "unknown, because data cannot be read"),
    ] {
        text += &number.map(|number| format!(" {number} {state}.")).unwrap_or_default();
    }
    text
}

impl Rule {
    fn of(rule: &RuleStatus, history: &[HistoryEntry], view: &View, times: &Times<'_>) -> Self {
        let is_firing = rule.raised.is_some();
        let last = rule.last.as_ref();
        let mut values: Vec<_> = if is_firing { rule.buckets.iter().collect() } else { Vec::new() };
        values.extend(last.filter(|last| values.iter().all(|value| value.start != last.start)));
        let resolved = rule.decision.as_ref().filter(|decision| decision.kind == AlertKind::Resolved);
        let resolved = resolved.map(|decision| Timestamp::from_unix(decision.start));
        let last_value = last.map(|last| Value::of(last, rule.unit, times));
        let mut states: Vec<_> = is_firing.then_some(FIRING).into_iter().collect();
        states.extend(rule.unread.as_ref().map(|_| UNKNOWN));
        states.extend(rule.silenced.map(|_| MUTED));
        if states.is_empty() {
            states.push(if last.is_some() { OK } else { NO_DATA });
        }
        let counters: Vec<_> =
            rule.counters.iter().map(|name| (counters::title(name), view.counter(name))).collect();
        Self {
            id: id(&rule.name),
            name: rule.name.clone(),
            is_stored: rule.is_stored,
            address: counters.first().map(|(_, address)| address.clone()),
            condition: condition(rule),
            states,
            muted_until: rule.silenced.map(|at| times.instant(at)),
            recovery: recovery(rule).map(|(since, resolved)| (times.instant(since), times.instant(resolved))),
            reasons: rule
                .reason()
                .map(str::to_owned)
                .into_iter()
                .chain(rule.unread.as_ref().map(ToString::to_string))
                .collect(),
            value: last_value.as_ref().map_or_else(unknown, |last| last.value.clone()),
            outdated: last.filter(|last| is_outdated(rule, last)).map(|last| times.unix(last.start)),
            threshold: last_value.map_or_else(unknown, |last| last.band.unwrap_or(last.threshold)),
            since: rule
                .raised
                .or(rule.unread.as_ref().map(|unread| unread.since))
                .or(resolved)
                .map(|at| times.instant(at)),
            last_sent: last_sent(&rule.name, history).map(|at| times.unix(at)),
            severity: rule.severity,
            evaluation: evaluation(rule),
            has_model: values
                .iter()
                .any(|of| of.expected.is_some() || of.band.is_some() || of.model.is_some()),
            values: values.into_iter().rev().map(|of| Value::of(of, rule.unit, times)).collect(),
            counters,
        }
    }
}

/// Returns since when the values of a firing rule are normal, and when it is resolved if they stay so.
fn recovery(rule: &RuleStatus) -> Option<(Timestamp, Timestamp)> {
    let width = u64::from(rule.precision?.as_seconds());
    let (last, judged, _) = (rule.last.as_ref()?, rule.judged?, rule.raised?);
    let (before, missing) = (rule.unmet.checked_sub(1)?, rule.resolve_after.checked_sub(rule.unmet)?);
    let since = Timestamp::from_unix(last.start).minus(u64::from(before) * width);
    Some((since, judged.plus(u64::from(missing) * width)))
}

fn unknown() -> String {
    "–".to_owned()
}

/// Formats a value or a threshold.
fn amount(unit: Unit, value: f64) -> String {
    match unit {
        Unit::Seconds if value > 0.0 => units::seconds(value),
        Unit::Seconds => "0 s".to_owned(),
        Unit::Bytes => units::bytes(value),
        Unit::Hits if value >= 1000.0 => format!("{} hits", digits::group_digits(&format!("{value:.0}"))),
        _ => unit.text(value),
    }
}

/// Returns the condition and for how long it must be met, e.g. `status:5xx are more than 5 % of hits for
/// 2 min`.
fn condition(rule: &RuleStatus) -> String {
    let (condition, times) = (&rule.condition, rule.raise_after);
    let in_a_row = if times == 1 { String::new() } else { format!(", {times} times in a row") };
    let Some(precision) = rule.precision else { return format!("{condition}{in_a_row}") };
    let width = u64::from(precision.as_seconds());
    match rule.unit {
        // A number of hits depends on the length of the interval.
        Unit::Hits => format!("{condition} in {}{in_a_row}", units::span(width)),
        _ => format!("{condition} for {}", units::span(width * u64::from(times))),
    }
}

/// Returns a sentence on when the rule fires and is resolved.
fn evaluation(rule: &RuleStatus) -> String {
    let (evaluated, noun) = match rule.precision {
        Some(precision) => (format!("per {}", units::unit(precision.as_seconds().into())), "interval"),
        None => ("for this process".to_owned(), "check"),
    };
    let after = |times: u32| match times {
        1 => format!("1 {noun}"),
        times => format!("{times} {noun}s in a row"),
    };
    let (fires, resolves) = (after(rule.raise_after), after(rule.resolve_after));
    format!("Evaluated {evaluated}. Fires after {fires}, is resolved after {resolves}.")
}

/// Returns `true` if intervals after this one were evaluated, but have no data.
fn is_outdated(rule: &RuleStatus, last: &Explanation) -> bool {
    let end = rule.precision.map(|precision| last.start.saturating_add(precision.as_seconds().into()));
    end.zip(rule.judged).is_some_and(|(end, evaluated)| end < evaluated.as_unix())
}

/// Returns the time of the latest delivery for a rule, from a history with the most recent message first.
fn last_sent(rule: &str, history: &[HistoryEntry]) -> Option<u64> {
    let is_of_rule = |entry: &&HistoryEntry| entry.alert.rule == rule && entry.alert.kind != AlertKind::Test;
    let delivered = |entry: &HistoryEntry| match entry.arrival {
        Arrival::Arrived(at) => Some(at),
        _ => None,
    };
    history.iter().filter(is_of_rule).filter_map(delivered).max()
}

impl Value {
    fn of(of: &Explanation, unit: Unit, times: &Times<'_>) -> Self {
        let text = |value: Option<f64>| value.map_or_else(unknown, |value| amount(unit, value));
        Self {
            start: times.unix(of.start),
            value: amount(unit, of.value),
            threshold: amount(unit, of.bound),
            expected: text(of.expected),
            band: of.band.map(|(low, high)| format!("{} to {}", amount(unit, low), amount(unit, high))),
            model: of.model.clone().unwrap_or_else(unknown),
            error: text(of.error),
        }
    }
}

impl Message {
    fn of(entry: &HistoryEntry, times: &Times<'_>) -> Self {
        let (delivery, delivered) = match entry.arrival {
            Arrival::Arrived(at) => ("Delivered", Some(times.unix(at))),
            Arrival::Silenced => ("Not sent: muted", None),
            Arrival::Lost => ("Not delivered", None),
            _ => ("Pending", None),
        };
        Self {
            at: times.unix(entry.at),
            rule: entry.alert.rule.clone(),
            event: match entry.alert.kind {
                AlertKind::Raised => FIRING,
                AlertKind::Resolved => RESOLVED,
                AlertKind::Unknown => UNKNOWN,
                _ => TEST,
            },
            reason: entry.alert.reason.clone(),
            delivery,
            delivered,
        }
    }
}

impl<'a> Times<'a> {
    fn of(known: &AlertsStatus, zone: &'a Zone) -> Self {
        let of_rule = |rule: &RuleStatus| {
            let decided = rule.decision.as_ref().map(|decision| Timestamp::from_unix(decision.start));
            [rule.raised, rule.silenced, decided]
        };
        let of_rules = known.rules.iter().flat_map(of_rule).flatten();
        let of_history = known.history.iter().map(|entry| Timestamp::from_unix(entry.at));
        let year = |at| instants::year(zone.local(at));
        let this_year = year(Timestamp::now());
        let has_other_year = of_rules.chain(of_history).any(|at| year(at) != this_year);
        Self { zone, style: if has_other_year { Style::FullOfYear } else { Style::Full } }
    }

    fn instant(&self, at: Timestamp) -> Instant {
        Instant::of(at, self.zone, self.style)
    }

    fn unix(&self, at: u64) -> Instant {
        self.instant(Timestamp::from_unix(at))
    }
}
