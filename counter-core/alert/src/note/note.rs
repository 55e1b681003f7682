use std::fmt;

use counter_core::Timestamp;
use counter_core::visits::WriterId;
use serde::{Deserialize, Serialize};

/// A note on an instant, such as a deploy, to be shown in charts: a line of text with a unique id.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    id: String,
    at: u64,
    text: String,
}

/// The error for a note with an invalid text or id.
#[derive(Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum NoteError {
    /// The text is empty, is longer than [`Note::MAX_CHARS`] characters, or contains a control character such
    /// as a line break.
    Text,
    /// The id is empty, is longer than [`Note::MAX_ID_BYTES`] bytes, or contains characters other than
    /// letters, digits and `-._~`.
    Id,
}

impl Note {
    /// The maximum number of characters in the text of a note.
    pub const MAX_CHARS: usize = 200;

    /// The maximum number of bytes in the id of a note.
    pub const MAX_ID_BYTES: usize = 64;

    /// Creates a note with a random id.
    ///
    /// # Errors
    /// Fails if the text is [invalid](NoteError::Text).
    ///
    /// # Panics
    /// Panics if the operating system can't provide randomness.
    pub fn new(at: Timestamp, text: impl Into<String>) -> Result<Self, NoteError> {
        let text = text.into();
        let is_empty = text.trim().is_empty();
        if is_empty || text.chars().count() > Self::MAX_CHARS || text.chars().any(char::is_control) {
            return Err(NoteError::Text);
        }
        Ok(Self { id: WriterId::random().to_string(), at: at.as_unix(), text })
    }

    /// Sets a custom id, such as a release name, so that adding the same note again will not create a
    /// duplicate.
    ///
    /// # Errors
    /// Fails if the id is [invalid](NoteError::Id). The allowed characters are the unreserved characters in a
    /// URI (RFC 3986, section 2.3).
    pub fn with_id(mut self, id: impl Into<String>) -> Result<Self, NoteError> {
        self.id = id.into();
        if Self::is_id(&self.id) { Ok(self) } else { Err(NoteError::Id) }
    }

    /// Returns whether the text is a valid note id.
    #[must_use]
    pub fn is_id(text: &str) -> bool {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
        (1..=Self::MAX_ID_BYTES).contains(&text.len()) && text.bytes().all(is_plain)
    }

    /// Returns the id.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Returns the instant of the note.
    #[must_use]
    pub const fn at(&self) -> Timestamp {
        Timestamp::from_unix(self.at)
    }

    /// Returns the text.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }
}

impl fmt::Display for NoteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text => {
                write!(f, "a note must have 1 to {} characters and no control characters", Note::MAX_CHARS)
            }
            Self::Id => {
                let max = Note::MAX_ID_BYTES;
                write!(f, "the id of a note must have 1 to {max} letters, digits and -._~")
            }
        }
    }
}

impl std::error::Error for NoteError {}

counter_core::internal::debug_in_full!(NoteError);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_a_single_short_line() {
        let (long, longer) = ("é".repeat(200), "é".repeat(201));
        for (text, is_note) in [
            ("Version 1.4", true),
            (&*long, true),
            (&*longer, false),
            ("", false),
            (" \u{a0}", false),
            ("two\nlines", false),
            ("\u{7f}", false),
            ("\u{85}", false),
        ] {
            assert_eq!(Note::new(Timestamp::MIN, text).is_ok(), is_note, "{text:?}");
        }
    }

    #[test]
    fn ids_consist_of_unreserved_url_characters() {
        let note = || Note::new(Timestamp::MIN, "a").expect("a text");
        let (long, longer) = ("a".repeat(64), "a".repeat(65));
        for (id, is_id) in [
            ("deploy-1.4_~A", true),
            (&*long, true),
            (&*longer, false),
            ("", false),
            ("a b", false),
            ("é", false),
            ("a/b", false),
            ("a%20", false),
        ] {
            assert_eq!(note().with_id(id).is_ok(), is_id, "{id:?}");
        }
        assert!(note().with_id(note().id()).is_ok() && note().id() != note().id());
    }
}
