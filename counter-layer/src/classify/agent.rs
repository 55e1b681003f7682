//! Distinguishes bots from people with browsers and apps, based on the user agent.

use aho_corasick::automaton::{Automaton, StateID};
use aho_corasick::dfa::DFA;
use aho_corasick::{Anchored, MatchKind};
use counter_core::visits::Agent;

use crate::classify::bots::BotNames;
use crate::classify::plain::MAX_SCANNED_BYTES;

/// An automaton to find the words of bots and browsers in a single pass over the user agent.
pub(crate) struct AgentMatcher {
    words: DFA,
    start: StateID,
    /// The meaning of each word, by pattern id of the automaton.
    markers: Box<[Marker]>,
    /// Finds names that don't contain any of these words.
    names: BotNames,
}

/// A word found in a user agent.
struct Found {
    marker: Marker,
    start: usize,
    end: usize,
}

/// The meaning of a word in a user agent.
#[derive(Clone, Copy, Debug)]
enum Marker {
    /// A browser or an app, or a device used only by people.
    Person,
    /// A bot, even if the word is part of a device name. Usually the start of a web or mail address.
    Address,
    /// A bot, if this top-level domain is the end of a host name.
    Host,
    /// A bot, unless the word is part of a device name.
    Bot,
    /// An engine used by different browsers.
    Engine,
    /// A bot at the start: an app that fetches a preview. Otherwise this is a browser in the app.
    Preview,
    /// A bot if an engine comes first, since a browser with an engine does not need to be compatible.
    Compatible,
    /// Android. The rest of the comment is the device name, which can contain any word.
    Android,
    /// A phone or tablet, or another name that browsers add with no version.
    Mobile,
    /// The product at the end of the part shared by all browsers of an engine.
    Safari,
}

/// Words, separated by bars. If two words start at the same position, the first in this list wins.
const WORDS: [(Marker, &str); 13] = [
    // Parts of browser user agents that contain a bot word.
    (
        Marker::Person,
        "http://bsalsa.com|user-agent: mozilla|user-agent=mozilla|user-agent\tmozilla|compatible; msie\
        |khtml, like gecko, safari|khtml, like gecko, hevc|khtml, like gecko; googleweblight\
        |khtml, like gecko; version|android@|ios@|http pgdl|https)|https;|agentweb/|botech|masking-agent\
        |technology%20preview",
    ),
    (Marker::Address, "http:|https:|www.|(at)|[at]|bot/|googlebot|-google"),
    (Marker::Host, ".com|.net|.org|.io|.ai|.co|.dev"),
    // Kinds and activities of bots.
    (
        Marker::Bot,
        "agent|alert|analy|archiv|audit|automat|availab|benchmark|bot|capture|check|classif|collector\
        |compliance|crawl|data|detect|diagnos|domain|downloader|expander|exploit|extract|favicon|feed|fetch\
        |geckoversion|generator|grab|grader|harvest|headless|imageproxy|indexer|insight|inspect|lookup|mailproxy\
        |marketing|measure|metric|monitor|observatory|opengraph|page speed|pagespeed|pagetest|parser|phish\
        |pinger|plagiar|preview|probe|prospect|ranking|render|research|resolver|retriev|scanner|score|scrap\
        |screenshot|search console|search engine|searchengine|searcher|seeker|semantic|seo|sitemap|snapshot\
        |sniff|social|spider|sucker|survey|synthetic|tester|thumb|tracker|transcod|uptime|validat|verif\
        |vuln|watcher|webhook|webshot|website|whois",
    ),
    // Syntax used by bots: an address, or a comment not used by browsers.
    (Marker::Bot, "http|@|; +|-user/|google-|khtml, like gecko; |khtml, like gecko, "),
    // Libraries, browser drivers, and services that pretend to be browsers and visit lots of sites.
    (
        Marker::Bot,
        "anthropic|axios|casperjs|catchpoint|chatgpt|claude|cloudflare|curl/|cypress|dynatrace|gtmetrix|htmlunit\
        |lighthouse|node.js|nutch|openai|phantomas|phantomjs|pingdom|playwright|ptst|puppeteer|python|selenium\
        |site24x7|sitespeed|slimerjs|spdr|statuscake|thousandeyes|wkhtml| wpm|zgrab",
    ),
    (Marker::Engine, "gecko|goanna|webkit"),
    (Marker::Preview, "whatsapp/"),
    (Marker::Compatible, "compatible;"),
    (Marker::Android, "; android |; adr "),
    (Marker::Mobile, "mobile|campus-|honorlock|menutab|steamdeck|webappmanager"),
    (Marker::Safari, "safari/"),
    // Other engines and browsers, which may be all that is left of a user agent; media players and app
    // frameworks; phones, televisions and consoles, with platforms and manufacturers; and the encryption
    // strength, which browsers in the nineties included.
    (
        Marker::Person,
        " ios/|alcatel|amiga|android|appletv|asus|blackberry|brew/|browser/|ce-html|cfnetwork|chrome/|cldc\
        |dalvik|dillo|docomo|dreamcast|elinks|exoplayer|fban/|firefox/|foxmail|galaxyclient|hbbtv|hpprint\
        |htc|huawei|icab/|icab |icecat|iceweasel|ipad|iphone|ipod|itunes/|j-phone|kddi|konqueror|lg-|lge|links (\
        |lynx|maui|midp|mmp/|mosaic|mot-|motorola|msie|netcast|netfront|netscape|netsurf|nintendo|nokia\
        |nsplayer|obigo|omniweb|opera|palm|panasonic|pantech|philips|playstation|polaris|portalmmm|presto\
        |ps vita|quicktime|risc os|roku|samsung|seamonkey|sie-|sleipnir|smart-tv|smarttv|softbank|sonos\
        |sony|symbian|tizen|trident|ucweb|up.link|viera|vodafone|w3m|wap browser|wap-browser|wap1.|wap2.\
        |wap_browser|watch os|watchos|willcom|windows phone|xbox|zte-|; ios |; i)|; u)|(x11; i;|(x11; u;\
        |; rv:",
    ),
];

impl Default for AgentMatcher {
    fn default() -> Self {
        let words = || WORDS.iter().flat_map(|(marker, words)| words.split('|').map(|word| (*marker, word)));
        // `AhoCorasick` would choose the same for this number of words, but it compiles all kinds of
        // automata.
        let automaton = DFA::builder()
            .ascii_case_insensitive(true)
            .match_kind(MatchKind::LeftmostFirst)
            .build(words().map(|(_, word)| word))
            .expect("an automaton of a few short words is small");
        let start = automaton.start_state(Anchored::No).expect("it may begin anywhere");
        Self {
            words: automaton,
            start,
            markers: words().map(|(marker, _)| marker).collect(),
            names: BotNames::default(),
        }
    }
}

impl AgentMatcher {
    /// Classifies a user agent as bot or human. Without any known words this must be a bot, since all
    /// browsers name the engine or themselves. Known bots without a bot word are looked up by name.
    pub(crate) fn agent(&self, user_agent: &[u8]) -> Agent {
        let text = &user_agent[..user_agent.len().min(MAX_SCANNED_BYTES)];
        let (mut agent, mut engine, mut mobile) = (Agent::Bot, false, false);
        let (mut device, mut safari, mut at) = (0..0, text.len(), 0);
        while let Some(found) = self.next(text, at) {
            at = found.end;
            match found.marker {
                Marker::Address => return Agent::Bot,
                Marker::Host if ends_host(text, found.start, at) => return Agent::Bot,
                Marker::Bot if at > device.end => return Agent::Bot,
                Marker::Preview if found.start == 0 => return Agent::Bot,
                Marker::Compatible if engine => return Agent::Bot,
                Marker::Host | Marker::Bot | Marker::Preview | Marker::Compatible => {}
                Marker::Person => agent = Agent::Human,
                Marker::Engine => (agent, engine) = (Agent::Human, true),
                Marker::Android => {
                    (agent, mobile) = (Agent::Human, true);
                    // A second match in the same comment does not change the end, and must not be scanned
                    // again.
                    if at > device.end {
                        device = at..comment_end(text, at);
                    }
                }
                Marker::Mobile => mobile = true,
                Marker::Safari => safari = at,
            }
        }
        if !mobile && adds_no_version(&text[safari..]) {
            return Agent::Bot;
        }
        let is_named = || {
            let around = [&text[..device.start], &text[device.end..]];
            around.into_iter().any(|text| self.names.find(text).is_some())
        };
        if agent == Agent::Human && is_named() { Agent::Bot } else { agent }
    }

    /// Returns the next known word at or after the byte `from`. This does the same as `try_find` of the
    /// automaton, which is more general and needs 1.7 times the instructions.
    fn next(&self, text: &[u8], from: usize) -> Option<Found> {
        let (mut state, mut found) = (self.start, None);
        for (index, byte) in text.iter().enumerate().skip(from) {
            state = self.words.next_state(Anchored::No, state, *byte);
            if self.words.is_special(state) {
                if self.words.is_dead(state) {
                    break;
                }
                if self.words.is_match(state) {
                    // A longer word at the same position may still match, if it comes first in the list.
                    found = Some((self.words.match_pattern(state, 0), index + 1));
                }
            }
        }
        let (word, end) = found?;
        Some(Found { marker: self.markers[word.as_usize()], start: end - self.words.pattern_len(word), end })
    }
}

/// Returns `true` if this is the end of a host name like `example.com` or `example.com/bot`, but not of
/// `com.example.app` or `Example.com/1.0`, which might be an app.
fn ends_host(text: &[u8], start: usize, end: usize) -> bool {
    text[..start].last().is_some_and(u8::is_ascii_alphanumeric)
        && match text[end..] {
            [b'/', next, ..] => !next.is_ascii_digit(),
            [next, ..] => !next.is_ascii_alphanumeric() && !b".-_".contains(&next),
            [] => true,
        }
}

/// Returns the end of the comment that contains the byte `from`, i.e. the position of the closing
/// parenthesis.
fn comment_end(text: &[u8], from: usize) -> usize {
    let mut depth = 0_usize;
    for (index, byte) in text.iter().enumerate().skip(from) {
        match byte {
            b'(' => depth += 1,
            b')' if depth == 0 => return index,
            b')' => depth -= 1,
            _ => {}
        }
    }
    text.len()
}

/// Returns `true` if the Safari version is only followed by a comment, or by words with no version. A browser
/// that appends a name also appends a version; there are two exceptions which include `browser` or `chrome`,
/// and televisions include `tv`.
fn adds_no_version(version: &[u8]) -> bool {
    let Some(space) = version.iter().position(|byte| *byte == b' ') else { return false };
    let added = &version[space + 1..];
    let has = |word: &[u8]| added.windows(word.len()).any(|part| part.eq_ignore_ascii_case(word));
    match added {
        [b'(', next, ..] => next.is_ascii_alphabetic(),
        [_, ..] => {
            added.iter().all(|byte| byte.is_ascii_alphabetic() || b" -".contains(byte))
                && !(has(b"browser") || has(b"chrome") || has(b"tv"))
        }
        [] => false,
    }
}
