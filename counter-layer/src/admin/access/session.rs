//! Sessions: what the cookie of a browser holds once its owner has shown the token.
//!
//! All instances that have the token must know a session, and there need be no store that they share. So a
//! session says when it ends and is signed with the token: `{end}.{nonce}.{signature}`, in hexadecimal digits.
//! It ends by its own word at every instance, and with the token; no instance can end it before.
//!
//! A thief of a session could try tokens against its signature at leisure. A long random token stands that,
//! as it does guesses.

use std::time::Duration;

use counter_core::Timestamp;
use hmac::{Hmac, Mac};
use sha2::Sha256;

/// Signs sessions with one token, and knows them again.
#[derive(Clone)]
pub(crate) struct Sessions(Hmac<Sha256>);

/// A session whose signature may be anybody's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Claim<'a> {
    /// The signed part.
    body: &'a str,
    signature: [u8; 32],
    end: Timestamp,
}

/// Left in a request that came in by a session.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LoggedIn;

/// A beginning that nothing else signed with the token has.
const LABEL: &[u8] = b"counter-layer admin session 1:";

const BODY: usize = 16 + 1 + 32;
const SIGNATURE: usize = 64;

impl Sessions {
    pub(crate) fn new(token: &str) -> Self {
        let key = Hmac::<Sha256>::new_from_slice(token.as_bytes()).expect("a key of any length will do");
        Self(key.chain_update(LABEL))
    }

    /// A session from now on; none when the operating system has no randomness to give.
    pub(crate) fn begin(&self, now: Timestamp, lifetime: Duration) -> Option<String> {
        // A session is not guessed by guessing a token, even when it is known when the session began.
        let mut nonce = [0; 16];
        getrandom::fill(&mut nonce).ok()?;
        let end = now.plus(lifetime.as_secs()).as_unix();
        let body = format!("{end:016x}.{:032x}", u128::from_be_bytes(nonce));
        let signature = write_signature(self.0.clone().chain_update(&body));
        Some(format!("{body}.{signature}"))
    }

    /// Returns `true` if the session was signed with this token.
    pub(crate) fn signed(&self, claim: &Claim<'_>) -> bool {
        // It compares in constant time.
        self.0.clone().chain_update(claim.body).verify_slice(&claim.signature).is_ok()
    }
}

impl<'a> Claim<'a> {
    /// Reads a session that is not over.
    pub(crate) fn read(text: &'a str, now: Timestamp) -> Option<Self> {
        let (body, signature) = text.split_at_checked(BODY)?;
        let signature = read_signature(signature.strip_prefix('.')?)?;
        let (end, nonce) = body.split_once('.').filter(|(end, _)| end.len() == 16)?;
        if ![end, nonce].into_iter().all(has_digits) {
            return None;
        }
        let end = Timestamp::from_unix(u64::from_str_radix(end, 16).ok()?);
        Some(Self { body, signature, end }).filter(|claim| now < claim.end)
    }

    pub(crate) const fn end(&self) -> Timestamp {
        self.end
    }
}

/// Writes a signature in hexadecimal digits.
pub(super) fn write_signature(signed: Hmac<Sha256>) -> String {
    let signature: [u8; 32] = signed.finalize().into_bytes().into();
    let (halves, _) = signature.as_chunks::<16>();
    let [high, low] = [halves[0], halves[1]].map(u128::from_be_bytes);
    format!("{high:032x}{low:032x}")
}

/// Reads a signature, of which there is one form only.
pub(super) fn read_signature(text: &str) -> Option<[u8; 32]> {
    let text = Some(text).filter(|text| text.len() == SIGNATURE && has_digits(text))?;
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

    fn knows(token: &str, session: &str, now: Timestamp) -> bool {
        Claim::read(session, now).is_some_and(|claim| Sessions::new(token).signed(&claim))
    }

    #[test]
    fn a_session_is_known_by_its_token_until_its_end() {
        let session = Sessions::new("a").begin(NOON, HOUR).expect("there is randomness");
        for (token, now, known) in [
            ("a", NOON, true),
            ("a", NOON.plus(3599), true),
            ("a", NOON.plus(3600), false),
            ("a", NOON.plus(86_400), false),
            // Of an instance whose clock is ahead.
            ("a", NOON.minus(60), true),
            ("b", NOON, false),
            ("", NOON, false),
        ] {
            assert_eq!(knows(token, &session, now), known, "{token} at {now}");
        }
    }

    #[test]
    fn no_other_text_is_a_session() {
        let session = Sessions::new("a").begin(NOON, HOUR).expect("there is randomness");
        assert!(knows("a", &session, NOON));
        for place in 0..session.len() {
            for other in ['0', 'f', '.', 'F', '+', ' '] {
                let mut changed: Vec<_> = session.chars().collect();
                if std::mem::replace(&mut changed[place], other) != other {
                    let changed: String = changed.into_iter().collect();
                    assert!(!knows("a", &changed, NOON), "{changed}");
                }
            }
        }
        for text in ["", ".", "..", &session[1..], &session[..113], &format!("{session}0"), &"é".repeat(57)]
        {
            assert_eq!(Claim::read(text, NOON), None, "{text}");
        }
    }

    #[test]
    fn two_sessions_are_never_the_same_and_say_nothing_of_the_token() {
        let sessions = Sessions::new("a-token");
        let [one, other] = [0, 1].map(|_| sessions.begin(NOON, HOUR).expect("there is randomness"));
        assert_ne!(one, other);
        assert!(!one.contains("a-token"));
    }
}
