//! Parameters to add or remove a note.

use counter_alert::note::{Note, NoteError};
use counter_core::Timestamp;
use serde_json::{Value, json};

use super::time::time;
use super::{Description, Parameters, Times, Values, line_schema};
use crate::problem::Problem;

/// A note to add, with text, time and id.
#[derive(Debug)]
pub(crate) struct NewNote(pub(crate) Note);

/// A note id.
#[derive(Debug)]
pub(crate) struct NoteId(pub(crate) String);

const ID: Description = Description {
    example: Some("deploy-1.4"),
    ..Description::new("id", "The id of the note", |_| id_schema())
};

fn id_schema() -> Value {
    json!({"type": "string", "pattern": format!("^[A-Za-z0-9._~-]{{1,{}}}$", Note::MAX_ID_BYTES)})
}

fn invalid(error: NoteError, parameter: &str, value: Option<&str>) -> Problem {
    Problem::parameter(format!("not a valid {parameter} of a note"), parameter, value, error.to_string())
}

impl<S> Parameters<S> for NewNote {
    fn describe() -> Vec<Description> {
        let text =
            Description::new("text", "A description in a single line", |_| line_schema(Note::MAX_CHARS));
        let at = "The Unix time of the note; the default is now";
        let at = Description::new(
            "at",
            at,
            |_| json!({"type": "integer", "minimum": 0, "maximum": Timestamp::MAX.as_unix()}),
        );
        let id = "An id, so that the request can be retried; the default is random";
        vec![
            Description { example: Some("Version 1.4"), ..text.times(Times::Once) },
            at,
            Description { text: id, ..ID },
        ]
    }

    fn read(values: &Values<'_>, _: &S) -> Result<Self, Problem> {
        let at = time(values, "at")?.map_or_else(Timestamp::now, |time| time.at);
        let Some(text) = values.one("text")? else {
            return Err(Problem::parameter("missing parameter", "text", None, NoteError::Text.to_string()));
        };
        let note = Note::new(at, text).map_err(|error| invalid(error, "text", Some(text)))?;
        let note = match values.one("id")? {
            Some(id) => note.with_id(id).map_err(|error| invalid(error, "id", Some(id)))?,
            None => note,
        };
        Ok(Self(note))
    }
}

impl<S> Parameters<S> for NoteId {
    fn describe() -> Vec<Description> {
        vec![ID.times(Times::Once)]
    }

    fn read(values: &Values<'_>, _: &S) -> Result<Self, Problem> {
        let missing = || Problem::parameter("missing parameter", "id", None, NoteError::Id.to_string());
        let id = values.one("id")?.ok_or_else(missing)?;
        if !Note::is_id(id) {
            return Err(invalid(NoteError::Id, "id", Some(id)));
        }
        Ok(Self(id.to_owned()))
    }
}
