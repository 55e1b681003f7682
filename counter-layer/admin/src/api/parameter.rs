//! Route parameters. Each type defines the parameter names, the parser and the description.

mod counters;
mod explained;
mod file;
mod measured;
mod numbers;
#[cfg(feature = "hits")]
mod producer;
mod right;
mod rule;
mod time;
mod note;
mod goal;

use axum::extract::FromRequestParts;
use counter_core::time::Grid;
use http::HeaderMap;
use http::request::Parts;
use serde_json::{Value, json};

pub(crate) use counters::{
    After, AnyCounters, Counter, Counters, KindFilter, LabelAndValue, LabelNames, OfPage, Prefix,
};
pub(crate) use explained::{Matched, Method, Path};
pub(crate) use file::{FileFormat, Fill, Format, Label, WithPeople};
pub(crate) use goal::NewGoal;
pub(crate) use measured::{Quantiles, RangeMeasure, StatusMeasure};
pub(crate) use note::{NewNote, NoteId};
pub(crate) use numbers::Horizon;
pub(crate) use numbers::Limit;
#[cfg(feature = "hits")]
pub(crate) use producer::{Number, ProducerName};
pub(crate) use right::Right;
pub(crate) use rule::{NewRule, RuleName, Seconds};
pub(crate) use time::Instants;
pub(crate) use time::LAG;
pub(crate) use time::default_precision;
pub(crate) use time::{
    CountPrecision, DefaultPrecision, DistributionPrecision, HasGrid, LastEventId, OptionalPrecision, Range,
    ReadableRetention, ViewPrecision, VisitorPrecision,
};

use super::site::{SITE, Selected};
use crate::mount::Mount;
use crate::problem::Problem;

/// A request to a route, with the parsed parameters.
#[derive(Debug)]
pub(crate) struct RequestParts<S, P> {
    pub(crate) state: S,
    pub(crate) parameters: P,
    pub(crate) headers: HeaderMap,
    /// The path of the router, without a trailing slash.
    pub(crate) mount: String,
    /// The path of the dashboard.
    pub(crate) first: String,
}

/// Parameters that can be read from a request, if the route state is available.
pub(crate) trait Parameters<S>: Sized {
    /// Returns the descriptions, in the order in which a problem will list the names.
    fn describe() -> Vec<Description>;

    fn read(values: &Values<'_>, state: &S) -> Result<Self, Problem>;
}

/// Describes a parameter.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Description {
    pub(crate) name: &'static str,
    pub(crate) times: Times,
    pub(crate) text: &'static str,
    pub(crate) schema: fn(&Grid) -> Value,
    pub(crate) is_header: bool,
    /// An empty value is a value. For other parameters it counts as missing, because forms send empty fields.
    pub(crate) has_empty_value: bool,
    pub(crate) example: Option<&'static str>,
}

/// How often a parameter can occur in a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Times {
    Once,
    AtMostOnce,
    AtLeastOnce,
    AnyNumber,
}

/// The parameter values of a request.
#[derive(Debug)]
pub(crate) struct Values<'a> {
    pairs: Vec<(String, String)>,
    headers: &'a HeaderMap,
}

/// Returns the schema of a name without control characters. The byte limit also limits the characters.
/// Describes a line of text with at least one character that is not blank.
fn line_schema(longest: usize) -> Value {
    json!({
        "type": "string",
        "maxLength": longest,
        "pattern": r"^[^\x00-\x1f\x7f-\x9f]*[^\s\x00-\x1f\x7f-\x9f][^\x00-\x1f\x7f-\x9f]*$",
    })
}

fn name_schema(shortest: usize, longest: usize) -> Value {
    json!({
        "type": "string",
        "minLength": shortest,
        "maxLength": longest,
        "pattern": r"^[^\x00-\x1f\x7f-\x9f]*$",
    })
}

impl Description {
    /// Creates an optional query parameter.
    const fn new(name: &'static str, text: &'static str, schema: fn(&Grid) -> Value) -> Self {
        Self {
            name,
            times: Times::AtMostOnce,
            text,
            schema,
            is_header: false,
            has_empty_value: false,
            example: None,
        }
    }

    const fn times(self, times: Times) -> Self {
        Self { times, ..self }
    }

    pub(crate) const fn is_required(&self) -> bool {
        matches!(self.times, Times::Once | Times::AtLeastOnce)
    }
}

impl<'a> Values<'a> {
    /// Parses a query string. Unknown parameters are rejected.
    fn parse(parts: &'a Parts, known: &[Description]) -> Result<Self, Problem> {
        let known: Vec<_> = known.iter().filter(|parameter| !parameter.is_header).collect();
        let is_known = |name: &str| known.iter().find(|parameter| parameter.name == name);
        let mut pairs = Vec::new();
        let is_site = |name: &str| name == SITE && parts.extensions.get::<Selected>().is_some();
        for (name, value) in form_urlencoded::parse(parts.uri.query().unwrap_or_default().as_bytes()) {
            match is_known(&name) {
                None if is_site(&name) => {}
                // Routes without parameters always ignored the query, and this should not change.
                None if known.is_empty() => {}
                None => {
                    // This may be an actual token, so the problem must not repeat the value.
                    let value = (name != "token").then_some(&*value);
                    let names: Vec<_> = known.iter().map(|parameter| parameter.name).collect();
                    return Err(Problem::parameter("unknown parameter", &name, value, names.join(", ")));
                }
                Some(parameter) if value.is_empty() && !parameter.has_empty_value => {}
                Some(_) => pairs.push((name.into_owned(), value.into_owned())),
            }
        }
        Ok(Self { pairs, headers: &parts.headers })
    }

    fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        self.pairs.iter().filter(move |(other, _)| other == name).map(|(_, value)| value.as_str())
    }

    fn one(&self, name: &str) -> Result<Option<&str>, Problem> {
        let mut values = self.all(name);
        let first = values.next();
        match values.next() {
            Some(second) => Err(Problem::parameter("duplicate parameter", name, Some(second), "one value")),
            None => Ok(first),
        }
    }
}

impl<S, P> FromRequestParts<S> for RequestParts<S, P>
where
    S: Clone + Send + Sync,
    P: Parameters<S>,
{
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let values = Values::parse(parts, &P::describe())?;
        let parameters = P::read(&values, state)?;
        let mount = parts.extensions.get::<Mount>();
        Ok(Self {
            state: state.clone(),
            parameters,
            headers: parts.headers.clone(),
            mount: mount.map(Mount::path).unwrap_or_default().to_owned(),
            first: mount.map(Mount::first).unwrap_or_default(),
        })
    }
}

macro_rules! tuples {
    ($($($name:ident)*;)*) => {$(
        impl<S, $($name: Parameters<S>),*> Parameters<S> for ($($name,)*) {
            fn describe() -> Vec<Description> {
                #[allow(unused_mut, reason = "no parameters")]
                let mut all = Vec::new();
                $(all.extend($name::describe());)*
                all
            }

            #[allow(unused_variables, clippy::unused_unit, reason = "no parameters")]
            fn read(values: &Values<'_>, state: &S) -> Result<Self, Problem> {
                Ok(($($name::read(values, state)?,)*))
            }
        }
    )*};
}

tuples! {
    ;
    A;
    A B;
    A B C;
    A B C D;
    A B C D E;
    A B C D E F;
}
