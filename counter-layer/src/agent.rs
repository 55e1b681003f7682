//! Who makes a request: a person with a browser, or a program.

use std::hash::BuildHasher;
use std::sync::atomic::{AtomicU64, Ordering};

use aho_corasick::{AhoCorasick, MatchKind};
use counter_core::Agent;
use foldhash::quality::RandomState;
use http::{HeaderMap, HeaderValue, header};

use crate::RequestHead;

/// What tells who makes a request.
pub(crate) enum Agents {
    ByWords(ByWords),
    Closure(Box<AgentFn>),
}

type AgentFn = dyn Fn(&RequestHead<'_>) -> Agent + Send + Sync;

/// The words in the user agent.
pub(crate) struct ByWords {
    words: AhoCorasick,
    answers: Answers,
}

/// What programs call themselves, and where they say that one can read about them.
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

impl Agents {
    pub(crate) fn by_words() -> Self {
        let words = AhoCorasick::builder()
            .ascii_case_insensitive(true)
            .match_kind(MatchKind::LeftmostFirst)
            .build(PROGRAMS.iter().chain(&BROWSERS))
            .expect("an automaton of a few short words is small");
        Self::ByWords(ByWords { words, answers: Answers::new() })
    }

    /// Who makes a request with this user agent.
    pub(crate) fn of(&self, head: &RequestHead<'_>, user_agent: &[u8]) -> Agent {
        match self {
            Self::ByWords(ByWords { words, answers }) => answers.of(user_agent, |text| agent(words, text)),
            Self::Closure(closure) => closure(head),
        }
    }
}

/// What a request calls its program; looking a header up takes as long as counting a hit, so it is done
/// once for all who ask.
pub(crate) fn user_agent(headers: &HeaderMap) -> &[u8] {
    headers.get(header::USER_AGENT).map_or(b"", HeaderValue::as_bytes)
}

/// The answers about user agents that came lately: the words of one take ten times as long as its hash,
/// and most requests come with one of a few.
struct Answers {
    hasher: RandomState,
    /// In each place the hash of a user agent, its lowest bit replaced by whether that is a bot. A wrong
    /// answer would take two user agents with the same 63 bits, under a secret that nobody knows.
    places: Box<[AtomicU64]>,
}

/// A power of two. Of a hundred user agents in as many places as this, five share theirs with another.
const PLACES: usize = 1024;

impl Answers {
    fn new() -> Self {
        // Nothing hashes to a place that is not its own, so 0 in it is not taken for an answer; in the
        // first place it could be, and so begins as one that belongs elsewhere.
        let empty = |place| AtomicU64::new(if place == 0 { u64::MAX } else { 0 });
        Self { hasher: RandomState::default(), places: (0..PLACES).map(empty).collect() }
    }

    fn of(&self, user_agent: &[u8], find: impl FnOnce(&[u8]) -> Agent) -> Agent {
        let hash = self.hasher.hash_one(user_agent);
        let place = &self.places[usize::try_from(hash >> 32).map_or(0, |high| high % PLACES)];
        let known = place.load(Ordering::Relaxed);
        if known | 1 == hash | 1 {
            return if known & 1 == 1 { Agent::Bot } else { Agent::Human };
        }
        let agent = find(user_agent);
        place.store(hash & !1 | u64::from(agent == Agent::Bot), Ordering::Relaxed);
        agent
    }
}

/// Without a word of either kind it is a program: all browsers name their engine.
fn agent(words: &AhoCorasick, user_agent: &[u8]) -> Agent {
    let mut agent = Agent::Bot;
    for found in words.find_iter(&user_agent[..user_agent.len().min(LOOKED_AT)]) {
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
        let agents = Agents::by_words();
        for user_agent in user_agents {
            let request = Request::get("/").header(header::USER_AGENT, *user_agent).body(());
            let request = request.expect("a request");
            let found = agents.of(&RequestHead::of(&request), self::user_agent(request.headers()));
            assert_eq!(found, expected, "{user_agent}");
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
    fn an_answer_is_found_again_and_never_that_about_another() {
        let (answers, mut asked) = (Answers::new(), 0);
        let mut ask = |n: u32| {
            answers.of(&n.to_le_bytes(), |_| {
                asked += 1;
                if n.is_multiple_of(2) { Agent::Bot } else { Agent::Human }
            })
        };
        for n in 0..100_000_u32 {
            let expected = if n.is_multiple_of(2) { Agent::Bot } else { Agent::Human };
            assert_eq!([ask(n), ask(n), ask(n / 2 * 2)], [expected, expected, Agent::Bot]);
        }
        assert!(asked < 200_000, "{asked}");
    }

    #[test]
    fn who_sends_no_user_agent_is_a_bot() {
        let request = Request::get("/").body(()).expect("a request");
        let found = Agents::by_words().of(&RequestHead::of(&request), user_agent(request.headers()));
        assert_eq!(found, Agent::Bot);
    }

    #[test]
    fn no_more_than_a_kibibyte_of_a_user_agent_is_looked_at() {
        let (near, far) = ("x".repeat(1024 - "gecko".len()), "x".repeat(1024));
        check(&[&format!("{near}gecko"), &format!("{FIREFOX}{far}bot")], Agent::Human);
        check(&[&format!("{near}xgecko"), &format!("{far}gecko")], Agent::Bot);
    }
}
