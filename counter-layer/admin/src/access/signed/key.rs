//! The key that signs sessions and links.
//!
//! A client with a session or a link can check guesses of the token against the signature, without sending
//! requests. Therefore, we derive the key by Argon2id, so that each guess takes tens of milliseconds and 19
//! MiB of memory. The salt is constant, because all instances must derive the same key, and they only share
//! the token until they read the store.

use argon2::{Algorithm, Argon2, Params, Version};
use hmac::{Hmac, Mac};
use sha2::Sha256;

/// A key derived from a token.
#[derive(Clone)]
pub(crate) struct TokenKey(Hmac<Sha256>);

/// Memory in KiB, passes and lanes. The OWASP Password Storage Cheat Sheet recommends this amount of memory
/// with at least two passes. We use three times as many passes: the startup can take this time, but should
/// not need more memory.
const COSTS: (u32, u32, u32) = (19 * 1024, 6, 1);

const SALT: &[u8] = b"counter-layer admin token 1";

impl TokenKey {
    /// Derives the key of a token. This takes about 50 ms in a release build.
    pub(crate) fn derive(token: &str) -> Self {
        let (memory, passes, lanes) = COSTS;
        let params = Params::new(memory, passes, lanes, None).expect("the costs are valid");
        let mut key = [0; 32];
        Argon2::new(Algorithm::Argon2id, Version::V0x13, params)
            .hash_password_into(token.as_bytes(), SALT, &mut key)
            .expect("token and salt have valid lengths");
        Self::from_bytes(&key)
    }

    pub(crate) fn from_bytes(key: &[u8; 32]) -> Self {
        Self(Hmac::new_from_slice(key).expect("HMAC supports keys of any length"))
    }

    /// Starts a signature. Signatures with different purposes never match.
    pub(crate) fn sign(&self, purpose: &'static [u8]) -> Hmac<Sha256> {
        self.0.clone().chain_update(purpose)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_is_determined_by_the_token() {
        let signed = |token| TokenKey::derive(token).sign(b"test:").finalize().into_bytes();
        assert_eq!(signed("a-token-of-16-chars"), signed("a-token-of-16-chars"));
        assert_ne!(signed("a-token-of-16-chars"), signed("a-token-of-16-charS"));
    }
}
