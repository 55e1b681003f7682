//! Parameters to add, remove or silence a rule.

use counter_alert::{AlertRule, Alerts};
use serde_json::json;

use super::{Description, Parameters, Times, Values, name_schema};
use crate::problem::Problem;

/// A rule name. The rule might not exist.
#[derive(Debug)]
pub(crate) struct RuleName(pub(crate) String);

/// A rule to add, in JSON.
#[derive(Debug)]
pub(crate) struct NewRule(pub(crate) AlertRule);

/// The duration of a silence in seconds, or 0 to end it.
#[derive(Debug)]
pub(crate) struct Seconds(pub(crate) u64);

impl<S> Parameters<S> for RuleName {
    fn describe() -> Vec<Description> {
        vec![
            Description::new("rule", "The rule name", |_| name_schema(1, AlertRule::MAX_NAME_BYTES))
                .times(Times::Once),
        ]
    }

    fn read(values: &Values<'_>, _: &S) -> Result<Self, Problem> {
        match values.one("rule")? {
            Some(rule) => Ok(Self(rule.to_owned())),
            None => Err(Problem::parameter("missing parameter", "rule", None, "a rule name")),
        }
    }
}

impl NewRule {
    const MAX_BYTES: usize = 4096;
}

impl<S> Parameters<S> for NewRule {
    fn describe() -> Vec<Description> {
        let text = "The rule in JSON, as in a configuration: see `counter_alert::AlertRule`";
        let schema = |_: &_| json!({"type": "string", "maxLength": Self::MAX_BYTES});
        let example = r#"{"name":"busy","when":{"above":{"counter":"hits","hits":1000}},"precision":60}"#;
        let config = Description::new("config", text, schema).times(Times::Once);
        vec![Description { example: Some(example), ..config }]
    }

    fn read(values: &Values<'_>, _: &S) -> Result<Self, Problem> {
        let invalid = |value, reason: String| Problem::parameter("not a valid rule", "config", value, reason);
        match values.one("config")? {
            None => Err(Problem::parameter("missing parameter", "config", None, "a rule in JSON")),
            Some(config) if config.len() > Self::MAX_BYTES => {
                Err(invalid(None, format!("at most {} bytes", Self::MAX_BYTES)))
            }
            Some(config) => serde_json::from_str(config)
                .map(Self)
                .map_err(|error| invalid(Some(config), error.to_string())),
        }
    }
}

impl Seconds {
    const MAX_SECONDS: u64 = Alerts::MAX_SILENCE.as_secs();

    /// Parses a duration from a form or a query string.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        text.parse().ok().filter(|seconds| *seconds <= Self::MAX_SECONDS).map(Self)
    }
}

impl<S> Parameters<S> for Seconds {
    fn describe() -> Vec<Description> {
        let text = "The seconds to silence the rule for; 0 ends the silence";
        let schema = |_: &_| json!({"type": "integer", "minimum": 0, "maximum": Self::MAX_SECONDS});
        vec![Description::new("seconds", text, schema).times(Times::Once)]
    }

    fn read(values: &Values<'_>, _: &S) -> Result<Self, Problem> {
        let allowed = format!("0 to {}", Self::MAX_SECONDS);
        let Some(value) = values.one("seconds")? else {
            return Err(Problem::parameter("missing parameter", "seconds", None, allowed));
        };
        Self::parse(value)
            .ok_or_else(|| Problem::parameter("not a valid duration", "seconds", Some(value), allowed))
    }
}
