use std::fmt;
use std::str::FromStr;

use super::writer::WriterId;

/// The random id of a store. It is created by the first process, and stored with the counts.
///
/// A store that lost all of its data will get a new id. A copy of a store, such as a replica or a restored
/// snapshot, has the same id. An id is formatted as 32 hexadecimal digits.
///
/// ```
/// use counter_core::{Counters, MemoryStore};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let store = MemoryStore::new();
/// let (one, other) = (Counters::builder(store.clone()).build()?, Counters::builder(store).build()?);
/// let id = one.stats().store_id().await?;
/// assert!(id.is_some());
/// assert_eq!(other.stats().store_id().await?, id);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StoreId(WriterId);

/// The error returned when a [`StoreId`] can't be parsed.
#[derive(Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoreIdError;

impl StoreId {
    pub(crate) fn random() -> Self {
        Self(WriterId::random())
    }

    #[cfg(feature = "spool")]
    pub(crate) const fn of(bytes: [u8; 16]) -> Self {
        Self(WriterId::of(bytes))
    }

    #[cfg(feature = "spool")]
    pub(crate) const fn to_bytes(self) -> [u8; 16] {
        self.0.to_bytes()
    }
}

impl FromStr for StoreId {
    type Err = StoreIdError;

    fn from_str(text: &str) -> Result<Self, StoreIdError> {
        let is_hexadecimal = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let number = u128::from_str_radix(text, 16).ok().filter(|_| is_hexadecimal);
        number.map(|number| Self(WriterId::of(number.to_le_bytes()))).ok_or(StoreIdError)
    }
}

impl fmt::Display for StoreId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for StoreIdError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a store id must have 32 hexadecimal digits")
    }
}

impl std::error::Error for StoreIdError {}

crate::log::debug::debug_in_full!(StoreIdError);
