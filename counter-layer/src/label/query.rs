//! Values that owners write into the links to their site, such as `utm_campaign` in the query.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::text::Text;
use super::value::Value;
use crate::request::path::Characters;

/// Parameters with the site or newsletter that a link is part of, by precedence.
pub(super) const SOURCE: &[&str] = &["utm_source", "ref", "source"];
pub(super) const CAMPAIGN: &[&str] = &["utm_campaign", "utm_source", "ref", "source"];
pub(super) const MEDIUM: &[&str] = &["utm_medium"];
pub(super) const CONTENT: &[&str] = &["utm_content"];
pub(super) const TERM: &[&str] = &["utm_term"];

/// Maximum number of characters in a value. Longer values count as `(other)`.
const MAX_CHARACTERS: usize = 100;

/// Minimum number of letters and digits in a token.
const MIN_TOKEN_BYTES: usize = 20;

/// Minimum number of changes between letters and digits in a token. Names like `SpringSale2026Europe` have fewer.
const MIN_TOKEN_CHANGES: usize = 4;

/// Minimum number of digits in a phone number, including the country code.
const MIN_PHONE_DIGITS: usize = 8;

/// Returns `true` if a query may contain a source.
pub(super) fn has_source(query: &str) -> bool {
    SOURCE.iter().any(|name| query.contains(name))
}

/// Returns the value of the first of these parameters that is not blank.
pub(super) fn value<'a>(query: Option<&str>, names: &[&str], text: &'a mut Text) -> Value<'a> {
    let Some(query) = query else { return Value::None };
    let of = |name: &&str| {
        // In links that were escaped as HTML, parameters are separated by `&amp;`.
        let pairs = query.split('&').map(|pair| pair.strip_prefix("amp;").unwrap_or(pair));
        let mut values = pairs.filter_map(|pair| pair.strip_prefix(name)?.strip_prefix('='));
        values.find(|value| Text::new().extend(decoded(value)).is_none_or(|text| !text.trim().is_empty()))
    };
    let Some(value) = names.iter().find_map(of) else { return Value::None };
    let mut buffer = Text::new();
    let value = buffer.extend(decoded(value)).and_then(|value| normalized(value, text));
    value.filter(|value| !may_identify(value)).map_or(Value::Other, Value::Text)
}

/// Decodes a query value once. A percent sign that is not part of an encoding is kept.
fn decoded(value: &str) -> impl Iterator<Item = u8> {
    Characters(value.as_bytes()).map(|character| if character.raw == b"+" { b' ' } else { character.byte })
}

/// Trims a value, and merges spaces. Returns `None` if it is too long, or contains characters that can't be seen.
fn normalized<'a>(value: &str, text: &'a mut Text) -> Option<&'a str> {
    let (mut before, mut count) = (' ', 0);
    for c in value.trim().chars() {
        let c = if c.is_whitespace() && !c.is_control() { ' ' } else { c };
        if c == ' ' && before == ' ' {
            continue;
        }
        count += 1;
        if count > MAX_CHARACTERS || !is_allowed(c, before) {
            return None;
        }
        c.encode_utf8(&mut [0; 4]).bytes().try_for_each(|byte| text.push(byte))?;
        before = c;
    }
    text.as_str()
}

/// Returns `true` for a visible character, and for an invisible one that changes the character before.
///
/// Otherwise values that look the same could be different, and the direction of the text around a value could change.
fn is_allowed(c: char, before: char) -> bool {
    match c {
        // Joiners of scripts like Persian or Hindi, and of emoji.
        '\u{200c}' | '\u{200d}' => !before.is_ascii() && !matches!(before, '\u{200c}' | '\u{200d}'),
        // Variants of emoji, including digits on keycaps.
        '\u{fe00}'..='\u{fe0f}' => {
            let is_base = !(before == ' ' || before.is_ascii_alphabetic());
            is_base && !matches!(before, '\u{200c}' | '\u{200d}' | '\u{fe00}'..='\u{fe0f}')
        }
        // Variants in Mongolian and of ideographs.
        '\u{180b}'..='\u{180d}' | '\u{180f}' | '\u{e0100}'..='\u{e01ef}' => !before.is_ascii(),
        // The region of a flag.
        '\u{e0020}'..='\u{e007f}' => matches!(before, '\u{1f3f4}' | '\u{e0020}'..='\u{e007e}'),
        // Marks, embeddings, overrides and isolates of bidirectional text, and other invisible characters.
        '\u{ad}'
        | '\u{34f}'
        | '\u{61c}'
        | '\u{115f}'
        | '\u{1160}'
        | '\u{17b4}'
        | '\u{17b5}'
        | '\u{180e}'
        | '\u{200b}'..='\u{200f}'
        | '\u{202a}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}'
        | '\u{3164}'
        | '\u{feff}'
        | '\u{ffa0}'
        | '\u{fff0}'..='\u{fffb}'
        | '\u{1bca0}'..='\u{1bca3}'
        | '\u{1d173}'..='\u{1d17a}'
        | '\u{e0000}'..='\u{e0fff}' => false,
        _ => !c.is_control(),
    }
}

/// Returns `true` if a value may identify a person: a mail or IP address, a phone number, or a random token.
fn may_identify(value: &str) -> bool {
    has_mail_address(value) || has_ip_address(value) || has_phone_number(value) || has_token(value)
}

fn has_mail_address(value: &str) -> bool {
    // Some tools encode twice.
    ["@", "\u{ff20}", "%40"].iter().flat_map(|at| value.match_indices(at)).any(|(at, sign)| {
        let (user, host) = (&value[..at], &value[at + sign.len()..]);
        ![user.chars().next_back(), host.chars().next()]
            .iter()
            .any(|next| next.is_none_or(|next| next == ' '))
    })
}

fn has_ip_address(value: &str) -> bool {
    let words = value.split(|c: char| !(c.is_ascii_hexdigit() || c == '.' || c == ':'));
    // Words with a few colons are rarely addresses.
    words.filter(|word| word.len() > 6).any(|word| {
        word.parse::<Ipv4Addr>().is_ok()
            || (word.matches(':').count() > 2 && word.parse::<Ipv6Addr>().is_ok())
    })
}

fn has_phone_number(value: &str) -> bool {
    value.match_indices('+').any(|(at, plus)| {
        let is_start = value[..at].chars().next_back().is_none_or(|before| !before.is_alphanumeric());
        let number = value[at + plus.len()..].bytes();
        let digits = number.take_while(|byte| byte.is_ascii_digit() || b" -.()/".contains(byte));
        is_start && digits.filter(u8::is_ascii_digit).count() >= MIN_PHONE_DIGITS
    })
}

/// Returns `true` if there is a UUID, or a long word in which letters and digits alternate, like in a hash.
fn has_token(value: &str) -> bool {
    let changes = |word: &str| {
        let pairs = word.as_bytes().windows(2);
        pairs.filter(|pair| pair[0].is_ascii_digit() != pair[1].is_ascii_digit()).count()
    };
    let mut words = value.split(|c: char| !c.is_ascii_alphanumeric());
    words.any(|word| word.len() >= MIN_TOKEN_BYTES && changes(word) >= MIN_TOKEN_CHANGES)
        || value.as_bytes().windows(36).any(is_uuid)
}

fn is_uuid(text: &[u8]) -> bool {
    text.iter().enumerate().all(|(at, byte)| match at {
        8 | 13 | 18 | 23 => *byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(query: &str) -> Option<Option<String>> {
        match value(Some(query), CAMPAIGN, &mut Text::new()) {
            Value::None => None,
            Value::Other => Some(None),
            Value::Text(campaign) => Some(Some(campaign.to_owned())),
        }
    }

    /// Encodes all bytes.
    fn encoded(text: &str) -> String {
        text.bytes().map(|byte| format!("%{byte:02x}")).collect()
    }

    #[test]
    fn the_first_parameter_that_is_not_blank_is_used() {
        for (query, campaign) in [
            ("utm_campaign=spring", Some("spring")),
            ("a=b&utm_source=news&utm_campaign=Spring+sale%202026", Some("Spring sale 2026")),
            ("utm_source=letter&utm_campaign=", Some("letter")),
            ("utm_campaign=+%20&ref=hn&utm_source", Some("hn")),
            ("utm_campaign=%0b%C2%A0%E3%80%80&ref=hn", Some("hn")),
            ("utm_campaign=\u{b}", None),
            ("source=letter&ref=hn", Some("hn")),
            ("source=letter", Some("letter")),
            ("a=1&amp;utm_campaign=spring", Some("spring")),
            ("utm_campaign=&utm_campaign=spring", Some("spring")),
            ("utm_campaign=a=b", Some("a=b")),
            ("utm_campaign=+a%20+%E3%80%80%C2%A0b%0A", Some("a b")),
            // Decoded once.
            ("utm_campaign=50%25%2B+a%2520b", Some("50%+ a%20b")),
            ("utm_campaign=50%+off%2", Some("50% off%2")),
            ("utm_campaign=<script>", Some("<script>")),
            ("", None),
            ("utm_campaign", None),
            ("xutm_campaign=a&utm_campaignx=a&preferred=a", None),
        ] {
            assert_eq!(of(query), campaign.map(|campaign| Some(campaign.to_owned())), "{query}");
        }
        assert_eq!(value(None, CAMPAIGN, &mut Text::new()), Value::None);
        assert_eq!(value(Some("utm_term=shoes&utm_source=a"), TERM, &mut Text::new()), Value::Text("shoes"));
    }

    #[test]
    fn names_that_people_give_to_campaigns_are_kept() {
        let hundred = ["Hälfte"; 20].concat();
        for name in [
            "Are \"small\" sites fine?",
            "Summer '25: 1/2 (emea), A&B + 50 %",
            "' OR 1=1 --",
            "{{campaign.name}}",
            // Decomposed, as in names of files on macOS.
            "Cafe\u{301}",
            "हिन्दी",
            "می\u{200c}خواهم",
            "അവന\u{d4d}\u{200d}",
            "👨\u{200d}👩\u{200d}👧 ❤\u{fe0f}\u{200d}🔥 1\u{fe0f}\u{20e3}",
            "\u{1f3f4}\u{e0067}\u{e0062}\u{e0065}\u{e006e}\u{e0067}\u{e007f}",
            "עברית",
            // Ads are known by number.
            "120210012345678901",
            "@shop",
            "meet @ noon",
            "Black-Friday-2026-Q4_EMEA_v2-b2b-30off",
            "SummerSale2026LookalikeAudienceV2",
            "1.2.3",
            "one::two",
            "18+ 2026 01 02",
            &hundred[..hundred.char_indices().nth(100).map_or(hundred.len(), |(at, _)| at)],
        ] {
            assert_eq!(of(&format!("utm_campaign={}", encoded(name))), Some(Some(name.to_owned())), "{name}");
        }
    }

    #[test]
    fn persons_and_invisible_characters_are_not_named() {
        let long = "a".repeat(MAX_CHARACTERS + 1);
        for name in [
            "ann@example.com",
            "for ann@example.com",
            "ann%40example.com",
            "ann\u{ff20}example.com",
            "192.0.2.1",
            "from 2001:db8::1",
            "+41 79 123 45 67",
            "call +1(202)555-0100",
            "d41d8cd98f00b204e9800998ecf8427e",
            "id=01ARZ3NDEKTSV4RRFFQ69G5FAV",
            "YW5uQGV4YW1wbGUuY29t",
            "user-123e4567-e89b-12d3-a456-426614174000",
            "a\nb",
            "a\u{85}b",
            "a\u{202e}b",
            "a\u{2066}b\u{2069}",
            "a\u{200b}b",
            "soft\u{ad}hyphen",
            "a\u{200d}b",
            "\u{200d}ب",
            "ب\u{200d}\u{200d}ب",
            "a\u{fe0f}",
            "\u{e0067}",
            &long,
        ] {
            assert_eq!(of(&format!("utm_campaign={}", encoded(name))), Some(None), "{name}");
        }
        assert_eq!(of("utm_campaign=%ff"), Some(None));
    }

    proptest! {
        #[test]
        fn arbitrary_queries_yield_short_text_or_no_value(query in "(utm_campaign=)?(%[0-9a-fA-F]{2}|.){0,80}") {
            if let Some(Some(campaign)) = of(&query) {
                prop_assert!((1..=MAX_CHARACTERS).contains(&campaign.chars().count()));
                prop_assert!(!campaign.chars().any(char::is_control) && campaign.trim() == campaign);
                // A value that is read again is the same.
                prop_assert_eq!(of(&format!("ref={}", encoded(&campaign))), Some(Some(campaign)));
            }
        }
    }
}
