use std::fmt;

use super::siphash::SipHash;
use crate::sketch::Register;

/// A visitor ID: 128 bits that do not reveal the visitor.
///
/// It can only be created with a [`VisitorKey`]:
///
/// ```
/// use counter_core::visitor::VisitorKey;
///
/// let key = VisitorKey::random();
/// let visitor = key.visitor(&[b"192.0.2.1", b"Mozilla/5.0"]);
/// assert_eq!(visitor, key.visitor(&[b"192.0.2.1", b"Mozilla/5.0"]));
/// assert_ne!(visitor, VisitorKey::random().visitor(&[b"192.0.2.1", b"Mozilla/5.0"]));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct VisitorId([u8; 16]);

/// A secret key that maps visitor properties to a [`VisitorId`].
///
/// The hash function is SipHash-1-3 with 128 bits of output (Aumasson and Bernstein, *SipHash: a fast
/// short-input PRF*, 2012).
///
/// With the same key, the same parts always result in the same visitor. If the key is unknown, there is no
/// way to create an ID, or to test it against a list of addresses.
///
/// ```
/// use counter_core::visitor::VisitorKey;
///
/// let key = VisitorKey::new([7; 16]);
/// assert_eq!(key.visitor(&[b"192.0.2.1", b"curl"]), key.visitor(&[b"192.0.2.1", b"curl"]));
/// assert_ne!(key.visitor(&[b"ab", b"c"]), key.visitor(&[b"a", b"bc"]));
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct VisitorKey([u64; 2]);

impl VisitorId {
    /// Returns the ID as bytes. These are the input to the sketch hash.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

impl From<VisitorId> for Register {
    /// Returns the register for this visitor.
    #[inline]
    fn from(visitor: VisitorId) -> Self {
        Self::of(visitor.as_bytes())
    }
}

impl VisitorKey {
    /// Creates a key from bytes. These should be random.
    #[must_use]
    pub const fn new(key: [u8; 16]) -> Self {
        let [k0, k1, k2, k3, k4, k5, k6, k7, rest @ ..] = key;
        let low = u64::from_le_bytes([k0, k1, k2, k3, k4, k5, k6, k7]);
        Self([low, u64::from_le_bytes(rest)])
    }

    /// Generates a random key.
    ///
    /// # Panics
    /// Panics if the operating system can't provide random bytes.
    #[must_use]
    pub fn random() -> Self {
        Self::new(random())
    }

    /// Derives a different key from these parts. It reveals nothing about this key.
    pub(crate) fn derived(&self, parts: &[&[u8]]) -> Self {
        Self::new(self.visitor(parts).0)
    }

    pub(crate) const fn of_words(words: [u64; 2]) -> Self {
        Self(words)
    }

    pub(crate) const fn words(self) -> [u64; 2] {
        self.0
    }

    /// Returns the visitor for these parts. The boundaries between the parts are significant.
    // Always inlined, so that part lengths that are constant in the caller become constants here. For an
    // address, this saves half of the work.
    #[inline(always)]
    #[must_use]
    pub fn visitor(&self, parts: &[&[u8]]) -> VisitorId {
        let mut hash = SipHash::new(self.0);
        for part in parts {
            hash.bytes(part);
        }
        VisitorId(hash.finish())
    }
}

/// The hash state for a key after hashing the part length, [`PREPARED_BYTES`], assuming a single part. It is
/// constant within an epoch.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct PreparedKey([u64; 4]);

/// The part length for prepared keys, in bytes: an address and a user agent digest.
pub(crate) const PREPARED_BYTES: usize = 24;

impl PreparedKey {
    pub(crate) fn of(key: VisitorKey) -> Self {
        let mut hash = SipHash::new(key.0);
        hash.word(PREPARED_BYTES as u64);
        Self(hash.state())
    }

    pub(crate) const fn of_words(words: [u64; 4]) -> Self {
        Self(words)
    }

    pub(crate) const fn words(self) -> [u64; 4] {
        self.0
    }

    /// Like [`VisitorKey::visitor`] with this single part.
    #[inline(always)]
    pub(crate) fn visitor(self, part: &[u8; PREPARED_BYTES]) -> VisitorId {
        let mut hash = SipHash::resume(self.0, 1);
        for word in part.as_chunks::<8>().0 {
            hash.word(u64::from_le_bytes(*word));
        }
        VisitorId(hash.finish())
    }
}

/// Returns 128 random bits that can't be guessed.
pub(crate) fn random() -> [u8; 16] {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).expect("the operating system gives random bytes");
    bytes
}

// IDs and keys must not be logged.
impl fmt::Debug for VisitorId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("VisitorId(..)")
    }
}

impl fmt::Debug for VisitorKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("VisitorKey(..)")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn prepared_keys_return_the_same_visitors(key in any::<[u8; 16]>(), part in any::<[u8; PREPARED_BYTES]>()) {
            let key = VisitorKey::new(key);
            prop_assert_eq!(PreparedKey::of(key).visitor(&part), key.visitor(&[&part]));
        }
    }
}
