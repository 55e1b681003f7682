//! Agents told by their user agent: bots, and people with browsers and apps.

use aho_corasick::automaton::Automaton;
use aho_corasick::dfa::DFA;
use aho_corasick::{Input, MatchKind};
use counter_core::visits::Agent;

/// No more of a user agent is looked at.
const LOOKED_AT: usize = 1024;

/// The words that tell bots from people, ready to be found in one pass over a user agent.
pub(crate) struct Signs {
    words: DFA,
    signs: Box<[Sign]>,
}

/// What a word in a user agent says.
#[derive(Clone, Copy, Debug)]
enum Sign {
    /// A browser or an app, or a device that only people use.
    Person,
    /// A bot that says where to read about it, or whom to write to.
    Address,
    /// The same, if it is the end of the name of a host.
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
    // Other engines and browsers; what apps are built on; phones, televisions and consoles, and what runs on them;
    // and the strength of its encryption, which a browser of the nineties had to say.
    (
        Sign::Person,
        "amiga|android|appletv|blackberry|brew/|browser/|ce-html|cfnetwork|cldc|dalvik|dillo|docomo|elinks|exoplayer\
        |fban/|hbbtv|icab|ipad|iphone|ipod| ios/|; ios |j-phone|kddi|konqueror|links (|lynx|maui|midp|mmp/|mosaic\
        |msie|netcast|netfront|netsurf|nintendo|nokia|obigo|omniweb|opera|palm|playstation|polaris|presto|risc os\
        |roku|samsung|smart-tv|smarttv|softbank|sonos|sonyericsson|symbian|tizen|trident|ucweb|up.link|viera|vodafone\
        |w3m|wap browser|wap-browser|wap1.|wap2.|wap_browser|watch os|watchos|willcom|windows phone|xbox|; i)|; u)",
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
        Self { words: automaton, signs: words().map(|(sign, _)| sign).collect() }
    }
}

impl Signs {
    /// The agent with this user agent. Without any sign it is a bot: all browsers name their engine.
    pub(crate) fn agent(&self, user_agent: &[u8]) -> Agent {
        let text = &user_agent[..user_agent.len().min(LOOKED_AT)];
        let (mut agent, mut engine, mut mobile) = (Agent::Bot, false, false);
        let (mut device, mut safari) = (0, text.len());
        let mut found_until = 0;
        while let Ok(Some(found)) = self.words.try_find(&Input::new(text).span(found_until..text.len())) {
            found_until = found.end();
            match self.signs[found.pattern().as_usize()] {
                Sign::Address => return Agent::Bot,
                Sign::Host if ends_host(text, found.start(), found.end()) => return Agent::Bot,
                Sign::Bot if found.end() > device => return Agent::Bot,
                Sign::Compatible if engine => return Agent::Bot,
                Sign::Host | Sign::Bot | Sign::Compatible => {}
                Sign::Person => agent = Agent::Human,
                Sign::Engine => (agent, engine) = (Agent::Human, true),
                Sign::Android => {
                    (agent, mobile) = (Agent::Human, true);
                    // A second one in the same comment changes nothing, and would be looked through again.
                    if found.end() > device {
                        device = comment_end(text, found.end());
                    }
                }
                Sign::Mobile => mobile = true,
                Sign::Safari => safari = found.end(),
            }
        }
        if !mobile && adds_no_version(&text[safari..]) { Agent::Bot } else { agent }
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
