use counter_core::CounterName;
use counter_core::internal::is_label_name;
use counter_core::time::Grid;
use serde_json::{Value, json};

use super::{Description, Parameters, Times, Values, name_schema};
use crate::kind::Kind;
use crate::problem::Problem;

/// A counter name.
#[derive(Debug)]
pub(crate) struct Counter(pub(crate) CounterName);

/// Counter names: at least one, at most [`MAX_COUNTERS`].
#[derive(Debug)]
pub(crate) struct Counters(pub(crate) Vec<CounterName>);

/// Counter names: none, or at most [`MAX_COUNTERS`].
#[derive(Debug)]
pub(crate) struct AnyCounters(pub(crate) Vec<CounterName>);

/// The position of the page to read, i.e. the final name on the page before it.
#[derive(Debug)]
pub(crate) struct After(pub(crate) Option<CounterName>);

/// A name prefix. The default is empty, which matches all names.
#[derive(Debug)]
pub(crate) struct Prefix(pub(crate) String);

/// The counter kind. Default: pages.
#[derive(Debug)]
pub(crate) struct KindFilter(pub(crate) Kind);

/// Label names, up to [`MAX_LABELS`].
#[derive(Debug)]
pub(crate) struct LabelNames(pub(crate) Vec<String>);

/// A page to limit label values to.
#[derive(Debug)]
pub(crate) struct OfPage(pub(crate) Option<CounterName>);

/// A label value.
#[derive(Debug)]
pub(crate) struct LabelAndValue(pub(crate) String, pub(crate) String);

/// Maximum number of labels in a request. A process can't have more labels than this.
const MAX_LABELS: usize = 16;

/// Maximum number of counters in a request.
const MAX_COUNTERS: usize = 100;

const COUNTER: Description = Description {
    has_empty_value: true,
    example: Some("hits"),
    ..Description::new("counter", "A counter name, up to 200 bytes in UTF-8", counter_schema)
};

fn counter_schema(_: &Grid) -> Value {
    name_schema(1, CounterName::MAX_BYTES)
}

fn label_schema() -> Value {
    json!({"type": "string", "pattern": "^[a-z0-9_-]{1,32}$"})
}

fn counters_schema(grid: &Grid) -> Value {
    json!({"type": "array", "items": counter_schema(grid), "maxItems": MAX_COUNTERS})
}

impl<S> Parameters<S> for Counter {
    fn describe() -> Vec<Description> {
        vec![COUNTER.times(Times::Once)]
    }

    fn read(values: &Values<'_>, _: &S) -> Result<Self, Problem> {
        let value = values.one(COUNTER.name)?.ok_or_else(missing)?;
        name(COUNTER.name, value).map(Self)
    }
}

impl<S> Parameters<S> for Counters {
    fn describe() -> Vec<Description> {
        vec![Description { schema: counters_schema, ..COUNTER.times(Times::AtLeastOnce) }]
    }

    fn read(values: &Values<'_>, state: &S) -> Result<Self, Problem> {
        let AnyCounters(counters) = AnyCounters::read(values, state)?;
        if counters.is_empty() { Err(missing()) } else { Ok(Self(counters)) }
    }
}

impl<S> Parameters<S> for AnyCounters {
    fn describe() -> Vec<Description> {
        vec![Description { schema: counters_schema, ..COUNTER.times(Times::AnyNumber) }]
    }

    fn read(values: &Values<'_>, _: &S) -> Result<Self, Problem> {
        let counters = values.all(COUNTER.name).map(|value| name(COUNTER.name, value));
        let counters = counters.collect::<Result<Vec<_>, _>>()?;
        if counters.len() > MAX_COUNTERS {
            let (number, allowed) = (counters.len().to_string(), format!("at most {MAX_COUNTERS} counters"));
            return Err(Problem::parameter("too many counters", COUNTER.name, Some(&number), allowed));
        }
        Ok(Self(counters))
    }
}

impl<S> Parameters<S> for After {
    fn describe() -> Vec<Description> {
        vec![Description::new("after", "The `next` value of the previous page", |_| {
            name_schema(0, CounterName::MAX_BYTES)
        })]
    }

    fn read(values: &Values<'_>, _: &S) -> Result<Self, Problem> {
        let after = values.one("after")?.map(|value| name("after", value));
        after.transpose().map(Self)
    }
}

impl<S> Parameters<S> for Prefix {
    fn describe() -> Vec<Description> {
        vec![Description::new("prefix", "A prefix of the names", |_| json!({"type": "string"}))]
    }

    fn read(values: &Values<'_>, _: &S) -> Result<Self, Problem> {
        Ok(Self(values.one("prefix")?.unwrap_or_default().to_owned()))
    }
}

impl<S> Parameters<S> for LabelNames {
    fn describe() -> Vec<Description> {
        let schema = |_: &_| json!({"type": "array", "items": label_schema(), "maxItems": MAX_LABELS});
        let text = "A label name, such as `referrer`; the default is all labels";
        let example = Some("referrer");
        vec![Description { example, ..Description::new("label", text, schema).times(Times::AnyNumber) }]
    }

    fn read(values: &Values<'_>, _: &S) -> Result<Self, Problem> {
        let mut names = Vec::new();
        for name in values.all("label") {
            if !is_label_name(name) {
                let allowed = "1 to 32 of the characters a-z, 0-9, - and _";
                return Err(Problem::parameter("not a label name", "label", Some(name), allowed));
            }
            names.push(name.to_owned());
        }
        if names.len() > MAX_LABELS {
            let (number, allowed) = (names.len().to_string(), format!("at most {MAX_LABELS} labels"));
            return Err(Problem::parameter("too many labels", "label", Some(&number), allowed));
        }
        Ok(Self(names))
    }
}

impl<S> Parameters<S> for OfPage {
    fn describe() -> Vec<Description> {
        let text = "A page, to return the values of this page only";
        vec![Description { text, example: Some("/"), ..COUNTER }]
    }

    fn read(values: &Values<'_>, _: &S) -> Result<Self, Problem> {
        let page = values.one(COUNTER.name)?.map(|value| name(COUNTER.name, value));
        page.transpose().map(Self)
    }
}

impl<S> Parameters<S> for LabelAndValue {
    fn describe() -> Vec<Description> {
        let label = Description::new("label", "A label name", |_| label_schema());
        let value = Description::new("value", "A value, or `(none)`", counter_schema);
        vec![
            Description { example: Some("referrer"), ..label.times(Times::Once) },
            Description { example: Some("(none)"), ..value.times(Times::Once) },
        ]
    }

    fn read(values: &Values<'_>, state: &S) -> Result<Self, Problem> {
        let LabelNames(mut labels) = LabelNames::read(values, state)?;
        let (Some(label), true) = (labels.pop(), labels.is_empty()) else {
            return Err(Problem::parameter("not a single label", "label", None, "a label name"));
        };
        let missing = || Problem::parameter("missing parameter", "value", None, "a label value");
        let value = name("value", values.one("value")?.ok_or_else(missing)?)?;
        name("value", &format!("{}{label}:{value}", CounterName::LABELS))?;
        Ok(Self(label, value.to_string()))
    }
}

impl<S> Parameters<S> for KindFilter {
    fn describe() -> Vec<Description> {
        let text = "`page` for page counters, which is the default; `facet` for facet counters, such as \
                    `status:2xx`; `all` for all counters, including `hits` and `(other)`";
        vec![Description::new("kind", text, |_| json!({"enum": ["page", "facet", "all"]}))]
    }

    fn read(values: &Values<'_>, _: &S) -> Result<Self, Problem> {
        match values.one("kind")? {
            None | Some("page") => Ok(Self(Kind::Page)),
            Some("facet") => Ok(Self(Kind::Facet)),
            Some("all") => Ok(Self(Kind::All)),
            value => Err(Problem::parameter("not a kind of counter", "kind", value, "page, facet, all")),
        }
    }
}

fn missing() -> Problem {
    Problem::parameter("missing parameter", COUNTER.name, None, "a counter name")
}

fn name(parameter: &str, value: &str) -> Result<CounterName, Problem> {
    CounterName::new(value).map_err(|error| {
        let allowed = format!("1 to {} bytes without control characters", CounterName::MAX_BYTES);
        Problem::parameter(error.to_string(), parameter, Some(value), allowed)
    })
}
