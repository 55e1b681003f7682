//! Parameters that identify a producer request.

use serde_json::json;

use super::{Description, Parameters, Times, Values, name_schema};
use crate::problem::Problem;
use crate::producers::{Producer, Producers};

/// The producer name.
#[derive(Debug)]
pub(crate) struct ProducerName(pub(crate) Producer);

/// The request number. A producer must start at 1 and count up.
#[derive(Debug)]
pub(crate) struct Number(pub(crate) u64);

impl<S> Parameters<S> for ProducerName {
    fn describe() -> Vec<Description> {
        let text = "The name of the program that sends hits; must be unique";
        let schema = |_: &_| name_schema(1, Producer::MAX_BYTES);
        let producer = Description::new("producer", text, schema).times(Times::Once);
        vec![Description { example: Some("shop-1"), ..producer }]
    }

    fn read(values: &Values<'_>, _: &S) -> Result<Self, Problem> {
        let allowed = format!("1 to {} bytes without control characters", Producer::MAX_BYTES);
        let Some(value) = values.one("producer")? else {
            return Err(Problem::parameter("missing parameter", "producer", None, allowed));
        };
        let producer = Producer::new(value).map(Self);
        producer.ok_or_else(|| Problem::parameter("not a producer", "producer", Some(value), allowed))
    }
}

impl<S> Parameters<S> for Number {
    fn describe() -> Vec<Description> {
        let text = "The request number: 1 for the first request, then 2, 3 and so on";
        let schema = |_: &_| json!({"type": "integer", "minimum": 1, "maximum": Producers::MAX_NUMBER});
        vec![Description::new("number", text, schema).times(Times::Once)]
    }

    fn read(values: &Values<'_>, _: &S) -> Result<Self, Problem> {
        let allowed = format!("1 to {}", Producers::MAX_NUMBER);
        let Some(value) = values.one("number")? else {
            return Err(Problem::parameter("missing parameter", "number", None, allowed));
        };
        match value.parse() {
            Ok(number @ 1..=Producers::MAX_NUMBER) => Ok(Self(number)),
            _ => Err(Problem::parameter("not a request number", "number", Some(value), allowed)),
        }
    }
}
