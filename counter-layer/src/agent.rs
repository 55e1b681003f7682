//! Who says of itself to be a program.

use http::{HeaderMap, header};

const BOTS: [&[u8]; 6] = [b"bot", b"crawl", b"spider", b"slurp", b"monitor", b"http"];

/// Whether the user agent has a word of those, in any case, or is missing. Googlebot has its own
/// address in it, and so have most: that is what `http` finds.
pub(crate) fn is_bot(headers: &HeaderMap) -> bool {
    let agent = headers.get(header::USER_AGENT).map_or(&b""[..], |agent| agent.as_bytes());
    let says = |word: &&[u8]| agent.windows(word.len()).any(|window| window.eq_ignore_ascii_case(word));
    agent.is_empty() || BOTS.iter().any(says)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bot_is_who_says_so() {
        for (agent, bot) in [
            ("Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0", false),
            ("Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) Safari/604.1", false),
            ("Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)", true),
            ("SomeSPIDER 1.0", true),
            ("python-httpx/0.28", true),
            ("", true),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::USER_AGENT, agent.parse().expect("a value"));
            assert_eq!(is_bot(&headers), bot, "{agent}");
        }
        assert!(is_bot(&HeaderMap::new()));
    }
}
