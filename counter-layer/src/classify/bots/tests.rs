use std::collections::HashSet;

use counter_core::visits::Agent;

use super::bot::rows;
use super::{Bot, BotNames, Purpose};
use crate::classify::agent::AgentMatcher;

/// A bot can append its name to the user agent of a browser.
const BROWSER: &str =
    "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/138.0.0.0 Safari/537.36";

#[test]
fn bots_are_unique_and_sorted_in_groups_by_purpose() {
    let bots: Vec<_> = Bot::all().collect();
    assert!(bots.len() >= 2000, "{}", bots.len());
    let lower = |bot: &Bot| (bot.name().to_ascii_lowercase(), bot.name());
    assert!(bots.is_sorted_by_key(|bot| (bot.purpose(), lower(bot))));
    assert_eq!(bots.iter().map(|bot| lower(bot).0).collect::<HashSet<_>>().len(), bots.len());
    for purpose in Purpose::ALL {
        assert!(bots.iter().any(|bot| bot.purpose() == purpose), "{purpose}");
    }
}

#[test]
fn names_are_label_values() {
    for bot in Bot::all() {
        let (name, operator) = (bot.name(), bot.operator().unwrap_or("Example"));
        assert!(name.starts_with(|c: char| c.is_ascii_alphanumeric()), "{name}");
        assert!(name.len() <= 64 && name.trim() == name && !name.contains([',', '|']), "{name}");
        assert!(operator.len() <= 64 && operator.trim() == operator, "{operator}");
        assert_eq!(Bot::named(name), Some(bot));
    }
}

#[test]
fn every_word_leads_to_its_name_and_to_the_decision() {
    let (names, agents, mut all) = (BotNames::default(), AgentMatcher::default(), HashSet::new());
    for row in rows() {
        for word in row.words.split(',').map(str::trim) {
            assert!(all.insert(word.to_ascii_lowercase()), "{word}");
            let inside = Some(format!("{BROWSER} {word}/1.0")).filter(|_| !word.starts_with('^'));
            let word = word.trim_start_matches('^');
            for user_agent in [word.to_owned(), format!("{word} {BROWSER}")].into_iter().chain(inside) {
                assert_eq!(names.find(user_agent.as_bytes()), Some(row.bot.name()), "{user_agent}");
                assert_eq!(agents.agent(user_agent.as_bytes()), Agent::Bot, "{user_agent}");
            }
        }
    }
}

#[test]
fn bots_are_named_by_product() {
    let (names, agents) = (BotNames::default(), AgentMatcher::default());
    for (user_agent, name) in [
        (
            "Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; GPTBot/1.2; +https://openai.com/gptbot)",
            "GPTBot",
        ),
        (
            "Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; ChatGPT-User/1.0; +https://openai.com/bot)",
            "ChatGPT-User",
        ),
        (
            "Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; OAI-SearchBot/1.0; +https://openai.com/searchbot)",
            "OAI-SearchBot",
        ),
        (
            "Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; ClaudeBot/1.0; +claudebot@anthropic.com)",
            "ClaudeBot",
        ),
        ("Mozilla/5.0 (compatible; Claude-User/1.0; +Claude-User@anthropic.com)", "Claude-User"),
        (
            "Mozilla/5.0 (compatible; PerplexityBot/1.0; +https://perplexity.ai/perplexitybot)",
            "PerplexityBot",
        ),
        (
            "meta-externalagent/1.1 (+https://developers.facebook.com/docs/sharing/webmasters/crawler)",
            "meta-externalagent",
        ),
        ("CCBot/2.0 (https://commoncrawl.org/faq/)", "CCBot"),
        (
            "Mozilla/5.0 (Linux; Android 5.0) AppleWebKit/537.36 (KHTML, like Gecko) Mobile Safari/537.36 (compatible; Bytespider; spider-feedback@bytedance.com)",
            "Bytespider",
        ),
        ("Googlebot/2.1 (+http://www.google.com/bot.html)", "Googlebot"),
        ("GOOGLEBOT/2.1", "Googlebot"),
        ("Mozilla/5.0+(compatible;+Googlebot/2.1;++http://www.google.com/bot.html)", "Googlebot"),
        ("Googlebot-Image/1.0", "Googlebot-Image"),
        ("Googlebot-Images/1.0", "Googlebot"),
        (
            "Mozilla/5.0 (Linux; Android 6.0.1; Nexus 5X Build/MMB29P) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/138.0.0.0 Mobile Safari/537.36 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)",
            "Googlebot",
        ),
        ("AdsBot-Google-Mobile (+http://www.google.com/mobile/adsbot.html)", "AdsBot-Google-Mobile"),
        ("Google-Unknown-Service/1.0", "Google"),
        (
            "Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; bingbot/2.0; +http://www.bing.com/bingbot.htm) Chrome/116.0.1938.76 Safari/537.36",
            "Bingbot",
        ),
        (
            "Mozilla/5.0 (compatible; Yahoo! Slurp; http://help.yahoo.com/help/us/ysearch/slurp)",
            "Yahoo! Slurp",
        ),
        ("Mozilla/5.0 (compatible; YandexBot/3.0; MirrorDetector; +http://yandex.com/bots)", "YandexBot"),
        ("Mozilla/5.0 (compatible; AhrefsBot/7.0; +http://ahrefs.com/robot/)", "AhrefsBot"),
        ("Mozilla/5.0 (compatible; SemrushBot-BA; +http://www.semrush.com/bot.html)", "SemrushBot-BA"),
        ("facebookexternalhit/1.1 (+http://www.facebook.com/externalhit_uatext.php)", "facebookexternalhit"),
        // Apple's messages name the bots of other services.
        (
            "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_11_1) AppleWebKit/601.2.4 (KHTML, like Gecko) Version/9.0.1 Safari/601.2.4 facebookexternalhit/1.1 Facebot Twitterbot/1.0",
            "iMessage",
        ),
        ("Slackbot-LinkExpanding 1.0 (+https://api.slack.com/robots)", "Slackbot-LinkExpanding"),
        ("WhatsApp/2.23.20.0", "WhatsApp"),
        // A product is more specific than the library, and comes first in phrases like these.
        ("http.rb/5.1.1 (Mastodon/4.2.0; +https://social.example/) Bot", "Mastodon"),
        ("python-requests/2.32.3", "python-requests"),
        ("python-requests/2.32.3 UptimeRobot/2.0", "UptimeRobot"),
        (
            "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) HeadlessChrome/138.0.0.0 Safari/537.36",
            "HeadlessChrome",
        ),
        (
            "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) HeadlessChrome/138.0.0.0 Safari/537.36 Chrome-Lighthouse",
            "Chrome-Lighthouse",
        ),
        (
            "Feedly/1.0 (+http://www.feedly.com/fetcher.html; 5 subscribers; like FeedFetcher-Google)",
            "Feedly",
        ),
        ("Mozilla/5.0+(compatible; UptimeRobot/2.0; http://www.uptimerobot.com/)", "UptimeRobot"),
        ("Pingdom.com_bot_version_1.4_(http://www.pingdom.com/)", "Pingdom"),
        ("kube-probe/1.30", "kube-probe"),
        ("curl/8.5.0", "curl"),
        ("Wget/1.21.4 (linux-gnu)", "Wget"),
        ("Java1.6.0_22 curl", "curl"),
        ("MyFetcher/Nutch-1.9", "Nutch"),
        (
            "Mozilla/5.0 (compatible; archive.org_bot +http://archive.org/details/archive.org_bot)",
            "archive.org_bot",
        ),
        // The host of an address is the last resort.
        ("Mozilla/5.0 (compatible; +https://www.diffbot.com/)", "Diffbot"),
        ("Mozilla/5.0 (compatible; Example/1.0; +https://docs.diffbot.com/bot)", "Diffbot"),
        ("Example/1.0 (www.diffbot.com/GPTBot)", "Diffbot"),
        ("Example/1.0 (bot@gptbot.example)", "GPTBot"),
        ("Example/1.0 (+https://www.semrush.com/bot.html)", "Semrush"),
        ("curl/8.5.0 (bot@gptbot.example)", "curl"),
    ] {
        assert_eq!(names.find(user_agent.as_bytes()), Some(name), "{user_agent}");
        assert_eq!(agents.agent(user_agent.as_bytes()), Agent::Bot, "{user_agent}");
    }
}

#[test]
fn a_name_in_another_word_is_ignored() {
    let names = BotNames::default();
    for user_agent in [
        "",
        "Mozilla/5.0 (Linux; Android 9; CUBOT_X19 Build/PPR1.180610.011; wv) Chrome/119.0.0.0 Mobile Safari/537.36",
        "NotGPTBot/1.0",
        "GPTBots/1.0",
        "my_gptbot/1.0",
        "Example/1.0 (+https://github.com/example/curl)",
        "Example/1.0 (www.example.com/gptbot)",
        "nbertaupete955",
        "\u{e9}curl/8.5.0",
        "curl\u{e9}/8.5.0",
        "cur",
    ] {
        assert_eq!(names.find(user_agent.as_bytes()), None, "{user_agent}");
    }
}

#[test]
fn separators_in_names_are_optional() {
    let names = BotNames::default();
    for (user_agent, name) in [
        ("Speedy Spider", Some("Speedy Spider")),
        ("SpeedySpider/1.0", Some("Speedy Spider")),
        ("speedy_spider", Some("Speedy Spider")),
        ("Semrush-Bot/7", Some("SemrushBot")),
        ("Headless Chrome 138.0.0.0", Some("HeadlessChrome")),
        ("360 Spider", Some("360Spider")),
        ("W3C-Validator/1.3", Some("W3C_Validator")),
        // Not within the first four bytes, unless this spelling is listed.
        ("GP TBot", None),
        // The end of a word is not optional.
        ("GooglePlayer", None),
        ("Google Player", None),
        ("Semrush Bots", Some("Semrush")),
    ] {
        assert_eq!(names.find(user_agent.as_bytes()), name, "{user_agent}");
    }
}

#[test]
fn bots_without_a_name_are_recognized_by_their_purpose() {
    let (names, agents) = (BotNames::default(), AgentMatcher::default());
    // The letters of `iCab`, which is a browser.
    assert_eq!(agents.agent(b"AnalyticaBot"), Agent::Bot);
    for product in
        ["ExampleProspecting", "VulnExample", "PhishExample", "ExampleWebhook", "ExampleSearchEngine"]
    {
        let user_agent = format!("{BROWSER} {product}/1.0");
        assert_eq!(names.find(user_agent.as_bytes()), None, "{user_agent}");
        assert_eq!(agents.agent(user_agent.as_bytes()), Agent::Bot, "{user_agent}");
    }
}

#[test]
fn browsers_with_unusual_user_agents_are_not_bots() {
    let agents = AgentMatcher::default();
    for user_agent in [
        // Only the name of the browser or the version of the engine is left.
        "Mozilla/5.0 (Windows NT 10.0; Win64; x64) Chrome/138.0.0.0",
        "Mozilla/5.0 Firefox/140.0",
        "Mozilla/5.0 (X11; Ubuntu; Linux x86_64; rv:140.0)",
        // Netscape.
        "Mozilla/4.76 [en] (X11; U; SunOS 5.7 sun4u)",
        // The product contains a bot word.
        "Safari%20Technology%20Preview/11601.6.17 CFNetwork/760.5.1 Darwin/15.5.0 (x86_64)",
        "Mozilla/5.0 (Web0S; Linux/SmartTV) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/87.0.4280.88 Safari/537.36 HbbTV/1.6.1 (+DRM; LGE/KTC/BOTECH; 58BSE9503)",
        "Mozilla/5.0 (masking-agent; rv:23.0) Gecko/20100101 Firefox/23.0",
        // A proxy for slow networks.
        "Mozilla/5.0 (Linux; Android 4.2.1; en-us; Nexus 5 Build/JOP40D) AppleWebKit/535.19 (KHTML, like Gecko; googleweblight) Chrome/38.0.1025.166 Mobile Safari/535.19",
        // A name with no version.
        "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/138.0.0.0 Safari/537.36 SteamDeck",
        "Mozilla/5.0 (Web0S; Linux/SmartTV) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/68.0.3440.106 Safari/537.36 WebAppManager",
    ] {
        assert_eq!(agents.agent(user_agent.as_bytes()), Agent::Human, "{user_agent}");
    }
    // Neither a name nor a version.
    for user_agent in ["Mozilla/5.0", "Mozilla/5.0 (Windows NT 10.0; Win64; x64)", "Firefox", "64"] {
        assert_eq!(agents.agent(user_agent.as_bytes()), Agent::Bot, "{user_agent}");
    }
}

#[test]
fn names_of_bots_in_device_names_are_not_bots() {
    let agents = AgentMatcher::default();
    for user_agent in [
        BROWSER,
        "Mozilla/5.0 (Linux; Android 14; Wget 7 Build/UQ1A) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/138.0.0.0 Mobile Safari/537.36",
        "Mozilla/5.0 (Linux; Android 13; arm) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/138.0.0.0 YandexSearch/23 Mobile Safari/537.36",
        "Mozilla/5.0 (iPhone; CPU iPhone OS 18_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Mobile/15E148 [Pinterest/iOS]",
        "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) WhatsApp/2.2043.21 Chrome/108.0.5359.215 Electron/22.3.27 Safari/537.36",
        "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) WhatsApp/2.24.1",
    ] {
        assert_eq!(agents.agent(user_agent.as_bytes()), Agent::Human, "{user_agent}");
    }
}

#[test]
fn only_the_first_kibibyte_is_scanned() {
    let names = BotNames::default();
    let text = |spaces: usize| format!("{}GPTBot", " ".repeat(spaces));
    assert_eq!(names.find(text(1024 - 6).as_bytes()), Some("GPTBot"));
    assert_eq!(names.find(text(1024 - 5).as_bytes()), None);
}
