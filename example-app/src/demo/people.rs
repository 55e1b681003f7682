//! The clients of the demo site.

use std::net::Ipv4Addr;

use super::dice::Dice;
use super::traffic::{Client, KINDS};

/// A client that visits the site.
#[derive(Clone, Copy, Debug)]
pub(super) struct Visitor {
    pub(super) number: u32,
    is_bot: bool,
    /// URL of the page with the link that was followed, or an empty text.
    pub(super) referrer: &'static str,
}

/// The visitors of the site. A visitor sends several requests of the same kind.
#[derive(Debug)]
pub(super) struct Crowd {
    pub(super) dice: Dice,
    /// The latest visitor by kind of request.
    latest: Vec<Visitor>,
}

/// Number of people. Each has a separate address.
const PERSON_COUNT: u32 = 3000;

/// Average number of requests of one kind by a visitor.
const REQUESTS_PER_VISIT: f64 = 10.0;

/// Number of forum members.
const MEMBER_COUNT: u32 = 12;

/// Referring pages. A page that is listed more than once is more likely.
const REFERRERS: [&str; 8] = [
    "",
    "",
    "https://search.example/results?q=counter",
    "https://search.example/results?q=once",
    "https://search.example/",
    NEWS,
    "https://forum.example/t/12",
    "https://blog.example/counting",
];

/// The page with the link that made a post popular.
const NEWS: &str = "https://news.example/item?id=7";

/// Preferred languages.
const LANGUAGES: [&str; 5] =
    ["en-GB,en;q=0.9", "en-US,en;q=0.9", "de-CH,de;q=0.9,en;q=0.8", "fr-FR,fr;q=0.9", "ja"];

/// User agents of people, up to the version number.
const BROWSERS: [&str; 4] = [
    "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.",
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/138.0 Safari/537.",
    "Mozilla/5.0 (Linux; Android 10; K) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/138.0 Mobile Safari/537.",
    "Mozilla/5.0 (iPhone; CPU iPhone OS 18_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.5 Mobile/15E148 Safari/604.",
];

/// User agents of bots, the most frequent first.
const BOTS: [&str; 12] = [
    "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)",
    "Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; GPTBot/1.2; +https://openai.com/gptbot)",
    "Mozilla/5.0 (compatible; AhrefsBot/7.0; +http://ahrefs.com/robot/)",
    "Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; bingbot/2.0; +http://www.bing.com/bingbot.htm)",
    "Mozilla/5.0+(compatible; UptimeRobot/2.0; http://www.uptimerobot.com/)",
    "Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; ClaudeBot/1.0; +claudebot@anthropic.com)",
    "Feedly/1.0 (+http://www.feedly.com/fetcher.html; like FeedFetcher-Google)",
    "curl/8.5.0",
    "Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; ChatGPT-User/1.0; +https://openai.com/bot)",
    "facebookexternalhit/1.1 (+http://www.facebook.com/externalhit_uatext.php)",
    "Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; PerplexityBot/1.0; +https://perplexity.ai/perplexitybot)",
    "Mozilla/5.0 (compatible; Examplebot/2.1; +http://bot.example/)",
];

/// Number of bots.
const BOT_COUNT: u32 = 12;

impl Crowd {
    pub(super) fn new(mut dice: Dice) -> Self {
        let latest = KINDS.iter().map(|kind| arrive(&mut dice, kind.client, 1.0)).collect();
        Self { dice, latest }
    }

    /// Returns the visitors who send this number of requests of a kind. `popularity` is the factor by which a
    /// link from another site has increased the number of visitors.
    pub(super) fn visitors(&mut self, kind: usize, requests: u32, popularity: f64) -> Vec<Visitor> {
        let arrivals = self.dice.count(f64::from(requests) / REQUESTS_PER_VISIT).min(requests);
        let client = KINDS[kind].client;
        let mut visitors: Vec<_> =
            (0..arrivals).map(|_| arrive(&mut self.dice, client, popularity)).collect();
        match visitors.last() {
            Some(last) => self.latest[kind] = *last,
            None => visitors.push(self.latest[kind]),
        }
        visitors
    }
}

fn arrive(dice: &mut Dice, client: Client, popularity: f64) -> Visitor {
    if client == Client::Bot {
        return Visitor {
            number: dice.below(BOT_COUNT).min(dice.below(BOT_COUNT)),
            is_bot: true,
            referrer: "",
        };
    }
    // This makes some people visit often, but most people rarely.
    let number = dice.below(PERSON_COUNT).min(dice.below(PERSON_COUNT));
    let is_from_news = dice.fraction() * popularity > 1.0;
    let referrer = dice.pick(&REFERRERS);
    Visitor { number, is_bot: false, referrer: if is_from_news { NEWS } else { referrer } }
}

impl Visitor {
    /// Returns a loopback address, so that the visitor can connect from this address on Linux.
    pub(super) fn address(self) -> Ipv4Addr {
        let first = Ipv4Addr::new(127, if self.is_bot { 2 } else { 1 }, 0, 1);
        Ipv4Addr::from_bits(first.to_bits() + self.number)
    }

    pub(super) fn agent(self) -> String {
        if self.is_bot {
            return pick(&BOTS, self.number).to_owned();
        }
        format!("{}{}", pick(&BROWSERS, self.number), self.number / 4 % 10)
    }

    pub(super) fn language(self) -> &'static str {
        if self.is_bot { "" } else { pick(&LANGUAGES, self.number / 4) }
    }

    /// Returns the member id in the forum.
    pub(super) const fn member(self) -> u32 {
        self.number % MEMBER_COUNT + 1
    }
}

fn pick(items: &[&'static str], number: u32) -> &'static str {
    items[usize::try_from(number).unwrap_or_default() % items.len()]
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn visitors_send_several_requests_whether_asked_for_one_or_for_many() {
        let distinct = |requests: u32| {
            let mut crowd = Crowd::new(Dice::new(1));
            let mut arrivals = HashSet::new();
            for _ in 0..1000 / requests {
                arrivals.extend(crowd.visitors(0, requests, 1.0).iter().map(|visitor| visitor.address()));
            }
            arrivals.len()
        };
        for requests in [1, 10, 500] {
            let found = distinct(requests);
            assert!((75..125).contains(&found), "{found} visitors with {requests} requests");
        }
    }

    #[test]
    fn people_and_bots_have_different_addresses() {
        let bot = Visitor { number: 0, is_bot: true, referrer: "" };
        let people = (0..PERSON_COUNT).map(|number| Visitor { number, is_bot: false, referrer: "" });
        let addresses: HashSet<_> = people.chain([bot]).map(Visitor::address).collect();
        assert_eq!(addresses.len(), 3001);
        assert!(addresses.iter().all(Ipv4Addr::is_loopback));
    }
}
