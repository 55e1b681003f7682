use axum::Json;
use axum::response::{IntoResponse, Response};
use counter_alert::note::{self, Added, Notes};
use counter_core::Stats;
use http::StatusCode;
use serde::Serialize;
use utoipa::ToSchema;

use super::parameter::{Asked, Instants, NewNote, NoteId};
use super::route::{Answer, Route};
use crate::access::right::NOTES;
use crate::problem::Problem;

/// Notes in a time range.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct NoteList {
    /// Sorted by time.
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

pub(crate) fn routes(stats: &Stats, notes: &Notes) -> [Route; 3] {
    let state = (stats.clone(), notes.clone());
    let listed = Route::get(NOTES, "The notes about instants of a range", state.clone(), list);
    let most = "With an `id` of the client's own a request can be repeated: where there is a note with it, that one stays \
                as it is, and is the answer. There are 1,000 notes at most.";
    let added =
        Route::post(NOTES, "Adds a note, which charts show", state.clone(), move |asked, _| add(asked));
    let removed = Route::delete(NOTES, "Removes a note", state, remove);
    let refusal = "The store does not answer, or others change the notes all the time: perhaps it is done";
    [
        listed.json::<NoteList>().schema::<Note>(),
        added
            .json_with::<Note>("201")
            .json::<Note>()
            .most(most)
            .refusal("409", "There are 1,000 notes: remove one first")
            .refusal("503", refusal),
        removed.answer("204", Answer::Nothing).refusal("503", refusal),
    ]
}

async fn list(
    Asked { state: (stats, notes), parameters: (Instants(range),), .. }: Asked<(Stats, Notes), (Instants,)>,
) -> Result<Json<NoteList>, Problem> {
    let notes = notes.list(range).await.map_err(|error| Problem::of(&error, &stats))?;
    Ok(Json(NoteList { notes: notes.iter().map(Note::from).collect() }))
}

async fn add(
    Asked { state: (stats, notes), parameters: (NewNote(note),), .. }: Asked<(Stats, Notes), (NewNote,)>,
) -> Result<Response, Problem> {
    let Added { note, is_new, .. } =
        notes.add(&note).await.map_err(|error| Problem::not_noted(&error, &stats))?;
    if is_new {
        tracing::info!(id = note.id(), "a note was added");
    }
    let status = if is_new { StatusCode::CREATED } else { StatusCode::OK };
    Ok((status, Json(Note::from(&note))).into_response())
}

/// Succeeds even if the note does not exist, so that clients can retry if a response was lost.
async fn remove(
    Asked { state: (stats, notes), parameters: (NoteId(id),), .. }: Asked<(Stats, Notes), (NoteId,)>,
) -> Result<StatusCode, Problem> {
    if notes.remove(&id).await.map_err(|error| Problem::not_noted(&error, &stats))? {
        tracing::info!(id, "a note was removed");
    }
    Ok(StatusCode::NO_CONTENT)
}

impl From<&note::Note> for Note {
    fn from(note: &note::Note) -> Self {
        Self { id: note.id().to_owned(), at: note.at().as_unix(), text: note.text().to_owned() }
    }
}
