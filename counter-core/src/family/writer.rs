use std::fmt;

/// A unique random ID, generated for each shard and process start.
///
/// It does not depend on the server, and will only be replaced if another process has sent batches using the
/// same ID.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WriterId(u128);

impl WriterId {
    /// Generates a random ID.
    ///
    /// # Panics
    /// Panics if the operating system can't provide random bytes.
    #[must_use]
    pub fn random() -> Self {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes).expect("the operating system gives random bytes");
        Self(u128::from_le_bytes(bytes))
    }

    pub(crate) const fn of(id: [u8; 16]) -> Self {
        Self(u128::from_le_bytes(id))
    }

    #[cfg(feature = "spool")]
    pub(crate) const fn to_bytes(self) -> [u8; 16] {
        self.0.to_le_bytes()
    }

    /// Returns some bits of the ID. This is sufficient to distinguish the writers in a process.
    pub(crate) const fn part(self) -> u32 {
        (self.0 >> 96) as u32
    }
}

impl fmt::Display for WriterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}
