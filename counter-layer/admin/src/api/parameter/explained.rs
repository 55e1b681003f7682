//! Parameters that describe a request to explain.

use serde_json::json;

use super::{Description, Parameters, Times, Values};
use crate::problem::Problem;

/// The request method. Default: `GET`.
#[derive(Debug)]
pub(crate) struct Method(pub(crate) http::Method);

/// The request path. Any text is allowed.
#[derive(Debug)]
pub(crate) struct Path(pub(crate) String);

/// The template of the matched route, if the router matched the request.
#[derive(Debug)]
pub(crate) struct Matched(pub(crate) Option<String>);

impl<S> Parameters<S> for Method {
    fn describe() -> Vec<Description> {
        vec![Description::new("method", "The request method", |_| json!({"type": "string"}))]
    }

    fn read(values: &Values<'_>, _: &S) -> Result<Self, Problem> {
        let Some(value) = values.one("method")? else { return Ok(Self(http::Method::GET)) };
        let allowed = "a method in upper case, such as GET";
        let method = value.parse();
        method.map(Self).map_err(|_| Problem::parameter("not a method", "method", Some(value), allowed))
    }
}

impl<S> Parameters<S> for Path {
    fn describe() -> Vec<Description> {
        let path = Description::new("path", "The request path", |_| json!({"type": "string"}));
        vec![Description { has_empty_value: true, ..path.times(Times::Once) }]
    }

    fn read(values: &Values<'_>, _: &S) -> Result<Self, Problem> {
        let missing = || Problem::parameter("missing parameter", "path", None, "a request path");
        Ok(Self(values.one("path")?.ok_or_else(missing)?.to_owned()))
    }
}

impl<S> Parameters<S> for Matched {
    fn describe() -> Vec<Description> {
        let text = "The template of the matched route";
        vec![Description::new("matched", text, |_| json!({"type": "string"}))]
    }

    fn read(values: &Values<'_>, _: &S) -> Result<Self, Problem> {
        Ok(Self(values.one("matched")?.map(str::to_owned)))
    }
}
