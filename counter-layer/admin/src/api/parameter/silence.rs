//! Parameters to silence a rule.

use counter_alert::Alerts;
use serde_json::json;

use super::{Description, Parameters, Times, Values, name_schema};
use crate::problem::Problem;

/// A rule name. The rule might not exist.
#[derive(Debug)]
pub(crate) struct RuleName(pub(crate) String);

/// The duration of a silence in seconds, or 0 to end it.
#[derive(Debug)]
pub(crate) struct Seconds(pub(crate) u64);

impl<S> Parameters<S> for RuleName {
    fn describe() -> Vec<Description> {
        vec![Description::new("rule", "The name of the rule", |_| name_schema(1, 128)).times(Times::Once)]
    }

    fn read(values: &Values<'_>, _: &S) -> Result<Self, Problem> {
        match values.one("rule")? {
            Some(rule) => Ok(Self(rule.to_owned())),
            None => Err(Problem::parameter("a parameter is missing", "rule", None, "the name of a rule")),
        }
    }
}

impl Seconds {
    const MOST: u64 = Alerts::LONGEST_SILENCE.as_secs();

    /// Parses a duration from a form or a query string.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        text.parse().ok().filter(|seconds| *seconds <= Self::MOST).map(Self)
    }
}

impl<S> Parameters<S> for Seconds {
    fn describe() -> Vec<Description> {
        let text = "The seconds from now for which nothing is told of the rule; 0 ends its silence";
        let schema = |_: &_| json!({"type": "integer", "minimum": 0, "maximum": Self::MOST});
        vec![Description::new("seconds", text, schema).times(Times::Once)]
    }

    fn read(values: &Values<'_>, _: &S) -> Result<Self, Problem> {
        let allowed = format!("0 to {}", Self::MOST);
        let Some(value) = values.one("seconds")? else {
            return Err(Problem::parameter("a parameter is missing", "seconds", None, allowed));
        };
        Self::parse(value)
            .ok_or_else(|| Problem::parameter("not the length of a silence", "seconds", Some(value), allowed))
    }
}
