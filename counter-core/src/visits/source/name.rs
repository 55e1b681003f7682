use std::fmt;
use std::ops::Deref;
use std::str::FromStr;
use std::sync::Arc;

use crate::family::writer::WriterId;
use crate::time::Precision;
use crate::visitor::VisitorKey;

/// The name of a source: 1 to 255 bytes of UTF-8, not including control characters.
///
/// All readers of a log must use the same name, and the name must be unique to the log. For example, you can
/// use a topic and the partition, a file and a fingerprint to distinguish it from later files, or a producer
/// id. The store only keeps a hash of the name.
///
/// ```
/// use counter_core::source::SourceName;
///
/// assert!(SourceName::new("kafka:visits:3").is_ok());
/// assert!(SourceName::new("").is_err());
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SourceName(Arc<str>);

/// An error returned for an invalid source name.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SourceNameError(());

impl SourceName {
    /// The maximum length of a name, in bytes.
    pub const MAX_BYTES: usize = 255;

    /// Validates and copies `name`.
    ///
    /// # Errors
    /// Fails if the name is empty, is longer than [`MAX_BYTES`](Self::MAX_BYTES), or contains a control
    /// character.
    pub fn new(name: &str) -> Result<Self, SourceNameError> {
        let fits = (1..=Self::MAX_BYTES).contains(&name.len()) && !name.chars().any(char::is_control);
        if fits { Ok(Self(name.into())) } else { Err(SourceNameError(())) }
    }

    /// Returns the writer id, derived from the name. The fence of this writer contains the position.
    pub(in crate::visits) fn writer(&self) -> WriterId {
        let id = VisitorKey::new(*b"access counter's").visitor(&[self.as_bytes()]);
        WriterId::of(*id.as_bytes())
    }

    /// Returns the writer id for a precision of the far store of an archive.
    pub(in crate::visits) fn writer_of(&self, precision: Precision) -> WriterId {
        let width = precision.as_seconds().to_le_bytes();
        let id = VisitorKey::new(*b"access counter's").visitor(&[self.as_bytes(), &width]);
        WriterId::of(*id.as_bytes())
    }
}

impl Deref for SourceName {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl AsRef<str> for SourceName {
    fn as_ref(&self) -> &str {
        self
    }
}

impl TryFrom<&str> for SourceName {
    type Error = SourceNameError;

    fn try_from(name: &str) -> Result<Self, SourceNameError> {
        Self::new(name)
    }
}

impl TryFrom<String> for SourceName {
    type Error = SourceNameError;

    fn try_from(name: String) -> Result<Self, SourceNameError> {
        Self::new(&name)
    }
}

impl FromStr for SourceName {
    type Err = SourceNameError;

    fn from_str(name: &str) -> Result<Self, SourceNameError> {
        Self::new(name)
    }
}

impl fmt::Display for SourceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self)
    }
}

impl fmt::Display for SourceNameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a source name must have 1 to {} bytes and no control characters", SourceName::MAX_BYTES)
    }
}

impl std::error::Error for SourceNameError {}

crate::log::debug::debug_in_full!(SourceNameError);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writer_ids_are_stable_across_versions() {
        let writer = SourceName::new("kafka:visits:3").expect("a name").writer();
        assert_eq!(writer.to_string(), "645d463345a61c9fd1b293fcfefda55e");
    }
}
