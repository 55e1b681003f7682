use std::fmt;
use std::str::FromStr;

use super::id::VisitorKey;

/// A 128-bit secret to hash visitors, which is never sent to a store.
///
/// If the secret is unknown, the visitors in a store can't be tested against a list of addresses.
///
/// Instances that need to agree on visitors must use the same secret, so you should generate it ahead of
/// deployment, e.g. via `openssl rand -hex 16`, and configure it for all instances. It is used by
/// [`Builder::secret`](crate::Builder::secret) to hash visitors, and required for limits by identity.
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
    /// True if other processes may use the same secret.
    shared: bool,
}

/// An error returned if a string is not 32 hexadecimal digits. It does not contain the string.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SecretError;

impl Secret {
    /// Creates a secret from bytes. These should be random.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self { key: VisitorKey::new(bytes), shared: true }
    }

    /// Generates a random secret that is local to this process. IDs for the same visitor will be different in
    /// other instances, and after a restart. This always returns a new secret.
    ///
    /// # Panics
    /// Panics if the operating system can't provide random bytes.
    #[must_use]
    pub fn process_local() -> Self {
        Self { key: VisitorKey::random(), shared: false }
    }

    /// Returns `true` if the secret was created by [`process_local`](Self::process_local).
    #[must_use]
    pub const fn is_process_local(&self) -> bool {
        !self.shared
    }

    /// Derives a key for the given purpose. It reveals nothing about keys for other purposes.
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

// Secrets must not be logged.
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
    fn a_secret_has_32_digits_and_is_never_printed() {
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
    fn keys_differ_by_purpose_and_secret() {
        let (one, other) = (Secret::from_bytes([1; 16]), Secret::process_local());
        let keys = [one.key("a"), one.key("b"), other.key("a"), Secret::process_local().key("a")];
        for (index, key) in keys.iter().enumerate() {
            assert!(keys[..index].iter().all(|before| ann(*before) != ann(*key)), "{index}");
        }
        assert!(other.is_process_local() && !one.is_process_local());
    }
}
