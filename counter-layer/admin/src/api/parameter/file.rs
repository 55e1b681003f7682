use serde_json::json;

use super::{Description, Parameters, Values};
use crate::problem::Problem;

/// The file format of an export.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Format {
    Csv,
    Ndjson,
}

/// The format of an export. Default: CSV.
#[derive(Debug)]
pub(crate) struct FileFormat(pub(crate) Format);

/// True to add samples with a count of 0 for empty buckets.
#[derive(Debug)]
pub(crate) struct Fill(pub(crate) bool);

/// Whether to include the people of label values.
#[derive(Debug)]
pub(crate) struct WithPeople(pub(crate) bool);

/// The label of a badge.
#[derive(Debug)]
pub(crate) struct Label(pub(crate) Option<String>);

/// Maximum length of a badge label.
const MAX_LABEL_CHARS: usize = 100;

impl<S> Parameters<S> for FileFormat {
    fn describe() -> Vec<Description> {
        vec![Description::new("format", "The file format", |_| json!({"enum": ["csv", "ndjson"]}))]
    }

    fn read(values: &Values<'_>, _: &S) -> Result<Self, Problem> {
        match values.one("format")? {
            None | Some("csv") => Ok(Self(Format::Csv)),
            Some("ndjson") => Ok(Self(Format::Ndjson)),
            value => Err(Problem::parameter("not a file format", "format", value, "csv, ndjson")),
        }
    }
}

impl<S> Parameters<S> for Fill {
    fn describe() -> Vec<Description> {
        let schema = |_: &_| json!({"enum": ["none", "zero"]});
        vec![Description::new("fill", "`zero` to include empty buckets", schema)]
    }

    fn read(values: &Values<'_>, _: &S) -> Result<Self, Problem> {
        match values.one("fill")? {
            None | Some("none") => Ok(Self(false)),
            Some("zero") => Ok(Self(true)),
            value => Err(Problem::parameter("not a way to fill gaps", "fill", value, "none, zero")),
        }
    }
}

impl<S> Parameters<S> for WithPeople {
    fn describe() -> Vec<Description> {
        let text = "Whether to include the people of values, which are kept by the day";
        vec![Description::new("people", text, |_| json!({"type": "boolean"}))]
    }

    fn read(values: &Values<'_>, _: &S) -> Result<Self, Problem> {
        match values.one("people")? {
            None | Some("false") => Ok(Self(false)),
            Some("true") => Ok(Self(true)),
            value => Err(Problem::parameter("not a choice", "people", value, "false, true")),
        }
    }
}

impl<S> Parameters<S> for Label {
    fn describe() -> Vec<Description> {
        let schema = |_: &_| json!({"type": "string", "minLength": 1, "maxLength": MAX_LABEL_CHARS});
        vec![Description::new("label", "The label on the left", schema)]
    }

    fn read(values: &Values<'_>, _: &S) -> Result<Self, Problem> {
        match values.one("label")? {
            Some(label) if label.chars().count() > MAX_LABEL_CHARS => {
                let allowed = format!("1 to {MAX_LABEL_CHARS} characters");
                Err(Problem::parameter("not a label", "label", Some(label), allowed))
            }
            label => Ok(Self(label.map(str::to_owned))),
        }
    }
}
