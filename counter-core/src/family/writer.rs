use std::fmt;

/// A random number that no other writer has: one for each shard and process start. It stays the same on every server, and
/// is replaced only after another process has sent batches under it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WriterId(u128);

impl WriterId {
    /// Creates an id from the randomness of the operating system.
    ///
    /// # Panics
    /// Panics when the operating system has no randomness to give.
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

    /// Returns some of its bits: enough to tell apart the writers of one process.
    pub(crate) const fn part(self) -> u32 {
        (self.0 >> 96) as u32
    }
}

impl fmt::Display for WriterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}
