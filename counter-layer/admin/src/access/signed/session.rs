//! Sessions, which browsers store as a cookie after a login with the token.
//!
//! All instances with the token must accept a session, so it contains the expiry and is signed with the token
//! key: `{end}.{nonce}.{signature}`, in hexadecimal digits. The signature also covers the generation, so we
//! can [revoke](super::revocation) all sessions.

use std::time::Duration;

use counter_core::Timestamp;
use hmac::{Hmac, Mac};
use sha2::Sha256;

use super::key::TokenKey;
use super::revocation::{Generation, SessionId};

/// Signs and verifies sessions with the token key.
#[derive(Clone)]
pub(crate) struct Sessions(TokenKey);

/// A session whose signature has not been verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Claim<'a> {
    /// The signed part.
    body: &'a str,
    signature: [u8; 32],
    end: Timestamp,
    id: SessionId,
}

/// Request extension: the client has a session.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LoggedIn;

/// A prefix that is not used for other signatures.
const LABEL: &[u8] = b"counter-layer admin session 1:";

const BODY_CHARS: usize = 16 + 1 + 32;
const SIGNATURE_CHARS: usize = 64;

impl Sessions {
    pub(crate) const fn new(key: TokenKey) -> Self {
        Self(key)
    }

    /// Starts a session, or returns `None` if the operating system does not provide randomness.
    pub(crate) fn start(&self, now: Timestamp, lifetime: Duration, generation: Generation) -> Option<String> {
        // Without the nonce, it would be enough to guess the token and the start time of a session.
        let mut nonce = [0; 16];
        getrandom::fill(&mut nonce).ok()?;
        let end = now.plus(lifetime.as_secs()).as_unix();
        let body = format!("{end:016x}.{:032x}", u128::from_be_bytes(nonce));
        let signature = write_signature(self.hmac(&body, generation));
        Some(format!("{body}.{signature}"))
    }

    /// Returns `true` if the session was signed with this key and generation.
    pub(crate) fn signed(&self, claim: &Claim<'_>, generation: Generation) -> bool {
        // Compares in constant time.
        self.hmac(claim.body, generation).verify_slice(&claim.signature).is_ok()
    }

    fn hmac(&self, body: &str, generation: Generation) -> Hmac<Sha256> {
        self.0.sign(LABEL).chain_update(generation.to_bytes()).chain_update(body)
    }
}

impl<'a> Claim<'a> {
    /// Parses a session that has not expired.
    pub(crate) fn read(text: &'a str, now: Timestamp) -> Option<Self> {
        let (body, signature) = text.split_at_checked(BODY_CHARS)?;
        let signature = read_signature(signature.strip_prefix('.')?)?;
        let (end, nonce) = body.split_once('.').filter(|(end, _)| end.len() == 16)?;
        if ![end, nonce].into_iter().all(has_digits) {
            return None;
        }
        let end = Timestamp::from_unix(u64::from_str_radix(end, 16).ok()?);
        // Half of the nonce is enough to distinguish sessions.
        let id = SessionId(u64::from_str_radix(nonce.get(..16)?, 16).ok()?);
        Some(Self { body, signature, end, id }).filter(|claim| now < claim.end)
    }

    pub(crate) const fn id(&self) -> SessionId {
        self.id
    }

    pub(crate) const fn end(&self) -> Timestamp {
        self.end
    }
}

/// Formats a signature as hexadecimal digits.
pub(super) fn write_signature(signed: Hmac<Sha256>) -> String {
    let signature: [u8; 32] = signed.finalize().into_bytes().into();
    let (halves, _) = signature.as_chunks::<16>();
    let [high, low] = [halves[0], halves[1]].map(u128::from_be_bytes);
    format!("{high:032x}{low:032x}")
}

/// Parses a signature. Only the canonical form is accepted.
pub(super) fn read_signature(text: &str) -> Option<[u8; 32]> {
    let text = Some(text).filter(|text| text.len() == SIGNATURE_CHARS && has_digits(text))?;
    let half = |range| Some(u128::from_str_radix(text.get(range)?, 16).ok()?.to_be_bytes());
    [half(0..32)?, half(32..64)?].as_flattened().try_into().ok()
}

fn has_digits(text: &str) -> bool {
    text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOON: Timestamp = Timestamp::from_unix(1_585_915_200);
    const HOUR: Duration = Duration::from_secs(3600);

    fn sessions(key: u8) -> Sessions {
        Sessions::new(TokenKey::from_bytes(&[key; 32]))
    }

    fn start(key: u8) -> String {
        sessions(key).start(NOON, HOUR, Generation::FIRST).expect("there is randomness")
    }

    fn accepts(key: u8, session: &str, now: Timestamp) -> bool {
        Claim::read(session, now).is_some_and(|claim| sessions(key).signed(&claim, Generation::FIRST))
    }

    #[test]
    fn a_session_is_valid_with_the_same_key_until_it_expires() {
        let session = start(1);
        for (key, now, valid) in [
            (1, NOON, true),
            (1, NOON.plus(3599), true),
            (1, NOON.plus(3600), false),
            (1, NOON.plus(86_400), false),
            // Signed by an instance whose clock is ahead.
            (1, NOON.minus(60), true),
            (2, NOON, false),
        ] {
            assert_eq!(accepts(key, &session, now), valid, "{key} at {now}");
        }
    }

    #[test]
    fn sessions_of_earlier_generations_are_invalid() {
        let session = start(1);
        let claim = Claim::read(&session, NOON).expect("a session");
        let next = Generation::random().expect("there is randomness");
        assert!(sessions(1).signed(&claim, Generation::FIRST) && !sessions(1).signed(&claim, next));
    }

    #[test]
    fn modified_sessions_are_rejected() {
        let session = start(1);
        assert!(accepts(1, &session, NOON));
        for place in 0..session.len() {
            for other in ['0', 'f', '.', 'F', '+', ' '] {
                let mut changed: Vec<_> = session.chars().collect();
                if std::mem::replace(&mut changed[place], other) != other {
                    let changed: String = changed.into_iter().collect();
                    assert!(!accepts(1, &changed, NOON), "{changed}");
                }
            }
        }
        for text in ["", ".", "..", &session[1..], &session[..113], &format!("{session}0"), &"é".repeat(57)]
        {
            assert_eq!(Claim::read(text, NOON), None, "{text}");
        }
    }

    #[test]
    fn sessions_are_unique() {
        assert_ne!(start(1), start(1));
    }
}
