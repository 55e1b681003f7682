use std::ops::RangeBounds;

use counter_core::document::DocumentStore;
use counter_core::{Error, ErrorKind, Timestamp};

use super::note::Note;
use crate::document::DocumentList;

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
pub struct Notes(DocumentList<Note>);

/// The result of adding a note.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Added {
    /// The stored note, i.e. the existing note if the id is already in use.
    pub note: Note,
    /// True if the note is new. This is `false` if the id is already in use.
    pub is_new: bool,
}

impl Notes {
    /// The maximum number of notes in a store.
    pub const MAX: usize = 1000;

    /// Creates a handle to the notes in a store.
    #[must_use]
    pub fn new(store: impl DocumentStore) -> Self {
        Self(DocumentList::new(store, "notes"))
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
        self.0.change(add).await?
    }

    /// Returns the notes in a time range, in chronological order.
    ///
    /// # Errors
    /// Fails if the store can't be read.
    pub async fn list(&self, range: impl RangeBounds<Timestamp>) -> Result<Vec<Note>, Error> {
        let mut notes = self.0.read().await?;
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
        self.0.change(remove).await
    }
}
