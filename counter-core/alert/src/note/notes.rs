use std::ops::RangeBounds;
use std::sync::Arc;

use counter_core::document::DocumentStore;
use counter_core::internal::change_document;
use counter_core::{Error, ErrorKind, Timestamp};
use serde::{Deserialize, Serialize};

use super::note::Note;
use crate::document_version::DocumentVersion;

/// The notes shared by all processes that use a store.
///
/// ```
/// use counter_alert::note::{Note, Notes};
/// use counter_core::{MemoryStore, Timestamp};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let notes = Notes::new(MemoryStore::new());
/// let deploy = Note::new(Timestamp::now(), "Release 1.4")?.with_id("deploy-1.4")?;
/// assert!(notes.add(&deploy).await?.is_new);
/// assert!(!notes.add(&deploy).await?.is_new); // a retry with the same id
/// assert_eq!(notes.list(..).await?, [deploy]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Notes {
    store: Arc<dyn DocumentStore>,
}

/// The result of adding a note.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Added {
    /// The stored note, i.e. the existing note if the id is already in use.
    pub note: Note,
    /// True if the note is new. This is `false` if the id is already in use.
    pub is_new: bool,
}

/// The content of the document in the [`DocumentStore`] that holds all notes.
#[derive(Debug, Default, Serialize, Deserialize)]
struct StoredNotes {
    #[serde(default)]
    version: DocumentVersion<1>,
    /// All notes, in insertion order.
    notes: Vec<Note>,
}

/// The name of the document with all notes, in the [`DocumentStore`].
const DOCUMENT: &str = "notes";

impl Notes {
    /// The maximum number of notes in a store.
    pub const MAX: usize = 1000;

    /// Creates a handle to the notes in a store.
    #[must_use]
    pub fn new(store: impl DocumentStore) -> Self {
        Self { store: Arc::new(store) }
    }

    /// Adds a note. If the id is already in use, this returns the existing note instead.
    ///
    /// # Errors
    /// Fails with [`ErrorKind::TooManyItems`] if there are already [`Notes::MAX`] notes. Also fails if the
    /// store fails, or if other processes keep changing the notes. The note might have been added in this
    /// case, but you can safely add it again.
    pub async fn add(&self, note: &Note) -> Result<Added, Error> {
        let add = |notes: &mut Vec<Note>| {
            if let Some(stored) = notes.iter().find(|stored| stored.id() == note.id()) {
                return (Ok(Added { note: stored.clone(), is_new: false }), false);
            }
            if notes.len() >= Self::MAX {
                return (Err(Error::new(ErrorKind::TooManyItems { max: Self::MAX as u64 })), false);
            }
            notes.push(note.clone());
            (Ok(Added { note: note.clone(), is_new: true }), true)
        };
        self.change(add).await?
    }

    /// Returns the notes in a time range, in chronological order.
    ///
    /// # Errors
    /// Fails if the store can't be read.
    pub async fn list(&self, range: impl RangeBounds<Timestamp>) -> Result<Vec<Note>, Error> {
        let mut notes = StoredNotes::decode(&self.store.read(DOCUMENT).await?.content)?.notes;
        notes.retain(|note| range.contains(&note.at()));
        notes.sort_by_key(Note::at);
        Ok(notes)
    }

    /// Removes the note with this id, and returns whether it existed.
    ///
    /// # Errors
    /// Fails if the store fails, or if other processes keep changing the notes. The note might have been
    /// removed in this case.
    pub async fn remove(&self, id: &str) -> Result<bool, Error> {
        let remove = |notes: &mut Vec<Note>| {
            let before = notes.len();
            notes.retain(|note| note.id() != id);
            let is_removed = notes.len() < before;
            (is_removed, is_removed)
        };
        self.change(remove).await
    }

    /// Changes the notes, and retries if another process has changed the notes in the meantime. `change`
    /// returns an outcome, and whether the notes need to be written.
    async fn change<T>(&self, change: impl Fn(&mut Vec<Note>) -> (T, bool) + Send) -> Result<T, Error> {
        let changed = change_document(&*self.store, DOCUMENT, move |document| {
            let mut stored = StoredNotes::decode(&document?.content)?;
            let (outcome, is_changed) = change(&mut stored.notes);
            Ok((outcome, is_changed.then(|| stored.encode())))
        });
        changed.await?.ok_or_else(|| {
            Error::new(ErrorKind::Unavailable).caused_by("too many concurrent changes to the notes")
        })
    }
}

impl StoredNotes {
    fn decode(content: &[u8]) -> Result<Self, Error> {
        if content.is_empty() {
            return Ok(Self::default());
        }
        serde_json::from_slice(content)
            .map_err(|error| Error::new(ErrorKind::Malformed { key: DOCUMENT.to_owned() }).caused_by(error))
    }

    fn encode(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("numbers and strings can be serialized as JSON")
    }
}
