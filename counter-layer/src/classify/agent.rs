//! Agents told by their user agent: bots, and people with browsers and apps.

use aho_corasick::automaton::{Automaton, StateID};
use aho_corasick::dfa::DFA;
use aho_corasick::{Anchored, MatchKind};
use counter_core::visits::Agent;

/// No more of a user agent is looked at.
const LOOKED_AT: usize = 1024;

/// The words that tell bots from people, ready to be found in one pass over a user agent.
pub(crate) struct Signs {
    words: DFA,
    start: StateID,
    /// Of each word.
    signs: Box<[Sign]>,
}

/// A word in a user agent.
struct Found {
    sign: Sign,
    start: usize,
    end: usize,
}

/// What a word in a user agent says.
#[derive(Clone, Copy, Debug)]
enum Sign {
    /// A browser or an app, or a device that only people use.
    Person,
    /// A bot that says where to read about it, or whom to write to, even in the place of a device.
    Address,
    /// The same, if the name of a host ends here.
    Host,
    /// A bot, unless the word is in the name of a device.
    Bot,
    /// An engine of browsers that have their own names.
    Engine,
    /// A bot if it has such an engine, and so no need to be compatible with anything.
    Compatible,
    /// Android. The rest of the comment names the device, in any words.
    Android,
    /// A phone or a tablet.
    Mobile,
    /// The product that ends what all browsers of an engine have in common.
    Safari,
}

/// The words, between bars. Of two that begin at the same place, the first is found.
const WORDS: [(Sign, &str); 12] = [
    // Notes of browsers that have a word of bots in them.
    (
        Sign::Person,
        "http://bsalsa.com|user-agent: mozilla|compatible; msie|khtml, like gecko, safari|android@|ios@|http pgdl\
        |https)|https;",
    ),
    (Sign::Address, "http:|https:|www.|(at)|[at]|bot/|googlebot|-google"),
    (Sign::Host, ".com|.net|.org|.io|.ai|.co|.dev"),
    // What bots are, and what they do.
    (
        Sign::Bot,
        "agent|alert|analy|archiv|audit|automat|bot|capture|check|classif|collector|compliance|crawl|data|detect\
        |diagnos|domain|downloader|extract|favicon|feed|fetch|generator|grab|grader|harvest|headless|imageproxy\
        |indexer|insight|inspect|lookup|mailproxy|marketing|measure|metric|monitor|observatory|opengraph|page speed\
        |pagespeed|pagetest|parser|pinger|preview|probe|ranking|render|research|resolver|retriev|scanner|score|scrap\
        |screenshot|search console|search engine|seeker|semantic|seo|sitemap|snapshot|social|spider|survey|synthetic\
        |tester|thumb|tracker|transcod|uptime|validat|verif|watcher|webshot|website|whois",
    ),
    // How they write: an address, or a note where a browser has none.
    (Sign::Bot, "http|@|; +|-user/|google-|khtml, like gecko; |khtml, like gecko, "),
    // Libraries, drivers of browsers, and a few services that come as browsers to many a site.
    (
        Sign::Bot,
        "anthropic|axios|casperjs|catchpoint|chatgpt|claude|cloudflare|curl/|cypress|dynatrace|gtmetrix|htmlunit\
        |lighthouse|node.js|nutch|openai|phantomas|phantomjs|pingdom|playwright|ptst|puppeteer|python|selenium\
        |site24x7|sitespeed|slimerjs|spdr|statuscake|thousandeyes|whatsapp/|wkhtml| wpm|zgrab",
    ),
    (Sign::Engine, "gecko|goanna|webkit"),
    (Sign::Compatible, "compatible;"),
    (Sign::Android, "; android |; adr "),
    (Sign::Mobile, "mobile"),
    (Sign::Safari, "safari/"),
    // Other engines and browsers; what apps are built on; phones, televisions and consoles, what runs on them, and
    // who makes them; and the strength of its encryption, which a browser of the nineties had to say.
    (
        Sign::Person,
        "alcatel|amiga|android|appletv|asus|blackberry|brew/|browser/|ce-html|cfnetwork|cldc|dalvik|dillo\
        |docomo|elinks|exoplayer|fban/|hbbtv|htc|huawei|icab|ipad|iphone|ipod| ios/|; ios |j-phone|kddi\
        |konqueror|lg-|lge|links (|lynx|maui|midp|mmp/|mosaic|mot-|motorola|msie|netcast|netfront\
        |netsurf|nintendo|nokia|obigo|omniweb|opera|palm|panasonic|pantech|philips|playstation|polaris\
        |presto|risc os|roku|samsung|sie-|smart-tv|smarttv|softbank|sonos|sony|symbian|tizen|trident\
        |ucweb|up.link|viera|vodafone|w3m|wap browser|wap-browser|wap1.|wap2.|wap_browser|watch os\
        |watchos|willcom|windows phone|xbox|; i)|; u)",
    ),
];

impl Default for Signs {
    fn default() -> Self {
        let words = || WORDS.iter().flat_map(|(sign, words)| words.split('|').map(|word| (*sign, word)));
        // What `AhoCorasick` would choose for so few words; it has all kinds of automata compiled.
        let automaton = DFA::builder()
            .ascii_case_insensitive(true)
            .match_kind(MatchKind::LeftmostFirst)
            .build(words().map(|(_, word)| word))
            .expect("an automaton of a few short words is small");
        let start = automaton.start_state(Anchored::No).expect("it may begin anywhere");
        Self { words: automaton, start, signs: words().map(|(sign, _)| sign).collect() }
    }
}

impl Signs {
    /// The agent with this user agent. Without any sign it is a bot: all browsers name their engine.
    pub(crate) fn agent(&self, user_agent: &[u8]) -> Agent {
        let text = &user_agent[..user_agent.len().min(LOOKED_AT)];
        let (mut agent, mut engine, mut mobile) = (Agent::Bot, false, false);
        let (mut device, mut safari, mut at) = (0, text.len(), 0);
        while let Some(found) = self.next(text, at) {
            at = found.end;
            match found.sign {
                Sign::Address => return Agent::Bot,
                Sign::Host if ends_host(text, found.start, at) => return Agent::Bot,
                Sign::Bot if at > device => return Agent::Bot,
                Sign::Compatible if engine => return Agent::Bot,
                Sign::Host | Sign::Bot | Sign::Compatible => {}
                Sign::Person => agent = Agent::Human,
                Sign::Engine => (agent, engine) = (Agent::Human, true),
                Sign::Android => {
                    (agent, mobile) = (Agent::Human, true);
                    // A second one in the same comment changes nothing, and would be looked through again.
                    if at > device {
                        device = comment_end(text, at);
                    }
                }
                Sign::Mobile => mobile = true,
                Sign::Safari => safari = at,
            }
        }
        if !mobile && adds_no_version(&text[safari..]) { Agent::Bot } else { agent }
    }

    /// The next word from here on. It does what `try_find` of the automaton does, which is made for more than this,
    /// and takes 1.7 times the instructions.
    fn next(&self, text: &[u8], from: usize) -> Option<Found> {
        let (mut state, mut found) = (self.start, None);
        for (place, byte) in text.iter().enumerate().skip(from) {
            state = self.words.next_state(Anchored::No, state, *byte);
            if self.words.is_special(state) {
                if self.words.is_dead(state) {
                    break;
                }
                if self.words.is_match(state) {
                    // A longer word may follow that begins at the same place, and was listed before.
                    found = Some((self.words.match_pattern(state, 0), place + 1));
                }
            }
        }
        let (word, end) = found?;
        Some(Found { sign: self.signs[word.as_usize()], start: end - self.words.pattern_len(word), end })
    }
}

/// Whether the name of a host ends here, such as `example.com` and `example.com/bot`, but not `com.example.app` nor
/// `Example.com/1.0`, as which an app may come.
fn ends_host(text: &[u8], start: usize, end: usize) -> bool {
    text[..start].last().is_some_and(u8::is_ascii_alphanumeric)
        && match text[end..] {
            [b'/', next, ..] => !next.is_ascii_digit(),
            [next, ..] => !next.is_ascii_alphanumeric() && !b".-_".contains(&next),
            [] => true,
        }
}

/// The end of the comment that this place is in.
fn comment_end(text: &[u8], from: usize) -> usize {
    let mut depth = 0_usize;
    for (place, byte) in text.iter().enumerate().skip(from) {
        match byte {
            b'(' => depth += 1,
            b')' if depth == 0 => return place,
            b')' => depth -= 1,
            _ => {}
        }
    }
    text.len()
}

/// Whether only a comment, or words without a version, are behind the version of Safari. A browser that adds its name
/// there adds its version too; two that do not say that they are browsers, and televisions that they are.
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
