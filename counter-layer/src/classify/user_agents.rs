//! A cache of recent user agents.

use counter_core::visitor::VisitorKey;
use counter_core::visits::Agent;
use http::{HeaderMap, HeaderValue, header};

use crate::classify::agent::AgentMatcher;
use crate::classify::plain::{MAX_SCANNED_BYTES, plain};
use crate::recent::Recent;
use crate::request;

/// The kind of client, and a hash of the user agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UserAgent {
    pub(crate) agent: Agent,
    pub(crate) digest: Digest,
}

/// A 63-bit hash to identify visitors by user agent, which is the same in every process.
///
/// This does not need a secret: instead of searching for a user agent with the same digest, a client could
/// just send the original user agent. The visitor is hashed with a secret.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Digest(u64);

/// A cache for the properties of recent user agents. Classifying and hashing a user agent takes twenty times
/// as long as a lookup, and most requests use the same few user agents.
#[derive(Default)]
pub(crate) struct UserAgents {
    matcher: AgentMatcher,
    recent: Recent,
}

impl UserAgent {
    /// A user agent that was not recorded, so that the visitor is the address alone.
    pub(crate) const UNKNOWN: Self = Self { agent: Agent::Unknown, digest: Digest(0) };
}

impl UserAgents {
    /// Returns the kind of client and the hash for the user agent in the request headers.
    #[inline]
    pub(crate) fn of(&self, headers: &HeaderMap) -> UserAgent {
        let text = text(headers);
        let number = self.recent.number(text, 0, || self.classify(text));
        let agent = if number & 1 == 1 { Agent::Bot } else { Agent::Human };
        UserAgent { agent, digest: Digest(number >> 1) }
    }

    /// Classifies a user agent. The lowest bit is set for bots, the other bits are the digest.
    // Not inlined, because we want to keep the common path short.
    #[cold]
    fn classify(&self, text: &[u8]) -> u64 {
        let agent = self.matcher.agent(plain(text, &mut [0; MAX_SCANNED_BYTES]));
        Digest::of(text).0 << 1 | u64::from(agent == Agent::Bot)
    }
}

impl Digest {
    fn of(text: &[u8]) -> Self {
        let hash = VisitorKey::new(*b"of a user agent.").visitor(&[text]);
        let [low, ..] = hash.as_bytes().as_chunks::<8>().0 else { unreachable!("it has sixteen bytes") };
        Self(u64::from_le_bytes(*low) >> 1)
    }

    pub(crate) const fn to_le_bytes(self) -> [u8; 8] {
        self.0.to_le_bytes()
    }
}

#[inline]
fn text(headers: &HeaderMap) -> &[u8] {
    let leading_header = request::leading_header(headers, |name| *name == header::USER_AGENT);
    leading_header.or_else(|| headers.get(header::USER_AGENT)).map_or(b"", HeaderValue::as_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cached_user_agent_yields_the_same_facts() {
        let known = UserAgents::default();
        for (text, agent) in
            [("Mozilla/5.0 Gecko/20100101 Firefox/140.0", Agent::Human), ("curl/8", Agent::Bot)]
        {
            let headers = HeaderMap::from_iter([(header::USER_AGENT, HeaderValue::from_static(text))]);
            let facts = UserAgent { agent, digest: Digest::of(text.as_bytes()) };
            assert_eq!([known.of(&headers), known.of(&headers)], [facts; 2]);
        }
    }

    #[test]
    fn an_encoded_user_agent_is_decoded() {
        let known = UserAgents::default();
        for (text, agent) in [
            (
                "Mozilla%2F5.0%20(Linux%3B%20Android%209%3B%20CUBOT_X19)%20Gecko%20Firefox%2F140.0",
                Agent::Human,
            ),
            (
                "Mozilla/5.0%20(X11;%20Linux)%20AppleWebKit/537.36%20(KHTML,%20like%20Gecko)%20Chrome/1",
                Agent::Human,
            ),
            ("Mozilla%2F5.0%20(X11%3B%20Linux)%20Gecko%20Firefox%2F140.0%20Feedly%2F1.0", Agent::Bot),
        ] {
            let headers = HeaderMap::from_iter([(header::USER_AGENT, HeaderValue::from_static(text))]);
            assert_eq!(known.of(&headers).agent, agent, "{text}");
        }
    }

    #[test]
    fn a_missing_user_agent_is_a_bot() {
        assert_eq!(UserAgents::default().of(&HeaderMap::new()).agent, Agent::Bot);
    }
}
