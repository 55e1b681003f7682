//! Recent user agents, with what was found in them.

use std::hash::BuildHasher;
use std::sync::atomic::{AtomicU64, Ordering};

use counter_core::visitor::VisitorKey;
use counter_core::visits::Agent;
use foldhash::quality::RandomState;
use http::{HeaderMap, HeaderValue, header};

use crate::classify::agent::Signs;

/// The facts that are taken from a user agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UserAgent {
    pub(crate) agent: Agent,
    pub(crate) digest: Digest,
}

/// A hash in the place of a user agent where visitors are told apart: 63 bits, the same in every process.
///
/// A client that makes a user agent with the digest of another could as well send the other's, so it needs no
/// secret; the visitor is hashed with one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Digest(u64);

/// A cache of recent user agents: to classify and hash one takes twenty times as long as to find it here, and
/// most requests come with one of a few.
pub(crate) struct UserAgents {
    signs: Signs,
    hasher: RandomState,
    places: Box<[Place]>,
}

/// The digest of a user agent, with its lowest bit for a bot, and the same combined with the hash of its text:
/// so what two threads write at once is never found. A wrong answer would take two texts with one hash, under a
/// seed that is not known.
struct Place {
    known: AtomicU64,
    check: AtomicU64,
}

/// 64 KB. Of a hundred user agents two or three share their place with another, and are looked through when they
/// alternate.
const PLACES: usize = 4096;

impl Default for UserAgents {
    fn default() -> Self {
        // Nothing hashes to a place that is not its own, so 0 in it is not taken for an answer; in the
        // first place it could be, and so begins as one that belongs elsewhere.
        let empty = |place| Place {
            known: AtomicU64::new(0),
            check: AtomicU64::new(if place == 0 { u64::MAX } else { 0 }),
        };
        Self {
            signs: Signs::default(),
            hasher: RandomState::default(),
            places: (0..PLACES).map(empty).collect(),
        }
    }
}

impl UserAgents {
    /// The facts of the user agent in these headers.
    #[inline]
    pub(crate) fn of(&self, headers: &HeaderMap) -> UserAgent {
        self.find(text(headers), |text| self.look(text))
    }

    // In the place where it is called it would be in the way of what nearly always happens.
    #[cold]
    fn look(&self, text: &[u8]) -> UserAgent {
        UserAgent { agent: self.signs.agent(text), digest: Digest::of(text) }
    }

    #[inline]
    fn find(&self, text: &[u8], look: impl FnOnce(&[u8]) -> UserAgent) -> UserAgent {
        let hash = self.hasher.hash_one(text);
        let place = &self.places[usize::try_from(hash >> 32).map_or(0, |high| high % PLACES)];
        let known = place.known.load(Ordering::Relaxed);
        if known ^ place.check.load(Ordering::Relaxed) == hash {
            let agent = if known & 1 == 1 { Agent::Bot } else { Agent::Human };
            return UserAgent { agent, digest: Digest(known >> 1) };
        }
        let found = look(text);
        place.keep(hash, found);
        found
    }
}

impl Place {
    #[cold]
    fn keep(&self, hash: u64, found: UserAgent) {
        let known = found.digest.0 << 1 | u64::from(found.agent == Agent::Bot);
        self.known.store(known, Ordering::Relaxed);
        self.check.store(known ^ hash, Ordering::Relaxed);
    }
}

impl Digest {
    /// The digest of the user agent in these headers, where nothing else is needed.
    #[cfg(feature = "limit")]
    pub(crate) fn of_request(headers: &HeaderMap) -> Self {
        Self::of(text(headers))
    }

    fn of(text: &[u8]) -> Self {
        let hash = VisitorKey::new(*b"of a user agent.").visitor(&[text]);
        let [low, ..] = hash.as_bytes().as_chunks::<8>().0 else { unreachable!("it has sixteen bytes") };
        Self(u64::from_le_bytes(*low) >> 1)
    }

    pub(crate) const fn to_le_bytes(self) -> [u8; 8] {
        self.0.to_le_bytes()
    }
}

/// The number of headers in front that are looked through. Most libraries, Firefox and the proxies that are written in Go
/// send the user agent second; pages of Chromium have it fifth to eighth, and eleventh behind nginx.
const IN_FRONT: usize = 12;

// To hash the name and to probe for it takes as long as looking at seven names.
#[inline]
fn text(headers: &HeaderMap) -> &[u8] {
    let in_front = headers.iter().take(IN_FRONT).find(|(name, _)| **name == header::USER_AGENT);
    let found = in_front.map(|(_, value)| value).or_else(|| headers.get(header::USER_AGENT));
    found.map_or(b"", HeaderValue::as_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_known_is_found_again_and_never_that_of_another() {
        let (known, mut looked) = (UserAgents::default(), 0);
        let of = |n: u32| {
            let agent = if n.is_multiple_of(2) { Agent::Bot } else { Agent::Human };
            UserAgent { agent, digest: Digest::of(&n.to_le_bytes()) }
        };
        let mut find = |n: u32| {
            known.find(&n.to_le_bytes(), |_| {
                looked += 1;
                of(n)
            })
        };
        for n in 0..100_000_u32 {
            assert_eq!([find(n), find(n), find(n / 2 * 2)], [of(n), of(n), of(n / 2 * 2)]);
        }
        assert!(looked < 200_000, "{looked}");
    }

    #[test]
    fn who_sends_no_user_agent_is_a_bot() {
        assert_eq!(UserAgents::default().of(&HeaderMap::new()).agent, Agent::Bot);
    }
}
