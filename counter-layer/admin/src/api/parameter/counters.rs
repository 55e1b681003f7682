use counter_core::CounterName;
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

/// Counter names, up to [`MAX_COUNTERS`].
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
pub(crate) struct OfKind(pub(crate) Kind);

/// Label names, up to [`MAX_LABELS`].
#[derive(Debug)]
pub(crate) struct LabelNames(pub(crate) Vec<String>);

/// Maximum number of labels in a request. A process can't have more labels than this.
const MOST_LABELS: usize = 8;

/// Maximum length of a label name.
const LONGEST_LABEL: usize = 32;

/// Maximum number of counters in a request.
const MOST: usize = 100;

const COUNTER: Description = Description {
    has_empty_value: true,
    example: Some("hits"),
    ..Description::new("counter", "The name of a counter, of at most 200 bytes in UTF-8", of_a_counter)
};

fn of_a_counter(_: &Grid) -> Value {
    name_schema(1, CounterName::MAX_BYTES)
}

fn list_of_counters(grid: &Grid) -> Value {
    json!({"type": "array", "items": of_a_counter(grid), "maxItems": MOST})
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
        vec![Description { schema: list_of_counters, ..COUNTER.times(Times::AtLeastOnce) }]
    }

    fn read(values: &Values<'_>, state: &S) -> Result<Self, Problem> {
        let AnyCounters(counters) = AnyCounters::read(values, state)?;
        if counters.is_empty() { Err(missing()) } else { Ok(Self(counters)) }
    }
}

impl<S> Parameters<S> for AnyCounters {
    fn describe() -> Vec<Description> {
        vec![Description { schema: list_of_counters, ..COUNTER.times(Times::AnyNumber) }]
    }

    fn read(values: &Values<'_>, _: &S) -> Result<Self, Problem> {
        let counters = values.all(COUNTER.name).map(|value| name(COUNTER.name, value));
        let counters = counters.collect::<Result<Vec<_>, _>>()?;
        if counters.len() > MOST {
            let (many, allowed) = (counters.len().to_string(), format!("at most {MOST} counters"));
            return Err(Problem::parameter("too many counters", COUNTER.name, Some(&many), allowed));
        }
        Ok(Self(counters))
    }
}

impl<S> Parameters<S> for After {
    fn describe() -> Vec<Description> {
        vec![Description::new("after", "The `next` of the page before", |_| {
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
        vec![Description::new("prefix", "The beginning of the names", |_| json!({"type": "string"}))]
    }

    fn read(values: &Values<'_>, _: &S) -> Result<Self, Problem> {
        Ok(Self(values.one("prefix")?.unwrap_or_default().to_owned()))
    }
}

impl<S> Parameters<S> for LabelNames {
    fn describe() -> Vec<Description> {
        let schema = |_: &_| {
            let name = json!({"type": "string", "pattern": "^[a-z0-9_-]{1,32}$"});
            json!({"type": "array", "items": name, "maxItems": MOST_LABELS})
        };
        let text = "The name of a label, such as `referrer`; all of them where none is named";
        let example = Some("referrer");
        vec![Description { example, ..Description::new("label", text, schema).times(Times::AnyNumber) }]
    }

    fn read(values: &Values<'_>, _: &S) -> Result<Self, Problem> {
        let is_allowed =
            |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_".contains(&byte);
        let mut names = Vec::new();
        for name in values.all("label") {
            if name.len() > LONGEST_LABEL || !name.bytes().all(is_allowed) {
                let allowed = format!("1 to {LONGEST_LABEL} of the characters a-z, 0-9, - and _");
                return Err(Problem::parameter("not the name of a label", "label", Some(name), allowed));
            }
            names.push(name.to_owned());
        }
        if names.len() > MOST_LABELS {
            let (many, allowed) = (names.len().to_string(), format!("at most {MOST_LABELS} labels"));
            return Err(Problem::parameter("too many labels", "label", Some(&many), allowed));
        }
        Ok(Self(names))
    }
}

impl<S> Parameters<S> for OfKind {
    fn describe() -> Vec<Description> {
        let text = "`page` for the counters of pages, which is the default; `facet` for those of facets, such as \
                    `status:2xx`; `all` for these, `hits` and `(other)`";
        vec![Description::new("kind", text, |_| json!({"enum": ["page", "facet", "all"]}))]
    }

    fn read(values: &Values<'_>, _: &S) -> Result<Self, Problem> {
        match values.one("kind")? {
            None | Some("page") => Ok(Self(Kind::Page)),
            Some("facet") => Ok(Self(Kind::Facet)),
            Some("all") => Ok(Self(Kind::All)),
            value => Err(Problem::parameter("not a kind of counters", "kind", value, "page, facet, all")),
        }
    }
}

fn missing() -> Problem {
    Problem::parameter("a parameter is missing", COUNTER.name, None, "the name of a counter")
}

fn name(parameter: &str, value: &str) -> Result<CounterName, Problem> {
    CounterName::new(value).map_err(|error| {
        let allowed = format!("1 to {} bytes without control characters", CounterName::MAX_BYTES);
        Problem::parameter(error.to_string(), parameter, Some(value), allowed)
    })
}
