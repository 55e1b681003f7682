use std::fmt;
use std::time::Duration;

use counter_core::visits::Measure;
use counter_core::{CounterName, Precision};

use super::condition::Condition;
use super::local::LocalCondition;
use super::verdict::Side;
use crate::alert::Severity;
use crate::detector::Detector;

/// A rule that is looked at in each bucket that closes.
///
/// An alert is raised when its condition has held in as many buckets in a row as [`raise_after`](Self::raise_after) says,
/// and resolved when it has not held in as many as [`resolve_after`](Self::resolve_after) says. A bucket that cannot be
/// read, or that has too few hits to tell, counts as neither.
///
/// Rules about the process, which begin with that of a [store that is away](Self::store_away), are looked at in every pass of
/// a watch instead of every bucket, by every process for itself: each tells its own alerts, with an
/// [`id`](crate::Alert::id) of its own, also while the store is away.
/// Rules can be read from configuration, with the words of the constructors and setters:
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
#[must_use = "a rule is looked at by a `Watch`"]
pub struct AlertRule {
    pub(crate) name: String,
    pub(crate) condition: Condition,
    pub(crate) precision: Precision,
    pub(crate) raise_after: u32,
    pub(crate) resolve_after: u32,
    pub(crate) pause: Duration,
    pub(crate) severity: Severity,
}

/// A reason why rules cannot be watched.
#[derive(Clone, PartialEq)]
#[non_exhaustive]
pub enum RuleError {
    /// The name of a rule is empty, has more than 128 bytes, or has a control character.
    Name(String),
    /// Two rules have this name.
    Twice(String),
    /// A number of the rule of this name is not one that it can have: a share and a quantile are between 0 and 1.
    Number(String),
    /// The precision of the rule of this name is not one that the counters keep for what it looks at.
    Precision(String, Precision),
    /// No precision is kept long enough for the report of this name and the time before it.
    Report(String),
    /// There are more than 5,000 rules.
    TooMany,
}

/// The number of rules that one watch may have.
pub(crate) const RULES: usize = 5000;

fn seconds(width: u32) -> Precision {
    Precision::try_from(width).expect("not 0")
}

impl AlertRule {
    fn new(name: impl Into<String>, precision: Precision, condition: Condition) -> Self {
        let (raise_after, resolve_after) = (1, 1);
        let (name, severity) = (name.into(), Severity::default());
        Self { name, condition, precision, raise_after, resolve_after, pause: Duration::ZERO, severity }
    }

    /// Creates a rule: a counter has more hits than this in a bucket.
    pub fn above(name: impl Into<String>, counter: CounterName, precision: Precision, hits: u64) -> Self {
        Self::new(name, precision, Condition::Above { counter, hits })
    }

    /// Creates a rule: a counter has fewer hits than this in a bucket.
    pub fn below(name: impl Into<String>, counter: CounterName, precision: Precision, hits: u64) -> Self {
        Self::new(name, precision, Condition::Below { counter, hits })
    }

    /// Creates a rule: a counter has no hits in a bucket.
    pub fn silent(name: impl Into<String>, counter: CounterName, precision: Precision) -> Self {
        Self::below(name, counter, precision, 1)
    }

    /// Creates a rule: a counter has had no hits for so many days, each with hits of the whole site, which are those of
    /// this other counter. It finds routes that nobody uses any more, also in days before the rule was made, a year of
    /// them at most.
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

    /// Creates a rule: a value is among so many of the most frequent ones of a [label](counter_core::Stats::label) in a bucket, and was
    /// not before. The values of the first 24 buckets are learnt, and 1,000 are remembered.
    pub fn new_label(
        name: impl Into<String>,
        label: impl Into<String>,
        precision: Precision,
        places: usize,
    ) -> Self {
        let (label, places) = (label.into(), places.clamp(1, 100));
        Self::new(name, precision, Condition::NewLabel { label, places, least: 1 })
    }

    /// Creates a rule: some counters together have a larger share of another one than this, such as those of errors of
    /// `hits`. A bucket without hits of the whole is not judged; see [`at_least`](Self::at_least).
    pub fn share_above(
        name: impl Into<String>,
        parts: impl IntoIterator<Item = CounterName>,
        whole: CounterName,
        precision: Precision,
        share: f64,
    ) -> Self {
        let parts = parts.into_iter().collect();
        Self::new(name, precision, Condition::ShareAbove { parts, whole, share, least: 1 })
    }

    /// Creates a rule: a quantile of a counter's times, in seconds, or sizes, in bytes, is larger than this. The counters
    /// have to keep [distributions](counter_core::Builder::distributions) of this precision.
    pub fn quantile_above(
        name: impl Into<String>,
        counter: CounterName,
        precision: Precision,
        measure: Measure,
        q: f64,
        value: f64,
    ) -> Self {
        Self::new(name, precision, Condition::QuantileAbove { counter, measure, q, value, least: 1 })
    }

    /// Creates a rule: a counter has more or fewer hits in a bucket than are expected by its history, the time of day and
    /// of the week. How this is found out is told by [`Detector`](crate::detector::Detector); the band is in
    /// an [`Explanation`](crate::Explanation).
    ///
    /// ```
    /// use std::time::Duration;
    /// use counter_core::Precision;
    /// use counter_alert::AlertRule;
    ///
    /// // Three minutes in a row outside of the band, and no second alert within an hour.
    /// let minute = Precision::try_from(60)?;
    /// let rule = AlertRule::unusual("traffic", "hits".parse()?, minute);
    /// let rule = rule.raise_after(3).pause(Duration::from_secs(3600));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn unusual(name: impl Into<String>, counter: CounterName, precision: Precision) -> Self {
        Self::expecting(name, counter, precision, Side::Either)
    }

    /// Creates a rule: a counter has more hits in a bucket than are expected; see [`unusual`](Self::unusual).
    pub fn unusually_high(name: impl Into<String>, counter: CounterName, precision: Precision) -> Self {
        Self::expecting(name, counter, precision, Side::High)
    }

    /// Creates a rule: a counter has fewer hits in a bucket than are expected; see [`unusual`](Self::unusual).
    pub fn unusually_low(name: impl Into<String>, counter: CounterName, precision: Precision) -> Self {
        Self::expecting(name, counter, precision, Side::Low)
    }

    /// Creates a rule: a counter has had no hits for so long that some surely should have come. By night that takes
    /// longer than by day, and for a counter whose hits come in bursts longer than the pauses between them.
    pub fn unexpectedly_silent(name: impl Into<String>, counter: CounterName, precision: Precision) -> Self {
        Self::expecting(name, counter, precision, Side::Silent)
    }

    fn expecting(name: impl Into<String>, counter: CounterName, precision: Precision, side: Side) -> Self {
        let false_alarms = Detector::FALSE_ALARMS;
        Self::new(name, precision, Condition::Unusual { counter, side, false_alarms })
    }

    /// Takes so large a share of ordinary buckets for unusual, on each side: 1e-12 to 0.01. Default: one in 250,000, which
    /// are the minutes of six months. It concerns rules about what is expected.
    pub fn false_alarms(mut self, share: f64) -> Self {
        if let Condition::Unusual { false_alarms, .. } = &mut self.condition {
            *false_alarms = share;
        }
        self
    }

    /// Creates a rule about the process: hits wait, and the store has taken none for longer than this.
    pub fn store_away(name: impl Into<String>, after: Duration) -> Self {
        Self::of_process(name, LocalCondition::StoreAway(after)).severity(Severity::Critical)
    }

    /// Creates a rule about the process: more hits than this wait for the store.
    pub fn pending_above(name: impl Into<String>, hits: u64) -> Self {
        Self::of_process(name, LocalCondition::Pending(hits))
    }

    /// Creates a rule about the process: its clock differs from the store's by more seconds than this.
    pub fn clock_skew_above(name: impl Into<String>, seconds: u64) -> Self {
        Self::of_process(name, LocalCondition::ClockSkew(seconds))
    }

    /// Creates a rule about the process: one of its [sources](counter_core::source) has more positions than this, records or bytes,
    /// that are not counted. A source whose reader does not tell the end of its log is not judged.
    pub fn source_behind(name: impl Into<String>, positions: u64) -> Self {
        Self::of_process(name, LocalCondition::SourceBehind(positions))
    }

    /// Creates a rule about the process: its last audit of an archive has found values that differ.
    pub fn archive_differs(name: impl Into<String>) -> Self {
        Self::of_process(name, LocalCondition::ArchiveDiffers)
    }

    fn of_process(name: impl Into<String>, condition: LocalCondition) -> Self {
        Self::new(name, seconds(1), Condition::Local(condition))
    }

    /// Returns the condition of a rule about the process. Each process keeps its own state of such a rule.
    pub(crate) fn local(&self) -> Option<&LocalCondition> {
        match &self.condition {
            Condition::Local(condition) => Some(condition),
            _ => None,
        }
    }

    /// Judges a bucket only if it has at least this number: hits of the whole for a share, values for a distribution, hits of
    /// the value for a label. Default: 1.
    pub fn at_least(mut self, count: u64) -> Self {
        if let Condition::ShareAbove { least, .. }
        | Condition::QuantileAbove { least, .. }
        | Condition::NewLabel { least, .. } = &mut self.condition
        {
            *least = count.max(1);
        }
        self
    }

    /// Raises the alert when the condition has held in so many buckets in a row, at least 1. Default: 1.
    pub fn raise_after(mut self, buckets: u32) -> Self {
        self.raise_after = buckets.max(1);
        self
    }

    /// Resolves the alert when the condition has not held in so many buckets in a row, at least 1. Default: 1.
    pub fn resolve_after(mut self, buckets: u32) -> Self {
        self.resolve_after = buckets.max(1);
        self
    }

    /// Raises no other alert of this rule for so long after one was raised. Default: no pause.
    pub fn pause(mut self, pause: Duration) -> Self {
        self.pause = pause;
        self
    }

    /// Tells receivers how severe the alert is. Default: [`Severity::Warning`].
    pub fn severity(mut self, severity: Severity) -> Self {
        self.severity = severity;
        self
    }

    pub(crate) fn check(&self) -> Result<(), RuleError> {
        let name = || self.name.clone();
        check_name(&self.name)?;
        let is_share = |share: f64| (0.0..=1.0).contains(&share);
        let is_good = match &self.condition {
            Condition::Above { .. }
            | Condition::Below { .. }
            | Condition::Dead { .. }
            | Condition::NewLabel { .. }
            | Condition::Local(_) => true,
            Condition::ShareAbove { parts, share, .. } => is_share(*share) && !parts.is_empty(),
            Condition::Unusual { false_alarms, .. } => (1e-12..=0.01).contains(false_alarms),
            Condition::QuantileAbove { measure, q, value, .. } => {
                is_share(*q) && value.is_finite() && *value >= 0.0 && measure.is_range()
            }
        };
        if is_good { Ok(()) } else { Err(RuleError::Number(name())) }
    }
}

pub(crate) fn check_name(name: &str) -> Result<(), RuleError> {
    match name.is_empty() || name.len() > 128 || name.chars().any(char::is_control) {
        true => Err(RuleError::Name(name.to_owned())),
        false => Ok(()),
    }
}

impl fmt::Display for RuleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => {
                write!(f, "{name:?} is no name of a rule: 1 to 128 bytes without control characters")
            }
            Self::Twice(name) => write!(f, "there are two rules of the name {name:?}"),
            Self::Number(name) => write!(
                f,
                "the rule {name:?} has a number that it cannot have: shares and quantiles are between 0 and 1, \
                 a share has parts, and false alarms are 1e-12 to 0.01"
            ),
            Self::Precision(name, precision) => {
                write!(f, "the rule {name:?} looks at buckets of {precision} s, which are not kept")
            }
            Self::Report(name) => write!(
                f,
                "the report {name:?} needs a precision that divides a day, kept for more than twice its time and a day"
            ),
            Self::TooMany => write!(f, "there are more than {RULES} rules"),
        }
    }
}

impl std::error::Error for RuleError {}

counter_core::internal::debug_in_full!(RuleError);
