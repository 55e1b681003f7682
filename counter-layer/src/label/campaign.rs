//! The campaign of a link: `utm_campaign` in the query, otherwise `utm_source`.

use super::text::Text;
use super::value::Value;

/// Maximum length of a campaign in bytes. Longer values count as `(other)`.
const MAX_BYTES: usize = 64;

pub(super) fn campaign<'a>(query: Option<&str>, text: &'a mut Text) -> Value<'a> {
    let query = query.unwrap_or_default();
    let of = |key: &str| {
        let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
        pairs.find(|(name, value)| *name == key && !value.is_empty()).map(|(_, value)| value)
    };
    match of("utm_campaign").or_else(|| of("utm_source")) {
        None => Value::None,
        Some(value) => decoded(value.as_bytes(), text).map_or(Value::Other, Value::Text),
    }
}

/// Decodes a query value if it is a valid campaign, i.e. letters, digits and some punctuation. Other
/// characters may be part of a mail address or a link.
fn decoded<'a>(value: &[u8], text: &'a mut Text) -> Option<&'a str> {
    let mut bytes = value.iter().copied();
    let mut length = 0;
    while let Some(byte) = bytes.next() {
        let byte = match byte {
            b'+' => b' ',
            b'%' => {
                let mut digit =
                    || char::from(bytes.next()?).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
                digit()? << 4 | digit()?
            }
            byte => byte,
        };
        length += 1;
        if length > MAX_BYTES {
            return None;
        }
        text.push(byte)?;
    }
    let campaign = text.as_str()?.trim();
    let is_allowed = |c: char| c.is_alphanumeric() || " -_.|".contains(c);
    (!campaign.is_empty() && campaign.chars().all(is_allowed)).then_some(campaign)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(query: &str) -> Option<Option<String>> {
        match campaign(Some(query), &mut Text::new()) {
            Value::None => None,
            Value::Other => Some(None),
            Value::Text(campaign) => Some(Some(campaign.to_owned())),
        }
    }

    #[test]
    fn a_campaign_is_a_short_query_value() {
        for (query, campaign) in [
            ("utm_campaign=spring", Some("spring")),
            ("a=b&utm_source=news&utm_campaign=Spring+sale%202026", Some("Spring sale 2026")),
            ("utm_source=letter&utm_campaign=", Some("letter")),
            ("utm_campaign=fr%C3%BChling", Some("frühling")),
            ("utm_campaign=ann%40example.com", None),
            ("utm_campaign=https://example.com", None),
            ("utm_campaign=a%0Aa", None),
            ("utm_campaign=%ff", None),
            ("utm_campaign=%2", None),
            ("utm_campaign=++", None),
        ] {
            assert_eq!(of(query), Some(campaign.map(ToOwned::to_owned)), "{query}");
        }
        assert_eq!(of(&format!("utm_campaign={}", "a".repeat(65))), Some(None));
        assert_eq!((of(""), of("utm_campaign"), of("xutm_campaign=a")), (None, None, None));
    }

    proptest! {
        #[test]
        fn arbitrary_queries_yield_short_text_or_no_value(query in "(utm_campaign=)?(%[0-9a-fA-F]{2}|.){0,80}") {
            if let Some(Some(campaign)) = of(&query) {
                prop_assert!(campaign.len() <= MAX_BYTES && !campaign.chars().any(char::is_control));
                prop_assert!(!campaign.starts_with('('));
            }
        }
    }
}
