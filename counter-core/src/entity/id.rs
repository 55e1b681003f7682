use std::fmt;
use std::ops::Deref;
use std::str::FromStr;

/// An entity id, unique within the kind: 1 to 63 bytes of UTF-8 without control characters.
///
/// Numbers are converted to decimal digits, so `42` and `"42"` are the same entity. Ids are compared by
/// bytes, i.e. case and trailing spaces are significant. The bytes are stored inline without allocation.
///
/// ```
/// use counter_core::entity::EntityId;
///
/// assert_eq!(EntityId::from(42), "42".parse()?);
/// assert!("".parse::<EntityId>().is_err());
/// assert!("x".repeat(64).parse::<EntityId>().is_err());
/// # Ok::<(), counter_core::entity::EntityIdError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EntityId {
    // Padded with zeros, which are not allowed in an id, so that the derived order is the text order.
    bytes: [u8; Self::MAX_BYTES],
    length: u8,
}

/// An invalid id: empty, longer than [`EntityId::MAX_BYTES`], or with a control character.
#[derive(Clone, PartialEq, Eq)]
pub struct EntityIdError(String);

impl EntityId {
    /// The maximum length in bytes.
    pub const MAX_BYTES: usize = 63;

    fn checked(text: &str) -> Option<Self> {
        let mut bytes = [0; Self::MAX_BYTES];
        bytes.get_mut(..text.len())?.copy_from_slice(text.as_bytes());
        let fine = !text.is_empty() && !text.chars().any(char::is_control);
        fine.then_some(Self { bytes, length: u8::try_from(text.len()).ok()? })
    }
}

impl From<u64> for EntityId {
    fn from(number: u64) -> Self {
        Self::checked(&number.to_string()).expect("at most 20 digits")
    }
}

impl FromStr for EntityId {
    type Err = EntityIdError;

    fn from_str(text: &str) -> Result<Self, EntityIdError> {
        Self::checked(text).ok_or_else(|| EntityIdError(text.chars().take(Self::MAX_BYTES + 1).collect()))
    }
}

impl Deref for EntityId {
    type Target = str;

    fn deref(&self) -> &str {
        let text = self.bytes.get(..self.length.into()).and_then(|bytes| std::str::from_utf8(bytes).ok());
        text.expect("created from text")
    }
}

impl fmt::Debug for EntityId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

impl fmt::Display for EntityId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self)
    }
}

impl fmt::Display for EntityIdError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let max = EntityId::MAX_BYTES;
        write!(f, "an id must have 1 to {max} bytes without control characters, but is {:?}", self.0)
    }
}

impl std::error::Error for EntityIdError {}

crate::log::debug::debug_in_full!(EntityIdError);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_ordered_and_displayed_as_text() {
        let strings = ["1", "10", "2", "a", "a ", "aa", "é"];
        let ids = strings.map(|text| text.parse::<EntityId>().expect("a good id"));
        assert!(ids.is_sorted());
        assert_eq!(ids.map(|id| id.to_string()), strings);
        assert_eq!(&*EntityId::from(u64::MAX), "18446744073709551615");
    }

    #[test]
    fn invalid_ids_are_rejected() {
        for text in ["", "a\nb", "\0", &"é".repeat(32)] {
            let error = text.parse::<EntityId>().expect_err(text);
            assert!(error.to_string().len() < 300, "{error}");
        }
    }
}
