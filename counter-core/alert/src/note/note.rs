use std::fmt;

use counter_core::Timestamp;
use counter_core::visits::WriterId;
use serde::{Deserialize, Serialize};

/// A note about an instant: a line of text, with an id that no other note has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    id: String,
    at: u64,
    text: String,
}

/// The error of a text that cannot be a note, or its id.
#[derive(Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum NoteError {
    /// The text is empty, has more than [`Note::MAX_CHARS`] characters, or a control character such as the end of a line.
    Text,
    /// The id is empty, has more than [`Note::MAX_ID_BYTES`] bytes, or others than letters, digits and `-._~`.
    Id,
}

impl Note {
    /// The largest number of characters in a text.
    pub const MAX_CHARS: usize = 200;

    /// The largest number of bytes in an id.
    pub const MAX_ID_BYTES: usize = 64;

    /// Creates a note with a random id.
    ///
    /// # Errors
    /// Fails when the text is [none of a note](NoteError::Text).
    ///
    /// # Panics
    /// Panics when the operating system has no randomness to give.
    pub fn new(at: Timestamp, text: impl Into<String>) -> Result<Self, NoteError> {
        let text = text.into();
        let is_empty = text.trim().is_empty();
        if is_empty || text.chars().count() > Self::MAX_CHARS || text.chars().any(char::is_control) {
            return Err(NoteError::Text);
        }
        Ok(Self { id: WriterId::random().to_string(), at: at.as_unix(), text })
    }

    /// Sets an id of the caller's own, such as the name of a release: whoever adds it again makes no second note.
    ///
    /// # Errors
    /// Fails when the id is [none of a note](NoteError::Id). The characters are those that an address has as they are (RFC
    /// 3986, section 2.3).
    pub fn with_id(mut self, id: impl Into<String>) -> Result<Self, NoteError> {
        self.id = id.into();
        if Self::is_id(&self.id) { Ok(self) } else { Err(NoteError::Id) }
    }

    /// Returns `true` if a text can be the id of a note.
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

    /// Returns the instant that the note is about.
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
                write!(f, "a note has 1 to {} characters and no control characters", Note::MAX_CHARS)
            }
            Self::Id => {
                let most = Note::MAX_ID_BYTES;
                write!(f, "the id of a note has 1 to {most} letters, digits and -._~")
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
    fn a_text_is_one_short_line() {
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
    fn an_id_has_what_an_address_has_as_it_is() {
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
