//! User agents: those of browsers and those of programs.

use std::hash::BuildHasher;
use std::sync::atomic::{AtomicU64, Ordering};

use aho_corasick::automaton::Automaton;
use aho_corasick::dfa::DFA;
use aho_corasick::{Input, MatchKind};
use counter_core::visitor::VisitorKey;
use counter_core::visits::Agent;
use foldhash::quality::RandomState;
use http::{HeaderMap, HeaderValue, header};

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
    words: DFA,
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

/// Words by which programs name themselves, and by which they point to a page about them.
const PROGRAMS: [&str; 17] = [
    "bot",
    "crawl",
    "spider",
    "http",
    "www.",
    "@",
    "headless",
    "lighthouse",
    "preview",
    "monitor",
    "check",
    "inspect",
    "synthetic",
    "ptst",
    "pingdom",
    "google-",
    "-user/",
];

/// Engines of browsers, old ones too, and what apps are built on. The last is a make of phones: it stands
/// left of the `bot` in it, so that one is never looked at.
const BROWSERS: [&str; 20] = [
    "gecko",
    "webkit",
    "msie",
    "trident",
    "opera",
    "presto",
    "konqueror",
    "links (",
    "lynx",
    "w3m",
    "dillo",
    "netsurf",
    "cfnetwork",
    "dalvik",
    "icab",
    "netfront",
    "mosaic",
    "omniweb",
    "goanna",
    "cubot",
];

/// No more of a user agent is looked at.
const LOOKED_AT: usize = 1024;

impl Default for UserAgents {
    fn default() -> Self {
        // What `AhoCorasick` would choose for so few words; it has all kinds of automata compiled.
        let words = DFA::builder()
            .ascii_case_insensitive(true)
            .match_kind(MatchKind::LeftmostFirst)
            .build(PROGRAMS.iter().chain(&BROWSERS))
            .expect("an automaton of a few short words is small");
        // Nothing hashes to a place that is not its own, so 0 in it is not taken for an answer; in the
        // first place it could be, and so begins as one that belongs elsewhere.
        let empty = |place| Place {
            known: AtomicU64::new(0),
            check: AtomicU64::new(if place == 0 { u64::MAX } else { 0 }),
        };
        Self { words, hasher: RandomState::default(), places: (0..PLACES).map(empty).collect() }
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
        UserAgent { agent: agent(&self.words, text), digest: Digest::of(text) }
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

fn text(headers: &HeaderMap) -> &[u8] {
    headers.get(header::USER_AGENT).map_or(b"", HeaderValue::as_bytes)
}

/// Without a word of either kind it is a program: all browsers name their engine.
fn agent(words: &DFA, user_agent: &[u8]) -> Agent {
    let mut agent = Agent::Bot;
    let looked_at = Input::new(&user_agent[..user_agent.len().min(LOOKED_AT)]);
    for found in words.try_find_iter(looked_at).into_iter().flatten() {
        if found.pattern().as_usize() < PROGRAMS.len() {
            return Agent::Bot;
        }
        agent = Agent::Human;
    }
    agent
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    const FIREFOX: &str = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0";

    fn check(user_agents: &[&str], expected: Agent) {
        let known = UserAgents::default();
        for user_agent in user_agents {
            let request = Request::get("/").header(header::USER_AGENT, *user_agent).body(());
            let found = known.of(request.expect("a request").headers());
            assert_eq!(found.agent, expected, "{user_agent}");
        }
    }

    #[test]
    fn people_come_with_browsers_and_apps() {
        let people = [
            FIREFOX,
            "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/138.0.0.0 Safari/537.36",
            "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/138.0.0.0 Safari/537.36 Edg/138.0.0.0",
            "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.5 Safari/605.1.15",
            "Mozilla/5.0 (iPhone; CPU iPhone OS 18_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.5 Mobile/15E148 Safari/604.1",
            "Mozilla/5.0 (Linux; Android 10; K) AppleWebKit/537.36 (KHTML, like Gecko) SamsungBrowser/28.0 Chrome/130.0.0.0 Mobile Safari/537.36",
            "Mozilla/5.0 (Linux; Android 9; CUBOT_X19 Build/PPR1.180610.011; wv) AppleWebKit/537.36 (KHTML, like Gecko) Version/4.0 Chrome/119.0.0.0 Mobile Safari/537.36",
            "Mozilla/5.0 (Windows NT 10.0; WOW64; Trident/7.0; rv:11.0) like Gecko",
            "Mozilla/4.0 (compatible; MSIE 6.0; Windows NT 5.1)",
            "Opera/9.80 (Windows NT 6.1; WOW64) Presto/2.12.388 Version/12.18",
            "Links (2.29; Linux 6.1.0-13-amd64 x86_64; GNU C 12.2; text)",
            "Lynx/2.9.0 libwww-FM/2.14 SSL-MM/1.4.1 OpenSSL/3.2.1",
            "Dalvik/2.1.0 (Linux; U; Android 14; Pixel 8 Build/UQ1A.240105.004)",
            "News/1234 CFNetwork/1494.0.7 Darwin/23.4.0",
        ];
        check(&people, Agent::Human);
    }

    #[test]
    fn bots_say_so_or_name_no_engine() {
        let bots = [
            "",
            "Mozilla/5.0",
            "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)",
            "Mozilla/5.0 (Linux; Android 6.0.1; Nexus 5X Build/MMB29P) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/138.0.0.0 Mobile Safari/537.36 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)",
            "Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; BINGBOT/2.0) Chrome/116.0.1938.76 Safari/537.36",
            "Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; GPTBot/1.2; +https://openai.com/gptbot)",
            "Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; Claude-User/1.0; +Claude-User@anthropic.com)",
            "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) HeadlessChrome/138.0.0.0 Safari/537.36",
            "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/138.0.7204.168 Safari/537.36 DatadogSynthetics",
            "Mozilla/5.0 (compatible; Yahoo! Slurp; http://help.yahoo.com/help/us/ysearch/slurp)",
            "facebookexternalhit/1.1",
            "WhatsApp/2.23.20.0",
            "curl/8.5.0",
            "Wget/1.21.4",
            "python-requests/2.32.3",
            "Go-http-client/2.0",
            "okhttp/4.12.0",
            "kube-probe/1.30",
            "SomeSPIDER 1.0",
        ];
        check(&bots, Agent::Bot);
    }

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

    #[test]
    fn no_more_than_a_kibibyte_of_a_user_agent_is_looked_at() {
        let (near, far) = ("x".repeat(1024 - "gecko".len()), "x".repeat(1024));
        check(&[&format!("{near}gecko"), &format!("{FIREFOX}{far}bot")], Agent::Human);
        check(&[&format!("{near}xgecko"), &format!("{far}gecko")], Agent::Bot);
    }
}
