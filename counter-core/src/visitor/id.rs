use std::fmt;

use super::siphash::SipHash;
use crate::sketch::Register;

/// The id of a visitor: 128 bits that do not reveal the visitor, made only by a [`VisitorKey`].
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct VisitorId([u8; 16]);

/// A secret key that turns what identifies a visitor into a [`VisitorId`], by SipHash-1-3 with 128 bits of
/// output (Aumasson and Bernstein, *SipHash: a fast short-input PRF*, 2012).
///
/// The same parts give the same visitor as long as the key is the same; without the key, an id can neither be
/// made nor tried against a list of addresses.
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
    /// Returns the bytes of the id, which are what a sketch hashes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

impl From<VisitorId> for Register {
    /// Returns the register that a visitor raises.
    #[inline]
    fn from(visitor: VisitorId) -> Self {
        Self::of(visitor.as_bytes())
    }
}

impl VisitorKey {
    /// Creates a key from bytes, which should be random.
    #[must_use]
    pub const fn new(key: [u8; 16]) -> Self {
        let [k0, k1, k2, k3, k4, k5, k6, k7, rest @ ..] = key;
        let low = u64::from_le_bytes([k0, k1, k2, k3, k4, k5, k6, k7]);
        Self([low, u64::from_le_bytes(rest)])
    }

    /// Creates a key from the randomness of the operating system.
    ///
    /// # Panics
    /// Panics when the operating system has no randomness to give.
    #[must_use]
    pub fn random() -> Self {
        Self::new(random())
    }

    /// Returns another key, which these parts select and which reveals nothing about this one.
    pub(crate) fn derived(&self, parts: &[&[u8]]) -> Self {
        Self::new(self.visitor(parts).0)
    }

    pub(crate) const fn of_words(words: [u64; 2]) -> Self {
        Self(words)
    }

    pub(crate) const fn words(self) -> [u64; 2] {
        self.0
    }

    /// Returns the visitor that these parts identify; where one part ends and the next begins matters.
    // Always inlined, so that lengths which are constant in the caller are constant here: for an address,
    // that saves half of the work.
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

/// The state of the hash under a key when it has the length of its only part, [`PREPARED`] bytes, which are the same for all
/// requests of an epoch.
#[derive(Clone, Copy)]
pub(crate) struct PreparedKey([u64; 4]);

/// The length of parts that keys are prepared for, in bytes: an address and the digest of a user agent.
pub(crate) const PREPARED: usize = 24;

impl PreparedKey {
    pub(crate) fn of(key: VisitorKey) -> Self {
        let mut hash = SipHash::new(key.0);
        hash.word(PREPARED as u64);
        Self(hash.state())
    }

    pub(crate) const fn of_words(words: [u64; 4]) -> Self {
        Self(words)
    }

    pub(crate) const fn words(self) -> [u64; 4] {
        self.0
    }

    /// Returns the visitor that [`VisitorKey::visitor`] makes of this part.
    #[inline(always)]
    pub(crate) fn visitor(self, part: &[u8; PREPARED]) -> VisitorId {
        let mut hash = SipHash::resume(self.0, 1);
        for word in part.as_chunks::<8>().0 {
            hash.word(u64::from_le_bytes(*word));
        }
        VisitorId(hash.finish())
    }
}

/// Returns 128 bits that cannot be guessed.
pub(crate) fn random() -> [u8; 16] {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).expect("the operating system gives random bytes");
    bytes
}

// Neither an id nor a key belongs in a log.
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
        fn a_prepared_key_makes_the_same_visitors(key in any::<[u8; 16]>(), part in any::<[u8; PREPARED]>()) {
            let key = VisitorKey::new(key);
            prop_assert_eq!(PreparedKey::of(key).visitor(&part), key.visitor(&[&part]));
        }
    }
}
