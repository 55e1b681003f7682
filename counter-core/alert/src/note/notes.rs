use std::ops::RangeBounds;
use std::sync::Arc;

use counter_core::document::DocumentStore;
use counter_core::internal::change_document;
use counter_core::{Error, ErrorKind, Timestamp};
use serde::{Deserialize, Serialize};

use super::note::Note;

/// The notes of all processes that share a store.
#[derive(Clone, Debug)]
pub struct Notes {
    store: Arc<dyn DocumentStore>,
}

/// A note that is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Added {
    /// The note as it is kept: the earlier one, where there was one with this id.
    pub note: Note,
    /// There was none with this id.
    pub is_new: bool,
}

/// All notes as the store has them.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Kept {
    /// In the order in which they were added.
    notes: Vec<Note>,
}

/// The name of the document.
const DOCUMENT: &str = "notes";

impl Notes {
    /// The number of notes that are kept.
    pub const MAX: usize = 1000;

    /// Creates the notes of a store.
    #[must_use]
    pub fn new(store: impl DocumentStore) -> Self {
        Self { store: Arc::new(store) }
    }

    /// Adds a note, unless there is one with its id, which then stays as it is.
    ///
    /// # Errors
    /// Fails with [`ErrorKind::TooManyNotes`] when there are [`Notes::MAX`] notes already. Fails when the store fails, or
    /// when other processes change the notes all the time; then the note may have been added, and adding it again makes no
    /// second one.
    pub async fn add(&self, note: &Note) -> Result<Added, Error> {
        let add = |notes: &mut Vec<Note>| {
            if let Some(kept) = notes.iter().find(|kept| kept.id() == note.id()) {
                return (Ok(Added { note: kept.clone(), is_new: false }), false);
            }
            if notes.len() >= Self::MAX {
                return (Err(Error::new(ErrorKind::TooManyNotes { max: Self::MAX })), false);
            }
            notes.push(note.clone());
            (Ok(Added { note: note.clone(), is_new: true }), true)
        };
        self.change(add).await?
    }

    /// Returns the notes about instants of a range, in the order of these.
    ///
    /// # Errors
    /// Fails when the store cannot be read.
    pub async fn list(&self, range: impl RangeBounds<Timestamp>) -> Result<Vec<Note>, Error> {
        let mut notes = Kept::decode(&self.store.read(DOCUMENT).await?.content)?.notes;
        notes.retain(|note| range.contains(&note.at()));
        notes.sort_by_key(Note::at);
        Ok(notes)
    }

    /// Removes the note with this id; returns whether there was one.
    ///
    /// # Errors
    /// Fails when the store fails, or when other processes change the notes all the time. It may have been removed.
    pub async fn remove(&self, id: &str) -> Result<bool, Error> {
        let remove = |notes: &mut Vec<Note>| {
            let before = notes.len();
            notes.retain(|note| note.id() != id);
            let is_removed = notes.len() < before;
            (is_removed, is_removed)
        };
        self.change(remove).await
    }

    /// Changes the notes, and retries if another process has changed them in the meantime. `change` returns an outcome,
    /// and whether there is anything to write.
    async fn change<T>(&self, change: impl Fn(&mut Vec<Note>) -> (T, bool) + Send) -> Result<T, Error> {
        let changed = change_document(&*self.store, DOCUMENT, move |document| {
            let mut kept = Kept::decode(&document?.content)?;
            let (outcome, is_changed) = change(&mut kept.notes);
            Ok((outcome, is_changed.then(|| kept.encode())))
        });
        changed.await?.ok_or_else(|| {
            Error::new(ErrorKind::Unavailable).caused_by("other processes change the notes all the time")
        })
    }
}

impl Kept {
    fn decode(content: &[u8]) -> Result<Self, Error> {
        if content.is_empty() {
            return Ok(Self::default());
        }
        serde_json::from_slice(content)
            .map_err(|error| Error::new(ErrorKind::Malformed { key: DOCUMENT.to_owned() }).caused_by(error))
    }

    fn encode(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("numbers and texts have a form in JSON")
    }
}
