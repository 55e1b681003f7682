use std::ops::RangeInclusive;

use serde_json::json;

use super::{Description, Parameters, Values};
use crate::problem::Problem;

/// The maximum number of counters in a response.
#[derive(Debug)]
pub(crate) struct Limit<const DEFAULT: usize>(pub(crate) usize);

/// The number of buckets to forecast.
#[derive(Debug)]
pub(crate) struct Horizon<const DEFAULT: usize>(pub(crate) usize);

const LIMITS: RangeInclusive<usize> = 1..=1000;

const HORIZONS: RangeInclusive<usize> = 1..=500;

impl<S, const DEFAULT: usize> Parameters<S> for Limit<DEFAULT> {
    fn describe() -> Vec<Description> {
        let schema = |_: &_| json!({"type": "integer", "minimum": LIMITS.start(), "maximum": LIMITS.end()});
        vec![Description::new("limit", "The maximum number of counters", schema)]
    }

    fn read(values: &Values<'_>, _: &S) -> Result<Self, Problem> {
        number(values, "limit", "not a number of counters", &LIMITS)
            .map(|limit| Self(limit.unwrap_or(DEFAULT)))
    }
}

impl<S, const DEFAULT: usize> Parameters<S> for Horizon<DEFAULT> {
    fn describe() -> Vec<Description> {
        let schema =
            |_: &_| json!({"type": "integer", "minimum": HORIZONS.start(), "maximum": HORIZONS.end()});
        vec![Description::new("horizon", "The number of buckets to forecast", schema)]
    }

    fn read(values: &Values<'_>, _: &S) -> Result<Self, Problem> {
        number(values, "horizon", "not a number of buckets", &HORIZONS)
            .map(|horizon| Self(horizon.unwrap_or(DEFAULT)))
    }
}

fn number(
    values: &Values<'_>,
    name: &str,
    error: &str,
    allowed: &RangeInclusive<usize>,
) -> Result<Option<usize>, Problem> {
    let Some(value) = values.one(name)? else { return Ok(None) };
    match value.parse() {
        Ok(number) if allowed.contains(&number) => Ok(Some(number)),
        _ => {
            let allowed = format!("{} to {}", allowed.start(), allowed.end());
            Err(Problem::parameter(error, name, Some(value), allowed))
        }
    }
}
