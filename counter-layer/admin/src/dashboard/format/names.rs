//! Readable names of label values.

use std::borrow::Cow;

/// Names of countries in English as in CLDR, by the code of ISO 3166-1 in ascending order.
const COUNTRIES: &str = include_str!("names/countries.txt");

/// Names of languages in English as in CLDR, by the code of ISO 639-1 in ascending order.
const LANGUAGES: &str = include_str!("names/languages.txt");

/// Names that are not the capitalized value.
const OTHERS: [(&str, &str); 4] =
    [("duckduckgo", "DuckDuckGo"), ("samsung", "Samsung Internet"), ("tv", "TV"), ("uc", "UC Browser")];

/// Titles of the built-in labels.
const TITLES: [(&str, &str); 14] = [
    ("address", "Addresses"),
    ("bot", "Crawlers"),
    ("broken_link", "Broken links"),
    ("browser", "Browsers"),
    ("campaign", "Campaigns"),
    ("content", "Campaign contents"),
    ("country", "Countries"),
    ("device", "Devices"),
    ("language", "Languages"),
    ("medium", "Campaign mediums"),
    ("not_found", "Missing pages"),
    ("referrer", "Referrers"),
    ("source", "Sources"),
    ("term", "Campaign terms"),
];

/// Returns the title of a label, which is its name if it is not built in.
pub(crate) fn title(label: &str) -> &str {
    TITLES.iter().find(|(known, _)| *known == label).map_or(label, |(_, title)| title)
}

/// Returns the name of a value as people know it: `Germany` instead of `DE`.
pub(crate) fn readable<'a>(label: &str, value: &'a str) -> Cow<'a, str> {
    let name = match label {
        "country" => of_code(COUNTRIES, &value.to_ascii_uppercase()),
        "language" => of_code(LANGUAGES, &value.to_ascii_lowercase()),
        "browser" | "device" => OTHERS.iter().find(|(known, _)| *known == value).map(|(_, name)| *name),
        _ => return Cow::Borrowed(value),
    };
    name.map_or_else(|| Cow::Owned(capitalized(value)), Cow::Borrowed)
}

/// Returns the text with a first letter in upper case.
pub(crate) fn capitalized(text: &str) -> String {
    let mut text = text.to_owned();
    if let Some(first) = text.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    text
}

fn of_code(names: &'static str, code: &str) -> Option<&'static str> {
    names.lines().find_map(|line| line.strip_prefix(code)?.strip_prefix(' '))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_the_names_that_people_know() {
        for (label, value, name) in [
            ("country", "DE", "Germany"),
            ("country", "de", "Germany"),
            ("country", "ZZ", "ZZ"),
            ("language", "en", "English"),
            ("language", "ja", "Japanese"),
            ("language", "tlh", "Tlh"),
            ("browser", "chrome", "Chrome"),
            ("browser", "samsung", "Samsung Internet"),
            ("device", "tv", "TV"),
            ("device", "mobile", "Mobile"),
            ("plan", "free", "free"),
        ] {
            assert_eq!(readable(label, value), name, "{label} {value}");
        }
    }

    #[test]
    fn codes_are_unique_and_in_order() {
        for (names, length) in [(COUNTRIES, 250), (LANGUAGES, 183)] {
            let codes: Vec<_> = names.lines().map(|line| line.split_once(' ').expect("a name").0).collect();
            assert!(codes.is_sorted_by(|one, other| one < other) && codes.iter().all(|code| code.len() == 2));
            assert_eq!(codes.len(), length);
        }
    }
}
