use std::ops::RangeBounds;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tokio::time::sleep;

use super::Note;
use crate::document::DocumentStore;
use crate::time::backoff::Backoff;
use crate::{Error, ErrorKind, Timestamp};

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

/// The number of times that other processes may replace the document while this one changes it.
const ATTEMPTS: usize = 10;

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

    /// Changes the notes, again on those of others that were first. The change returns an outcome, and whether there is
    /// anything to write.
    async fn change<T>(&self, change: impl Fn(&mut Vec<Note>) -> (T, bool)) -> Result<T, Error> {
        let mut backoff = Backoff::new();
        for _ in 0..ATTEMPTS {
            let seen = self.store.read(DOCUMENT).await?;
            let mut kept = Kept::decode(&seen.content)?;
            let (outcome, is_changed) = change(&mut kept.notes);
            if !is_changed || self.store.replace(DOCUMENT, seen.version, &kept.encode()).await?.is_some() {
                return Ok(outcome);
            }
            sleep(backoff.next()).await;
        }
        let reason = format!("other processes have changed the notes {ATTEMPTS} times in the meantime");
        Err(Error::new(ErrorKind::Unavailable).caused_by(reason))
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
