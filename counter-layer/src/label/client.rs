//! Detects device and browser by words in the user agent.

use aho_corasick::automaton::Automaton;
use aho_corasick::dfa::DFA;
use aho_corasick::{Anchored, Match, MatchKind};
use counter_core::visits::Agent;

use super::value::Value;
use crate::classify::plain;

/// Maximum number of bytes of a user agent to scan. The rest is ignored.
const MAX_SCANNED_BYTES: usize = 512;

/// An automaton to find device and browser words in a single pass over the user agent.
pub(super) struct Words {
    words: DFA,
    /// Row in [`WORDS`] for each word. The words found are a bit set of these rows.
    rows: Box<[u8]>,
}

/// A client, as described by its user agent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Client {
    agent: Agent,
    found: u32,
}

/// Words, separated by bars, and the meaning. If two words start at the same position, the first in this list
/// wins.
const WORDS: [(Marker, &str); 19] = [
    // Sent by Internet Explorer on machines with a pen.
    (Marker::Ignored, "tablet pc"),
    (
        Marker::Tv,
        "smart-tv|smarttv|smart_tv|hbbtv|appletv|apple tv|googletv|google tv|android tv|bravia|web0s|netcast|roku|crkey",
    ),
    (Marker::Console, "playstation|xbox|nintendo"),
    (Marker::Tablet, "ipad|tablet|kindle|silk/|playbook"),
    (
        Marker::Mobile,
        "mobile|mobi|iphone|ipod|windows phone|iemobile|opera mini|midp|symbian|blackberry|bb10|kaios|nokia",
    ),
    (Marker::Android, "android"),
    (Marker::Desktop, "windows|macintosh|mac os x|x11|linux|cros "),
    (Marker::Edge, "edg/|edge/|edga/|edgios/"),
    (Marker::Opera, "opr/|opera|opios/|opt/"),
    (Marker::Samsung, "samsungbrowser"),
    (Marker::Uc, "ucbrowser|ucweb"),
    (Marker::Yandex, "yabrowser"),
    (Marker::Vivaldi, "vivaldi"),
    (Marker::DuckDuckGo, "duckduckgo|ddg/"),
    (Marker::Firefox, "firefox|fxios"),
    (Marker::InternetExplorer, "msie|trident"),
    (Marker::Chrome, "chrome|chromium|crios"),
    (Marker::Safari, "safari"),
    // Only Apple's engine has such a version. In apps, this is all that is left of the browser.
    (Marker::WebKit, "applewebkit/6|like mac os x"),
];

/// The meaning of a word, i.e. the row in [`WORDS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Marker {
    Ignored,
    Tv,
    Console,
    Tablet,
    Mobile,
    Android,
    Desktop,
    Edge,
    Opera,
    Samsung,
    Uc,
    Yandex,
    Vivaldi,
    DuckDuckGo,
    Firefox,
    InternetExplorer,
    Chrome,
    Safari,
    WebKit,
}

/// Values of the browser label. A browser that also names another browser comes before that browser.
const BROWSERS: [(Marker, &str); 12] = [
    (Marker::Edge, "edge"),
    (Marker::Opera, "opera"),
    (Marker::Samsung, "samsung"),
    (Marker::Uc, "uc"),
    (Marker::Yandex, "yandex"),
    (Marker::Vivaldi, "vivaldi"),
    (Marker::DuckDuckGo, "duckduckgo"),
    (Marker::Firefox, "firefox"),
    (Marker::InternetExplorer, "internet-explorer"),
    (Marker::Chrome, "chrome"),
    (Marker::Safari, "safari"),
    (Marker::WebKit, "safari"),
];

/// Values of the device label, by precedence.
const DEVICES: [(Marker, &str); 6] = [
    (Marker::Tv, "tv"),
    (Marker::Console, "console"),
    (Marker::Tablet, "tablet"),
    (Marker::Mobile, "mobile"),
    // Android phones always include `mobile`.
    (Marker::Android, "tablet"),
    (Marker::Desktop, "desktop"),
];

/// The value of the device and browser labels for bots.
const BOT: &str = "bot";

impl Default for Words {
    fn default() -> Self {
        let words =
            || (0..).zip(WORDS).flat_map(|(row, (_, words))| words.split('|').map(move |word| (row, word)));
        let automaton = DFA::builder()
            .ascii_case_insensitive(true)
            .match_kind(MatchKind::LeftmostFirst)
            .build(words().map(|(_, word)| word))
            .expect("an automaton of a few short words is small");
        Self { words: automaton, rows: words().map(|(row, _)| row).collect() }
    }
}

impl Words {
    pub(super) fn client(&self, user_agent: &[u8], agent: Agent) -> Client {
        let mut found = 0;
        if agent != Agent::Bot {
            let mut buffer = [0; MAX_SCANNED_BYTES];
            let text = plain(user_agent, &mut buffer);
            let text = &text[..text.len().min(MAX_SCANNED_BYTES)];
            let input = aho_corasick::Input::new(text).anchored(Anchored::No);
            let mut rest = input.clone();
            while let Ok(Some(word)) = self.words.try_find(&rest) {
                let row = self.rows[word.pattern().as_usize()];
                found |= u32::from(is_word(text, &word)) << row;
                rest.set_start(word.end());
            }
        }
        Client { agent, found }
    }
}

/// Returns `true` unless this is part of a longer word, like `tablet` in `Tabletop`, or `edge/` in `Knowledge/1.0`.
fn is_word(text: &[u8], word: &Match) -> bool {
    let is_inside = |at: usize| {
        let [before, after] = [at.wrapping_sub(1), at].map(|at| text.get(at).copied().unwrap_or_default());
        let are_letters = before.is_ascii_alphabetic() && after.is_ascii_alphabetic();
        are_letters && before.is_ascii_lowercase() == after.is_ascii_lowercase()
    };
    !is_inside(word.start()) && !is_inside(word.end())
}

impl Client {
    pub(super) fn device(self) -> Value<'static> {
        self.first(&DEVICES)
    }

    pub(super) fn browser(self) -> Value<'static> {
        self.first(&BROWSERS)
    }

    fn first(self, of: &[(Marker, &'static str)]) -> Value<'static> {
        if self.agent == Agent::Bot {
            return Value::Text(BOT);
        }
        let first = of.iter().find(|(marker, _)| self.found & 1 << *marker as u32 != 0);
        first.map_or(Value::Other, |(_, name)| Value::Text(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_in_marker_order() {
        assert!((0..).zip(WORDS).all(|(row, (marker, _))| marker as u32 == row));
    }

    /// Checks the device and the browser of user agents.
    fn check(cases: &[(&str, &'static str, &'static str)]) {
        let words = Words::default();
        for (user_agent, device, browser) in cases {
            let client = words.client(user_agent.as_bytes(), Agent::Human);
            assert_eq!(
                (client.device(), client.browser()),
                (Value::Text(device), Value::Text(browser)),
                "{user_agent}"
            );
        }
    }

    #[test]
    fn user_agents_determine_device_and_browser() {
        check(&[
            (
                "Mozilla/5.0 (Windows NT 10.0; Win64; x64; rv:140.0) Gecko/20100101 Firefox/140.0",
                "desktop",
                "firefox",
            ),
            (
                "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/138.0.0.0 Safari/537.36 Edg/138.0.0.0",
                "desktop",
                "edge",
            ),
            (
                "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.5 Safari/605.1.15",
                "desktop",
                "safari",
            ),
            (
                "Mozilla/5.0 (iPhone; CPU iPhone OS 18_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) CriOS/138.0.7204.53 Mobile/15E148 Safari/604.1",
                "mobile",
                "chrome",
            ),
            (
                "Mozilla/5.0 (Linux; Android 10; K) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/138.0.0.0 Mobile Safari/537.36",
                "mobile",
                "chrome",
            ),
            (
                "Mozilla/5.0 (Linux; Android 10; K) AppleWebKit/537.36 (KHTML, like Gecko) SamsungBrowser/28.0 Chrome/130.0.0.0 Safari/537.36",
                "tablet",
                "samsung",
            ),
            (
                "Mozilla/5.0 (iPad; CPU OS 12_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/12.1 Mobile/15E148 Safari/604.1",
                "tablet",
                "safari",
            ),
            (
                "Mozilla/5.0 (SMART-TV; Linux; Tizen 7.0) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/94.0.4606.31 TV Safari/537.36",
                "tv",
                "chrome",
            ),
            (
                "Mozilla/5.0 (PlayStation; PlayStation 5/6.00) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/15.4 Safari/605.1.15",
                "console",
                "safari",
            ),
            (
                "Mozilla/4.0 (compatible; MSIE 8.0; Windows NT 6.1; Tablet PC 2.0)",
                "desktop",
                "internet-explorer",
            ),
        ]);
    }

    #[test]
    fn a_word_within_a_longer_word_is_ignored() {
        check(&[
            (
                "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/138.0.0.0 Safari/537.36 Tabletop Simulator",
                "desktop",
                "chrome",
            ),
            (
                "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/138.0.0.0 Safari/537.36 Knowledge/1.0 Automobile/2.0 Operator/1",
                "desktop",
                "chrome",
            ),
            ("Mozilla/5.0 (Android 14; Tablet; rv:140.0) Gecko/140.0 Firefox/140.0", "tablet", "firefox"),
            (
                "Mozilla%2F5.0%20(Windows%20NT%2010.0)%20AppleWebKit%2F537.36%20Chrome%2F138.0.0.0%20Safari%2F537.36%20Edg%2F138.0",
                "desktop",
                "edge",
            ),
            ("MobileSafari/8618.2 CFNetwork/1494.0.7 Darwin/23.4.0", "mobile", "safari"),
        ]);
    }

    #[test]
    fn browsers_in_apps_have_the_name_of_the_browser_of_the_system() {
        check(&[
            (
                "Mozilla/5.0 (iPhone; CPU iPhone OS 18_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Mobile/15E148 [LinkedInApp]/9.29",
                "mobile",
                "safari",
            ),
            (
                "Mozilla/5.0 (iPad; CPU OS 6_1 like Mac OS X) AppleWebKit/536.26 (KHTML, like Gecko) Mobile/10B329",
                "tablet",
                "safari",
            ),
            (
                "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko)",
                "desktop",
                "safari",
            ),
            (
                "Mozilla/5.0 (iPhone; CPU iPhone OS 18_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.5 Mobile/15E148 DuckDuckGo/7 Safari/605.1.15",
                "mobile",
                "duckduckgo",
            ),
        ]);
    }

    #[test]
    fn bots_and_unknown_programs_have_no_browser() {
        let words = Words::default();
        let bot = words.client(b"Mozilla/5.0 (Windows NT 10.0) Firefox/1.0", Agent::Bot);
        assert_eq!((bot.device(), bot.browser()), (Value::Text("bot"), Value::Text("bot")));
        let unknown = words.client(b"Lynx/2.9", Agent::Human);
        assert_eq!((unknown.device(), unknown.browser()), (Value::Other, Value::Other));
    }
}
