use std::fmt;
use std::time::Duration;

use super::Severity;
use super::condition::Condition;
use super::expected::Side;
use crate::forecast::Detector;
use crate::visits::Measure;
use crate::{CounterName, Precision};

/// A rule that is looked at in each bucket that closes.
///
/// An alert is raised when its condition has held in as many buckets in a row as [`raise_after`](Self::raise_after) says,
/// and resolved when it has not held in as many as [`resolve_after`](Self::resolve_after) says. A bucket that cannot be
/// read, or that has too few hits to tell, counts as neither.
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
    /// There are more than 1,000 rules.
    TooMany,
}

/// The number of rules that one watch may have.
pub(crate) const RULES: usize = 1000;

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

    /// Creates a rule: a counter has no hits in a bucket. With days and [`raise_after`](Self::raise_after) 30 it finds
    /// routes that nobody uses any more.
    pub fn silent(name: impl Into<String>, counter: CounterName, precision: Precision) -> Self {
        Self::below(name, counter, precision, 1)
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
    /// have to keep [distributions](crate::Builder::distributions) of this precision.
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
    /// of the week. How this is found out is told by [`Detector`](crate::forecast::Detector); the band is in
    /// [`Alert::expected`](super::Alert::expected).
    ///
    /// ```
    /// use std::time::Duration;
    /// use counter_core::Precision;
    /// use counter_core::alert::AlertRule;
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

    /// Judges a bucket only where the whole of a share has at least so many hits, or a distribution so many values.
    /// Default: 1.
    pub fn at_least(mut self, count: u64) -> Self {
        if let Condition::ShareAbove { least, .. } | Condition::QuantileAbove { least, .. } =
            &mut self.condition
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
        if self.name.is_empty() || self.name.len() > 128 || self.name.chars().any(char::is_control) {
            return Err(RuleError::Name(name()));
        }
        let is_share = |share: f64| (0.0..=1.0).contains(&share);
        let is_good = match &self.condition {
            Condition::Above { .. } | Condition::Below { .. } => true,
            Condition::ShareAbove { parts, share, .. } => is_share(*share) && !parts.is_empty(),
            Condition::Unusual { false_alarms, .. } => (1e-12..=0.01).contains(false_alarms),
            Condition::QuantileAbove { measure, q, value, .. } => {
                is_share(*q) && value.is_finite() && *value >= 0.0 && measure.is_range()
            }
        };
        if is_good { Ok(()) } else { Err(RuleError::Number(name())) }
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
                 and a share has parts"
            ),
            Self::Precision(name, precision) => {
                write!(f, "the rule {name:?} looks at buckets of {precision} s, which are not kept")
            }
            Self::TooMany => write!(f, "there are more than {RULES} rules"),
        }
    }
}

impl std::error::Error for RuleError {}

crate::debug::debug_in_full!(RuleError);
