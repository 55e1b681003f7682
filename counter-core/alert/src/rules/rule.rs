use std::fmt;
use std::time::Duration;

use counter_core::internal::is_label_name;
use counter_core::visits::{Measure, Stats};
use counter_core::{CounterName, Precision};

use super::condition::Condition;
use super::local::LocalCondition;
use super::verdict::Side;
use crate::alert::Severity;
use crate::detector::Detector;

/// A rule that is evaluated whenever a bucket closes.
///
/// An alert is raised when the condition is met for [`raise_after`](Self::raise_after) buckets in a row, and
/// resolved when it is not met for [`resolve_after`](Self::resolve_after) buckets in a row. A bucket is
/// ignored if it can't be read, or if there are not enough hits.
///
/// Process rules such as [`store_away`](Self::store_away) are evaluated in all passes instead of per bucket,
/// and by all processes independently. A process sends these alerts even if the store is unavailable, with an
/// [`id`](crate::Alert::id) that is unique to the process. Such rules should be those of the program, because a process that starts
/// without the store can't read the rules there.
///
/// You can also read rules from a configuration, which uses the names of the constructors and setters. Rules in the
/// [store](crate::Alerts::add) have the same form.
///
/// ```
/// use counter_alert::AlertRule;
///
/// let rules: Vec<AlertRule> = serde_json::from_str(
///     r#"[
///         { "name": "errors", "severity": "critical", "raise_after": 2, "resolve_after": 5,
///           "when": { "share_above": { "parts": ["status:5xx"], "whole": "hits", "share": 0.05, "at_least": 20 } } },
///         { "name": "store", "when": { "store_away": { "seconds": 60 } } }
///     ]"#,
/// )?;
/// assert_eq!(rules.len(), 2);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
#[must_use = "a rule is evaluated by a `Watch`"]
pub struct AlertRule {
    pub(crate) name: String,
    pub(crate) condition: Condition,
    pub(crate) precision: Precision,
    pub(crate) raise_after: u32,
    pub(crate) resolve_after: u32,
    pub(crate) pause: Duration,
    pub(crate) severity: Severity,
}

/// The error for an invalid rule or report, returned by [`WatchBuilder::build`](crate::WatchBuilder::build) and
/// [`Alerts::add`](crate::Alerts::add).
#[derive(Clone, PartialEq)]
#[non_exhaustive]
pub enum RuleError {
    /// The rule name is empty, is longer than 128 bytes, or contains a control character.
    Name(String),
    /// Two rules or reports share this name.
    Duplicate(String),
    /// A number in this rule is out of range: a share or a quantile must be between 0 and 1.
    Number(String),
    /// The counters do not keep the precision that this rule needs.
    Precision(String, Precision),
    /// The rule has a value that is not the name of a [label](counter_core::Stats::label).
    Label(String),
    /// All retention periods are too short for this report, which also needs the preceding period.
    Report(String),
    /// There are more than 5,000 rules.
    TooMany,
}

/// The maximum number of rules in a watch.
pub(crate) const MAX_RULES: usize = 5000;

fn seconds(width: u32) -> Precision {
    Precision::try_from(width).expect("not 0")
}

impl AlertRule {
    /// The maximum length of a rule name in bytes.
    pub const MAX_NAME_BYTES: usize = 128;

    fn new(name: impl Into<String>, precision: Precision, condition: Condition) -> Self {
        let (raise_after, resolve_after) = (1, 1);
        let (name, severity) = (name.into(), Severity::default());
        Self { name, condition, precision, raise_after, resolve_after, pause: Duration::ZERO, severity }
    }

    /// Creates a rule: the counter has more hits than this in a bucket.
    pub fn above(name: impl Into<String>, counter: CounterName, precision: Precision, hits: u64) -> Self {
        Self::new(name, precision, Condition::Above { counter, hits })
    }

    /// Creates a rule: the counter has fewer hits than this in a bucket.
    pub fn below(name: impl Into<String>, counter: CounterName, precision: Precision, hits: u64) -> Self {
        Self::new(name, precision, Condition::Below { counter, hits })
    }

    /// Creates a rule: the counter gets no hits in a bucket.
    pub fn silent(name: impl Into<String>, counter: CounterName, precision: Precision) -> Self {
        Self::below(name, counter, precision, 1)
    }

    /// Creates a rule: the counter gets no hits for this number of days. Only days on which the site counter
    /// has hits will be counted. You can use this to find unused routes. Up to a year of days before the rule
    /// was created is included.
    ///
    /// ```
    /// use counter_alert::AlertRule;
    ///
    /// for route in ["/articles/{id}", "/legacy"] { // those of the router, of the rules, or of a list
    ///     let rule = AlertRule::dead(format!("dead: {route}"), route.parse()?, "hits".parse()?, 30);
    ///     # let _ = rule;
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn dead(name: impl Into<String>, counter: CounterName, site: CounterName, days: u32) -> Self {
        Self::new(name, seconds(86_400), Condition::Dead { counter, site }).raise_after(days)
    }

    /// Creates a rule: a new value enters the top list of a [label](counter_core::Stats::label), which has
    /// this number of places. The rule needs 24 buckets to learn the usual values, and remembers up to 1,000
    /// values.
    pub fn new_label(
        name: impl Into<String>,
        label: impl Into<String>,
        precision: Precision,
        places: usize,
    ) -> Self {
        let (label, places) = (label.into(), places.clamp(1, 100));
        Self::new(name, precision, Condition::NewLabel { label, places, min_count: 1 })
    }

    /// Creates a rule: the sum of some counters exceeds this share of another counter, e.g. the errors in
    /// `hits`. Buckets will be skipped when the whole gets no hits; see also [`at_least`](Self::at_least).
    pub fn share_above(
        name: impl Into<String>,
        parts: impl IntoIterator<Item = CounterName>,
        whole: CounterName,
        precision: Precision,
        share: f64,
    ) -> Self {
        let parts = parts.into_iter().collect();
        Self::new(name, precision, Condition::ShareAbove { parts, whole, share, min_count: 1 })
    }

    /// Creates a rule: a quantile of the times (in seconds) or sizes (in bytes) of a counter exceeds this
    /// value. You need to enable [distributions](counter_core::Builder::distributions) with this precision.
    pub fn quantile_above(
        name: impl Into<String>,
        counter: CounterName,
        precision: Precision,
        measure: Measure,
        q: f64,
        value: f64,
    ) -> Self {
        Self::new(name, precision, Condition::QuantileAbove { counter, measure, q, value, min_count: 1 })
    }

    /// Creates a rule: the counter has more or fewer hits in a bucket than expected from the history, the
    /// time of day and the time of the week. See [`Detector`](crate::detector::Detector) for how this works.
    /// The band is included in the [`Explanation`](crate::Explanation).
    ///
    /// ```
    /// use std::time::Duration;
    /// use counter_core::Precision;
    /// use counter_alert::AlertRule;
    ///
    /// // Three minutes in a row outside of the band, and no second alert within an hour.
    /// let minute = Precision::MINUTE;
    /// let rule = AlertRule::unusual("traffic", "hits".parse()?, minute);
    /// let rule = rule.raise_after(3).pause(Duration::from_secs(3600));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn unusual(name: impl Into<String>, counter: CounterName, precision: Precision) -> Self {
        Self::expecting(name, counter, precision, Side::Either)
    }

    /// Creates a rule: the counter has more hits in a bucket than expected; see [`unusual`](Self::unusual).
    pub fn unusually_high(name: impl Into<String>, counter: CounterName, precision: Precision) -> Self {
        Self::expecting(name, counter, precision, Side::High)
    }

    /// Creates a rule: the counter has fewer hits in a bucket than expected; see [`unusual`](Self::unusual).
    pub fn unusually_low(name: impl Into<String>, counter: CounterName, precision: Precision) -> Self {
        Self::expecting(name, counter, precision, Side::Low)
    }

    /// Creates a rule: the counter gets no hits for longer than expected. This takes longer at night than by
    /// day. If hits come in bursts, it must take longer than the usual pauses.
    pub fn unexpectedly_silent(name: impl Into<String>, counter: CounterName, precision: Precision) -> Self {
        Self::expecting(name, counter, precision, Side::Silent)
    }

    fn expecting(name: impl Into<String>, counter: CounterName, precision: Precision, side: Side) -> Self {
        let false_alarms = Detector::FALSE_ALARMS;
        Self::new(name, precision, Condition::Unusual { counter, side, false_alarms })
    }

    /// Sets the share of ordinary buckets that will be considered unusual, on either side: 1e-12 to 0.01.
    /// Default: 1 in 250,000, i.e. a minute in six months. This only affects rules based on a [`Detector`], which has
    /// [another limit](Detector::false_alarms) that changes accordingly.
    pub fn false_alarms(mut self, share: f64) -> Self {
        if let Condition::Unusual { false_alarms, .. } = &mut self.condition {
            *false_alarms = share;
        }
        self
    }

    /// Creates a process rule: there are pending hits, but the store does not accept any for longer than
    /// this, or a site of a [fleet](counter_core::fleet) can't be read for longer than this.
    pub fn store_away(name: impl Into<String>, after: Duration) -> Self {
        Self::process_rule(name, LocalCondition::StoreAway(after)).severity(Severity::Critical)
    }

    /// Creates a process rule: there are more pending hits than this.
    pub fn pending_above(name: impl Into<String>, hits: u64) -> Self {
        Self::process_rule(name, LocalCondition::Pending(hits))
    }

    /// Creates a process rule: the process clock and the store clock differ by more seconds than this.
    pub fn clock_skew_above(name: impl Into<String>, seconds: u64) -> Self {
        Self::process_rule(name, LocalCondition::ClockSkew(seconds))
    }

    /// Creates a process rule: one of the [sources](counter_core::source) has more uncounted positions than
    /// this, in records or bytes. A source will be skipped if the reader does not report the log end.
    pub fn source_behind(name: impl Into<String>, positions: u64) -> Self {
        Self::process_rule(name, LocalCondition::SourceBehind(positions))
    }

    /// Creates a process rule: the latest archive audit has found differences.
    pub fn archive_differs(name: impl Into<String>) -> Self {
        Self::process_rule(name, LocalCondition::ArchiveDiffers)
    }

    fn process_rule(name: impl Into<String>, condition: LocalCondition) -> Self {
        Self::new(name, seconds(1), Condition::Local(condition))
    }

    /// Returns the rule name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the condition of a process rule. The state of such a rule is kept per process.
    pub(crate) fn local(&self) -> Option<&LocalCondition> {
        match &self.condition {
            Condition::Local(condition) => Some(condition),
            _ => None,
        }
    }

    /// Sets the minimum number to evaluate a bucket: hits of the whole for a share, values for a
    /// distribution, or hits of the value for a label. Default: 1.
    pub fn at_least(mut self, count: u64) -> Self {
        if let Condition::ShareAbove { min_count, .. }
        | Condition::QuantileAbove { min_count, .. }
        | Condition::NewLabel { min_count, .. } = &mut self.condition
        {
            *min_count = count.max(1);
        }
        self
    }

    /// Sets the number of buckets in a row that must meet the condition in order to raise the alert, at least
    /// 1. Default: 1.
    pub fn raise_after(mut self, buckets: u32) -> Self {
        self.raise_after = buckets.max(1);
        self
    }

    /// Sets the number of buckets in a row that must not meet the condition in order to resolve the alert, at
    /// least 1. Default: 1.
    pub fn resolve_after(mut self, buckets: u32) -> Self {
        self.resolve_after = buckets.max(1);
        self
    }

    /// Sets the minimum time between two alerts of this rule. Default: zero.
    pub fn pause(mut self, pause: Duration) -> Self {
        self.pause = pause;
        self
    }

    /// Sets the alert severity. Default: [`Severity::Warning`].
    pub fn severity(mut self, severity: Severity) -> Self {
        self.severity = severity;
        self
    }

    /// Checks the rule, and returns it with the precision of the counters, which may have a UTC offset.
    pub(crate) fn fitted(mut self, stats: &Stats) -> Result<Self, RuleError> {
        self.check()?;
        let counts = stats.precisions_of(self.condition.all_counters());
        let retained = match &self.condition {
            Condition::Local(_) => return Ok(self),
            Condition::QuantileAbove { .. } => stats.grid().distributions.as_ref(),
            _ => Some(&*counts),
        };
        let width = self.precision.as_seconds();
        let mut retained =
            retained.into_iter().flat_map(|retention| retention.iter()).map(|retention| retention.precision);
        let precision = retained.find(|retention| retention.as_seconds() == width);
        self.precision = precision.ok_or_else(|| RuleError::Precision(self.name.clone(), self.precision))?;
        Ok(self)
    }

    pub(crate) fn check(&self) -> Result<(), RuleError> {
        let name = || self.name.clone();
        check_name(&self.name)?;
        let is_share = |share: f64| (0.0..=1.0).contains(&share);
        let is_valid = match &self.condition {
            Condition::Above { .. }
            | Condition::Below { .. }
            | Condition::Dead { .. }
            | Condition::Local(_) => true,
            Condition::NewLabel { label, .. } if is_label_name(label) => true,
            Condition::NewLabel { .. } => return Err(RuleError::Label(name())),
            Condition::ShareAbove { parts, share, .. } => is_share(*share) && !parts.is_empty(),
            Condition::Unusual { false_alarms, .. } => (1e-12..=0.01).contains(false_alarms),
            Condition::QuantileAbove { measure, q, value, .. } => {
                is_share(*q) && value.is_finite() && *value >= 0.0 && measure.is_range()
            }
        };
        if is_valid { Ok(()) } else { Err(RuleError::Number(name())) }
    }
}

pub(crate) fn check_name(name: &str) -> Result<(), RuleError> {
    match name.is_empty() || name.len() > AlertRule::MAX_NAME_BYTES || name.chars().any(char::is_control) {
        true => Err(RuleError::Name(name.to_owned())),
        false => Ok(()),
    }
}

impl fmt::Display for RuleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => {
                write!(f, "invalid name {name:?}: must be 1 to 128 bytes without control characters")
            }
            Self::Duplicate(name) => write!(f, "duplicate name {name:?}"),
            Self::Number(name) => write!(
                f,
                "rule {name:?} has a value out of range: shares and quantiles must be between 0 and 1, \
                 a share needs parts, and false alarms must be between 1e-12 and 0.01"
            ),
            Self::Label(name) => write!(
                f,
                "rule {name:?} has a value that is not the name of a label: 1 to 32 lowercase letters, digits, - and _"
            ),
            Self::Precision(name, precision) => {
                write!(f, "rule {name:?} needs buckets of {precision} s, which the counters do not keep")
            }
            Self::Report(name) => write!(
                f,
                "report {name:?} needs a precision that divides a day, kept for more than two report periods and a day"
            ),
            Self::TooMany => write!(f, "too many rules: at most {MAX_RULES} are allowed"),
        }
    }
}

impl std::error::Error for RuleError {}

counter_core::internal::debug_in_full!(RuleError);
