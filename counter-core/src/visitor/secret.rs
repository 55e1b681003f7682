use std::fmt;
use std::str::FromStr;

use super::id::VisitorKey;

/// A secret of 128 bits that never goes to a store: without it, the visitors in a store cannot be tried
/// against a list of addresses.
///
/// Instances that have to agree on visitors need the same secret, so generate it once, for instance by
/// `openssl rand -hex 16`, and give it to each of them. [`Builder::secret`](crate::Builder::secret) keys
/// visitors with it, and limits by identity need one.
///
/// ```
/// use counter_core::{Counters, MemoryStore, Secret};
///
/// let secret: Secret = "0f1e2d3c4b5a69788796a5b4c3d2e1f0".parse()?;
/// let counters = Counters::builder(MemoryStore::new()).secret(secret).build()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Secret {
    key: VisitorKey,
    /// True if other processes may have it, too.
    shared: bool,
}

/// An error of a text that is not 32 hexadecimal digits. It does not contain the text.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SecretError;

impl Secret {
    /// Creates a secret from bytes, which should be random.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self { key: VisitorKey::new(bytes), shared: true }
    }

    /// Creates a random secret that no other process has. The ids that it keys differ from those that another
    /// instance, or this one after a restart, makes of the same person. Each call creates another one.
    ///
    /// # Panics
    /// Panics when the operating system has no randomness to give.
    #[must_use]
    pub fn of_this_process() -> Self {
        Self { key: VisitorKey::random(), shared: false }
    }

    /// Returns whether the secret was made by [`of_this_process`](Self::of_this_process).
    #[must_use]
    pub const fn is_of_this_process(&self) -> bool {
        !self.shared
    }

    /// Returns the key for one purpose, which reveals nothing about those for others.
    #[must_use]
    pub fn key(&self, purpose: &str) -> VisitorKey {
        self.key.derived(&[purpose.as_bytes()])
    }
}

impl FromStr for Secret {
    type Err = SecretError;

    fn from_str(text: &str) -> Result<Self, SecretError> {
        let digits = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let bits = u128::from_str_radix(text, 16).ok().filter(|_| digits);
        bits.map(|bits| Self::from_bytes(bits.to_be_bytes())).ok_or(SecretError)
    }
}

impl From<&Self> for Secret {
    fn from(secret: &Self) -> Self {
        secret.clone()
    }
}

// A secret belongs in no log.
impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

impl fmt::Display for SecretError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a secret has 32 hexadecimal digits")
    }
}

impl std::error::Error for SecretError {}

crate::log::debug::debug_in_full!(SecretError);

#[cfg(test)]
mod tests {
    use super::*;

    fn ann(key: VisitorKey) -> [u8; 16] {
        *key.visitor(&[b"ann"]).as_bytes()
    }

    #[test]
    fn a_secret_is_32_digits_and_is_told_nowhere() {
        let text = "0f1e2d3c4b5a69788796a5b4c3d2e1f0";
        let secret: Secret = text.parse().expect("32 digits");
        let bytes = u128::from_str_radix(text, 16).expect("digits").to_be_bytes();
        assert_eq!(ann(secret.key("a")), ann(Secret::from_bytes(bytes).key("a")));
        assert_eq!(format!("{secret:?}"), "Secret(..)");
        for text in ["", "0f1e", &text[1..], &format!("+{}", &text[1..]), &format!("{text}0"), "é"] {
            let error = text.parse::<Secret>().expect_err(text);
            assert_eq!(error.to_string(), "a secret has 32 hexadecimal digits");
        }
    }

    #[test]
    fn each_purpose_and_each_secret_has_a_key_of_its_own() {
        let (one, other) = (Secret::from_bytes([1; 16]), Secret::of_this_process());
        let keys = [one.key("a"), one.key("b"), other.key("a"), Secret::of_this_process().key("a")];
        for (place, key) in keys.iter().enumerate() {
            assert!(keys[..place].iter().all(|before| ann(*before) != ann(*key)), "{place}");
        }
        assert!(other.is_of_this_process() && !one.is_of_this_process());
    }
}
