//! Deserializes rules from configuration.

use std::num::NonZeroU32;

use http::Method;
use serde::de::{Deserialize, Deserializer, Error};

use super::builder::RulesBuilder;
use super::rule::Rule;

#[derive(Default, serde::Deserialize)]
#[serde(deny_unknown_fields, default, rename = "RulesBuilder")]
struct RulesFields {
    exclude: Vec<String>,
    exclude_prefetch: bool,
    rules: Vec<Rule>,
    by_matched_path: bool,
    #[serde(alias = "otherwise")]
    default_counter: Option<String>,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields, rename = "Rule")]
struct RuleFields {
    counter: String,
    patterns: Vec<String>,
    #[serde(default)]
    methods: Vec<String>,
    #[serde(default = "default_weight")]
    weight: NonZeroU32,
    #[serde(default = "default_visitors")]
    visitors: bool,
}

const fn default_weight() -> NonZeroU32 {
    NonZeroU32::MIN
}

const fn default_visitors() -> bool {
    true
}

/// All fields are optional, except for the counter and the patterns of a rule.
///
/// ```
/// let rules: counter_layer::RulesBuilder = serde_json::from_str(r#"{
///     "exclude": ["/healthz"],
///     "exclude_prefetch": true,
///     "rules": [
///         {"counter": "articles", "patterns": ["/articles/{id}"], "methods": ["GET"]},
///         {"counter": "api", "patterns": ["/api/*"], "weight": 10, "visitors": false}
///     ],
///     "by_matched_path": true,
///     "default_counter": "pages"
/// }"#)?;
/// let rules = rules.build()?;
/// assert_eq!(rules.counters().collect::<Vec<_>>(), ["articles", "api", "pages"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
impl<'de> Deserialize<'de> for RulesBuilder {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let fields = RulesFields::deserialize(deserializer)?;
        Ok(Self {
            exclude: fields.exclude,
            exclude_prefetch: fields.exclude_prefetch,
            rules: fields.rules,
            by_matched_path: fields.by_matched_path,
            default_counter: fields.default_counter,
        })
    }
}

impl<'de> Deserialize<'de> for Rule {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let fields = RuleFields::deserialize(deserializer)?;
        let method = |name: String| Method::from_bytes(name.as_bytes()).map_err(D::Error::custom);
        Ok(Self {
            counter: fields.counter,
            patterns: fields.patterns,
            methods: fields.methods.into_iter().map(method).collect::<Result<_, _>>()?,
            weight: fields.weight,
            visitors: fields.visitors,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefetch_exclusion_is_configurable() {
        for (text, excludes) in [("{}", false), (r#"{"exclude_prefetch": true}"#, true)] {
            let rules = serde_json::from_str::<RulesBuilder>(text).expect("a configuration").build();
            assert_eq!(rules.expect("no pattern").excludes_prefetch(), excludes, "{text}");
        }
    }

    #[test]
    fn invalid_configuration_is_rejected() {
        let read = serde_json::from_str::<RulesBuilder>;
        assert!(read("{}").is_ok());
        assert!(read(r#"{"rules": [{"counter": "a", "patterns": ["/a"], "methods": ["GET"]}]}"#).is_ok());
        for text in [
            r#"{"excludes": []}"#,
            r#"{"rules": [{"counter": "a"}]}"#,
            r#"{"rules": [{"counter": "a", "patterns": ["/a"], "method": "GET"}]}"#,
            r#"{"rules": [{"counter": "a", "patterns": ["/a"], "methods": ["G T"]}]}"#,
            r#"{"rules": [{"counter": "a", "patterns": ["/a"], "weight": 0}]}"#,
        ] {
            assert!(read(text).is_err(), "{text}");
        }
    }
}
