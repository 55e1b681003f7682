use axum::Json;
use axum::response::{IntoResponse, Response};
use counter_alert::note::{self, Added, Notes};
use counter_core::Stats;
use http::StatusCode;
use serde::Serialize;
use utoipa::ToSchema;

use super::parameter::{Instants, NewNote, NoteId, RequestParts};
use super::route::{ResponseKind, Route};
use crate::access::right::NOTES;
use crate::problem::Problem;

/// Notes in a time range.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct NoteList {
    /// The notes, sorted by time.
    notes: Vec<Note>,
}

/// A note.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Note {
    id: String,
    /// Unix time of the note.
    at: u64,
    text: String,
}

/// The response if it is not known whether a list was changed.
pub(crate) const MAYBE_CHANGED: &str =
    "The store does not respond, or there were too many concurrent changes; the change may have been applied";

pub(crate) fn routes(stats: &Stats, notes: &Notes) -> [Route; 3] {
    let state = (stats.clone(), notes.clone());
    let listed = Route::get(NOTES, "Notes in a time range", state.clone(), list);
    let details = "With an `id`, the request can be retried: if the note already exists, it is not changed, \
                and the response contains it. There can be up to 1,000 notes.";
    let added = Route::post(NOTES, "Adds a note, to be shown in charts", state.clone(), move |request, _| {
        add(request)
    });
    let removed = Route::delete(NOTES, "Removes a note", state, remove);
    [
        listed.json::<NoteList>().schema::<Note>(),
        added
            .json_with::<Note>("201")
            .json::<Note>()
            .details(details)
            .error_response("409", "The limit of 1,000 notes is reached")
            .error_response("503", MAYBE_CHANGED),
        removed.response("204", ResponseKind::Empty).error_response("503", MAYBE_CHANGED),
    ]
}

async fn list(
    RequestParts { state: (stats, notes), parameters: (Instants(range),), .. }: RequestParts<
        (Stats, Notes),
        (Instants,),
    >,
) -> Result<Json<NoteList>, Problem> {
    let notes = notes.list(range).await.map_err(|error| Problem::of(&error, &stats))?;
    Ok(Json(NoteList { notes: notes.iter().map(Note::from).collect() }))
}

async fn add(
    RequestParts { state: (stats, notes), parameters: (NewNote(note),), .. }: RequestParts<
        (Stats, Notes),
        (NewNote,),
    >,
) -> Result<Response, Problem> {
    let Added { note, is_new, .. } =
        notes.add(&note).await.map_err(|error| Problem::notes_not_changed(&error, &stats))?;
    if is_new {
        tracing::info!(id = note.id(), "added a note");
    }
    let status = if is_new { StatusCode::CREATED } else { StatusCode::OK };
    Ok((status, Json(Note::from(&note))).into_response())
}

/// Succeeds even if the note does not exist, so that clients can retry if a response was lost.
async fn remove(
    RequestParts { state: (stats, notes), parameters: (NoteId(id),), .. }: RequestParts<
        (Stats, Notes),
        (NoteId,),
    >,
) -> Result<StatusCode, Problem> {
    if notes.remove(&id).await.map_err(|error| Problem::notes_not_changed(&error, &stats))? {
        tracing::info!(id, "removed a note");
    }
    Ok(StatusCode::NO_CONTENT)
}

impl From<&note::Note> for Note {
    fn from(note: &note::Note) -> Self {
        Self { id: note.id().to_owned(), at: note.at().as_unix(), text: note.text().to_owned() }
    }
}
