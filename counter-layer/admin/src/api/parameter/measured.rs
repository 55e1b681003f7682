use counter_core::visits::Measure;
use serde_json::json;

use super::{Description, Parameters, Values};
use crate::problem::Problem;

/// A measure of times or sizes. Default: the time to the response head.
#[derive(Debug)]
pub(crate) struct RangeMeasure(pub(crate) Measure);

/// A measure of statuses. Default: the HTTP status.
#[derive(Debug)]
pub(crate) struct StatusMeasure(pub(crate) Measure);

/// Quantiles between 0 and 1.
#[derive(Debug)]
pub(crate) struct Quantiles(pub(crate) Vec<f64>);

const RANGES: [Measure; 3] = [Measure::Time, Measure::Body, Measure::Size];
const STATUSES: [Measure; 2] = [Measure::Status, Measure::Grpc];

/// Default quantiles.
const DEFAULT_QUANTILES: [f64; 3] = [0.5, 0.9, 0.99];

/// Maximum number of quantiles in a request.
const MAX_QUANTILES: usize = 20;

impl<S> Parameters<S> for RangeMeasure {
    fn describe() -> Vec<Description> {
        let text = "`time` for the seconds to the response head, which is the default; `body` for the seconds \
                    to the end of the response; `size` for the body size in bytes";
        vec![Description::new("of", text, |_| json!({"enum": RANGES.map(Measure::name)}))]
    }

    fn read(values: &Values<'_>, _: &S) -> Result<Self, Problem> {
        of(values, &RANGES).map(Self)
    }
}

impl<S> Parameters<S> for StatusMeasure {
    fn describe() -> Vec<Description> {
        let text = "`status` for the HTTP status, which is the default; `grpc` for the gRPC status";
        vec![Description::new("of", text, |_| json!({"enum": STATUSES.map(Measure::name)}))]
    }

    fn read(values: &Values<'_>, _: &S) -> Result<Self, Problem> {
        of(values, &STATUSES).map(Self)
    }
}

/// Parses a measure. The default is `all[0]`.
fn of(values: &Values<'_>, all: &[Measure]) -> Result<Measure, Problem> {
    let Some(value) = values.one("of")? else { return Ok(all[0]) };
    let names: Vec<_> = all.iter().map(|measure| measure.name()).collect();
    let unknown = || Problem::parameter("not a measure of this kind", "of", Some(value), names.join(", "));
    all.iter().copied().find(|measure| measure.name() == value).ok_or_else(unknown)
}

impl<S> Parameters<S> for Quantiles {
    fn describe() -> Vec<Description> {
        let text =
            "Up to 20 quantiles between 0 and 1, separated by commas; the default is 0.5, 0.9 and 0.99";
        vec![Description {
            example: Some("0.5,0.99"),
            ..Description::new("q", text, |_| {
                let one = r"(0(\.[0-9]{1,9})?|1(\.0{1,9})?)";
                json!({"type": "string", "pattern": format!("^{one}(,{one}){{0,19}}$")})
            })
        }]
    }

    fn read(values: &Values<'_>, _: &S) -> Result<Self, Problem> {
        let Some(value) = values.one("q")? else { return Ok(Self(DEFAULT_QUANTILES.to_vec())) };
        let quantiles: Option<Vec<_>> = value.split(',').map(quantile).collect();
        let wrong = || {
            let allowed = format!("1 to {MAX_QUANTILES} numbers between 0 and 1, separated by commas");
            Problem::parameter("not a list of quantiles", "q", Some(value), allowed)
        };
        quantiles.filter(|quantiles| quantiles.len() <= MAX_QUANTILES).map(Self).ok_or_else(wrong)
    }
}

fn quantile(text: &str) -> Option<f64> {
    let is_plain = text.len() <= 11 && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    text.parse().ok().filter(|quantile| is_plain && (0.0..=1.0).contains(quantile))
}
