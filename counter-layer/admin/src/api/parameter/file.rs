use serde_json::json;

use super::{Description, Parameters, Values};
use crate::problem::Problem;

/// The format of a file.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Format {
    Csv,
    Ndjson,
}

/// The choice of the format of a file: CSV, unless another is chosen.
#[derive(Debug)]
pub(crate) struct FileFormat(pub(crate) Format);

/// The choice of a sample for every bucket, in place of those only that have one.
#[derive(Debug)]
pub(crate) struct Fill(pub(crate) bool);

/// The text beside a number.
#[derive(Debug)]
pub(crate) struct Label(pub(crate) Option<String>);

/// The longest label, in characters.
const LONGEST: usize = 100;

impl<S> Parameters<S> for FileFormat {
    fn describe() -> Vec<Description> {
        vec![Description::new("format", "The format of the file", |_| json!({"enum": ["csv", "ndjson"]}))]
    }

    fn read(values: &Values<'_>, _: &S) -> Result<Self, Problem> {
        match values.one("format")? {
            None | Some("csv") => Ok(Self(Format::Csv)),
            Some("ndjson") => Ok(Self(Format::Ndjson)),
            value => Err(Problem::parameter("not a format of a file", "format", value, "csv, ndjson")),
        }
    }
}

impl<S> Parameters<S> for Fill {
    fn describe() -> Vec<Description> {
        let schema = |_: &_| json!({"enum": ["none", "zero"]});
        vec![Description::new("fill", "`zero` for a sample of every bucket", schema)]
    }

    fn read(values: &Values<'_>, _: &S) -> Result<Self, Problem> {
        match values.one("fill")? {
            None | Some("none") => Ok(Self(false)),
            Some("zero") => Ok(Self(true)),
            value => Err(Problem::parameter("not a way to fill gaps", "fill", value, "none, zero")),
        }
    }
}

impl<S> Parameters<S> for Label {
    fn describe() -> Vec<Description> {
        let schema = |_: &_| json!({"type": "string", "minLength": 1, "maxLength": LONGEST});
        vec![Description::new("label", "The text on the left", schema)]
    }

    fn read(values: &Values<'_>, _: &S) -> Result<Self, Problem> {
        match values.one("label")? {
            Some(label) if label.chars().count() > LONGEST => {
                let allowed = format!("1 to {LONGEST} characters");
                Err(Problem::parameter("not a label", "label", Some(label), allowed))
            }
            label => Ok(Self(label.map(str::to_owned))),
        }
    }
}
