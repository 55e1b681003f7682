//! Rules in a configuration, or in the store.

use std::str::FromStr;
use std::time::Duration;

use counter_core::visits::Measure;
use counter_core::{CounterName, Precision};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::Value;

use super::condition::Condition;
use super::local::LocalCondition;
use super::rule::AlertRule;
use super::verdict::Side;
use crate::alert::Severity;

/// An [`AlertRule`] in the configuration, before its values are checked.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleConfig {
    name: String,
    when: When,
    #[serde(default = "minute")]
    precision: u32,
    raise_after: Option<u32>,
    resolve_after: Option<u32>,
    pause: Option<u64>,
    severity: Option<Severity>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum When {
    Above { counter: Name, hits: u64 },
    Below { counter: Name, hits: u64 },
    Silent { counter: Name },
    Dead { counter: Name, site: Name, days: u32 },
    ShareAbove { parts: Vec<Name>, whole: Name, share: f64, at_least: Option<u64> },
    QuantileAbove { counter: Name, measure: Quantity, q: f64, value: f64, at_least: Option<u64> },
    Unusual { counter: Name, false_alarms: Option<f64> },
    UnusuallyHigh { counter: Name, false_alarms: Option<f64> },
    UnusuallyLow { counter: Name, false_alarms: Option<f64> },
    UnexpectedlySilent { counter: Name, false_alarms: Option<f64> },
    NewLabel { label: String, places: usize, at_least: Option<u64> },
    StoreAway { seconds: u64 },
    PendingAbove { hits: u64 },
    ClockSkewAbove { seconds: u64 },
    SourceBehind { positions: u64 },
    ArchiveDiffers {},
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Quantity {
    Time,
    Body,
    Size,
}

/// A rule in the store.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum StoredRule {
    Known(AlertRule),
    /// A rule that a newer version has written. We keep it unchanged.
    Unknown(Value),
}

impl StoredRule {
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Known(rule) => &rule.name,
            Self::Unknown(rule) => rule["name"].as_str().unwrap_or_default(),
        }
    }

    pub(crate) const fn known(&self) -> Option<&AlertRule> {
        match self {
            Self::Known(rule) => Some(rule),
            Self::Unknown(_) => None,
        }
    }
}

/// A counter name in the configuration of a rule.
#[derive(Clone, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
struct Name(CounterName);

impl From<Name> for String {
    fn from(name: Name) -> Self {
        name.0.to_string()
    }
}

impl TryFrom<String> for Name {
    type Error = <CounterName as FromStr>::Err;

    fn try_from(name: String) -> Result<Self, Self::Error> {
        name.parse().map(Self)
    }
}

fn minute() -> u32 {
    60
}

impl<'de> Deserialize<'de> for AlertRule {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let config = RuleConfig::deserialize(deserializer)?;
        let RuleConfig { name, when, precision, raise_after, resolve_after, pause, severity } = config;
        let precision = Precision::try_from(precision).map_err(de::Error::custom)?;
        let (mut rule, min_count) = of(name, when, precision);
        if let Some(min_count) = min_count {
            rule = rule.at_least(min_count);
        }
        if let Some(buckets) = raise_after {
            rule = rule.raise_after(buckets);
        }
        if let Some(buckets) = resolve_after {
            rule = rule.resolve_after(buckets);
        }
        if let Some(seconds) = pause {
            rule = rule.pause(Duration::from_secs(seconds));
        }
        if let Some(severity) = severity {
            rule = rule.severity(severity);
        }
        rule.check().map_err(de::Error::custom)?;
        Ok(rule)
    }
}

impl Serialize for AlertRule {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let config = RuleConfig {
            name: self.name.clone(),
            when: when(&self.condition, self.raise_after),
            precision: self.precision.as_seconds(),
            raise_after: Some(self.raise_after),
            resolve_after: Some(self.resolve_after),
            pause: Some(self.pause.as_secs()),
            severity: Some(self.severity),
        };
        config.serialize(serializer)
    }
}

/// Returns the configuration of a condition. A rule on unused counters has its days in `raise_after`.
fn when(condition: &Condition, days: u32) -> When {
    let name = |counter: &CounterName| Name(counter.clone());
    match condition {
        Condition::Above { counter, hits } => When::Above { counter: name(counter), hits: *hits },
        Condition::Below { counter, hits } => When::Below { counter: name(counter), hits: *hits },
        Condition::Dead { counter, site } => When::Dead { counter: name(counter), site: name(site), days },
        Condition::ShareAbove { parts, whole, share, min_count } => When::ShareAbove {
            parts: parts.iter().map(name).collect(),
            whole: name(whole),
            share: *share,
            at_least: Some(*min_count),
        },
        Condition::QuantileAbove { counter, measure, q, value, min_count } => When::QuantileAbove {
            counter: name(counter),
            measure: match measure {
                Measure::Body => Quantity::Body,
                Measure::Size => Quantity::Size,
                _ => Quantity::Time,
            },
            q: *q,
            value: *value,
            at_least: Some(*min_count),
        },
        Condition::Unusual { counter, side, false_alarms } => {
            let (counter, false_alarms) = (name(counter), Some(*false_alarms));
            match side {
                Side::Either => When::Unusual { counter, false_alarms },
                Side::High => When::UnusuallyHigh { counter, false_alarms },
                Side::Low => When::UnusuallyLow { counter, false_alarms },
                Side::Silent => When::UnexpectedlySilent { counter, false_alarms },
            }
        }
        Condition::NewLabel { label, places, min_count } => {
            When::NewLabel { label: label.clone(), places: *places, at_least: Some(*min_count) }
        }
        Condition::Local(local) => match *local {
            LocalCondition::StoreAway(time) => When::StoreAway { seconds: time.as_secs() },
            LocalCondition::Pending(hits) => When::PendingAbove { hits },
            LocalCondition::ClockSkew(seconds) => When::ClockSkewAbove { seconds },
            LocalCondition::SourceBehind(positions) => When::SourceBehind { positions },
            LocalCondition::ArchiveDiffers => When::ArchiveDiffers {},
        },
    }
}

fn of(name: String, when: When, precision: Precision) -> (AlertRule, Option<u64>) {
    let rule = match when {
        When::Above { counter, hits } => AlertRule::above(name, counter.0, precision, hits),
        When::Below { counter, hits } => AlertRule::below(name, counter.0, precision, hits),
        When::Silent { counter } => AlertRule::silent(name, counter.0, precision),
        When::Dead { counter, site, days } => AlertRule::dead(name, counter.0, site.0, days),
        When::ShareAbove { parts, whole, share, at_least } => {
            let parts = parts.into_iter().map(|part| part.0);
            return (AlertRule::share_above(name, parts, whole.0, precision, share), at_least);
        }
        When::QuantileAbove { counter, measure, q, value, at_least } => {
            let measure = match measure {
                Quantity::Time => Measure::Time,
                Quantity::Body => Measure::Body,
                Quantity::Size => Measure::Size,
            };
            return (AlertRule::quantile_above(name, counter.0, precision, measure, q, value), at_least);
        }
        When::Unusual { counter, false_alarms } => {
            expecting(AlertRule::unusual(name, counter.0, precision), false_alarms)
        }
        When::UnusuallyHigh { counter, false_alarms } => {
            expecting(AlertRule::unusually_high(name, counter.0, precision), false_alarms)
        }
        When::UnusuallyLow { counter, false_alarms } => {
            expecting(AlertRule::unusually_low(name, counter.0, precision), false_alarms)
        }
        When::UnexpectedlySilent { counter, false_alarms } => {
            expecting(AlertRule::unexpectedly_silent(name, counter.0, precision), false_alarms)
        }
        When::NewLabel { label, places, at_least } => {
            return (AlertRule::new_label(name, label, precision, places), at_least);
        }
        When::StoreAway { seconds } => AlertRule::store_away(name, Duration::from_secs(seconds)),
        When::PendingAbove { hits } => AlertRule::pending_above(name, hits),
        When::ClockSkewAbove { seconds } => AlertRule::clock_skew_above(name, seconds),
        When::SourceBehind { positions } => AlertRule::source_behind(name, positions),
        When::ArchiveDiffers {} => AlertRule::archive_differs(name),
    };
    (rule, None)
}

fn expecting(rule: AlertRule, false_alarms: Option<f64>) -> AlertRule {
    false_alarms.into_iter().fold(rule, AlertRule::false_alarms)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> Result<AlertRule, String> {
        serde_json::from_str(json).map_err(|error| error.to_string())
    }

    #[test]
    fn configured_rules_equal_constructed_rules() {
        let name = |name: &str| name.parse::<CounterName>().expect("a name");
        let seconds = |width: u32| Precision::try_from(width).expect("not 0");
        let errors = AlertRule::share_above("errors", [name("status:5xx")], name("hits"), seconds(300), 0.05);
        let errors = errors.at_least(20).raise_after(2).resolve_after(3).pause(Duration::from_secs(3600));
        let all = r#"{"name":"errors","when":{"share_above":{"parts":["status:5xx"],"whole":"hits","share":0.05,
            "at_least":20}},"precision":300,"raise_after":2,"resolve_after":3,"pause":3600,"severity":"critical"}"#;
        let errors = errors.severity(Severity::Critical);
        assert_eq!(read(all).as_ref(), Ok(&errors));
        assert_eq!(read(&serde_json::to_string(&errors).expect("numbers and strings")), Ok(errors));
        for (when, rule) in [
            (r#"{"above":{"counter":"/","hits":9}}"#, AlertRule::above("a", name("/"), seconds(60), 9)),
            (r#"{"below":{"counter":"/","hits":9}}"#, AlertRule::below("a", name("/"), seconds(60), 9)),
            (r#"{"silent":{"counter":"/"}}"#, AlertRule::silent("a", name("/"), seconds(60))),
            (
                r#"{"dead":{"counter":"/","site":"hits","days":30}}"#,
                AlertRule::dead("a", name("/"), name("hits"), 30),
            ),
            (
                r#"{"quantile_above":{"counter":"/","measure":"time","q":0.9,"value":2}}"#,
                AlertRule::quantile_above("a", name("/"), seconds(60), Measure::Time, 0.9, 2.0),
            ),
            (
                r#"{"new_label":{"label":"referrer","places":10}}"#,
                AlertRule::new_label("a", "referrer", seconds(60), 10),
            ),
            (r#"{"unusual":{"counter":"/"}}"#, AlertRule::unusual("a", name("/"), seconds(60))),
            (
                r#"{"unusually_high":{"counter":"/","false_alarms":0.001}}"#,
                AlertRule::unusually_high("a", name("/"), seconds(60)).false_alarms(0.001),
            ),
            (r#"{"unusually_low":{"counter":"/"}}"#, AlertRule::unusually_low("a", name("/"), seconds(60))),
            (
                r#"{"unexpectedly_silent":{"counter":"/"}}"#,
                AlertRule::unexpectedly_silent("a", name("/"), seconds(60)),
            ),
            (
                r#"{"share_above":{"parts":["/"],"whole":"hits","share":0.011000000000000001}}"#,
                AlertRule::share_above("a", [name("/")], name("hits"), seconds(60), 1.1 / 100.0),
            ),
            (r#"{"store_away":{"seconds":60}}"#, AlertRule::store_away("a", Duration::from_secs(60))),
            (r#"{"pending_above":{"hits":9}}"#, AlertRule::pending_above("a", 9)),
            (r#"{"clock_skew_above":{"seconds":9}}"#, AlertRule::clock_skew_above("a", 9)),
            (r#"{"source_behind":{"positions":9}}"#, AlertRule::source_behind("a", 9)),
            (r#"{"archive_differs":{}}"#, AlertRule::archive_differs("a")),
        ] {
            assert_eq!(read(&format!(r#"{{"name":"a","when":{when}}}"#)).as_ref(), Ok(&rule), "{when}");
            let written = serde_json::to_string(&rule).expect("numbers and strings");
            assert_eq!(read(&written), Ok(rule), "{written}");
        }
    }

    #[test]
    fn errors_name_the_invalid_part() {
        for (json, wrong) in [
            (r#"{"name":"a","when":{"above":{"counter":"/","hits":9}},"presicion":5}"#, "presicion"),
            (r#"{"name":"a","when":{"above":{"counter":"/","hit":9}}}"#, "hit"),
            (r#"{"name":"a","when":{"over":{}}}"#, "over"),
            (r#"{"name":"","when":{"above":{"counter":"/","hits":9}}}"#, "invalid name"),
            (r#"{"name":"a","when":{"above":{"counter":"","hits":9}}}"#, "name"),
            (
                r#"{"name":"a","when":{"share_above":{"parts":[],"whole":"hits","share":2}}}"#,
                "between 0 and 1",
            ),
            (r#"{"name":"a","when":{"silent":{"counter":"/"}},"precision":0}"#, "seconds"),
            (r#"{"name":"a","when":{"new_label":{"label":"a:b","places":10}}}"#, "not the name of a label"),
        ] {
            let error = read(json).expect_err(json);
            assert!(error.contains(wrong), "{error}");
        }
    }
}
