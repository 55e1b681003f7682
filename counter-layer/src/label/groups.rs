//! Names for the sites and apps that people come from.

use std::fmt;

use super::text::Text;
use crate::recent::Recent;

/// A site or app that people come from, as counted by [`Label::source`](crate::Label::source).
///
/// ```
/// use counter_layer::{SourceGroup, SourceKind};
///
/// let group = SourceGroup::of_host("l.facebook.com").expect("a known host");
/// assert_eq!((group.name(), group.kind()), ("Facebook", SourceKind::Social));
/// for host in ["google.de", "www.google.co.uk", "com.google.android.googlequicksearchbox"] {
///     assert_eq!(SourceGroup::of_host(host).map(|group| group.name()), Some("Google"));
/// }
/// assert!(SourceGroup::of_host("blog.example").is_none());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SourceGroup {
    name: &'static str,
    kind: SourceKind,
}

/// The kind of a [`SourceGroup`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum SourceKind {
    /// A search engine.
    Search,
    /// A social network, forum or messenger.
    Social,
    /// A mail program or provider.
    Mail,
    /// An AI assistant.
    Assistant,
    /// Any other kind, e.g. a feed reader.
    Other,
}

/// The known groups, for lookups.
#[derive(Debug)]
pub(super) struct Groups {
    /// Hosts, and ids of apps, in ascending order.
    hosts: Box<[(&'static str, SourceGroup)]>,
    /// Hosts without the domain of the country, in ascending order.
    countries: Box<[(&'static str, SourceGroup)]>,
    /// Words in a query, [squashed](squashed), in ascending order.
    words: Box<[(String, SourceGroup)]>,
    all: Box<[SourceGroup]>,
    /// The place of the group in `all` plus one, or 0, for recent hosts.
    recent: Recent,
}

/// The known groups, by kind. The format is described in the file.
const TABLE: &str = include_str!("groups.txt");

/// Ends of hosts that are known in the domains of all countries.
const COUNTRIES: &str = ".*";

impl SourceGroup {
    /// Returns the group of a host, or of an app by the id of its Android version. A host includes its subdomains.
    ///
    /// This reads the table, so it takes some microseconds.
    #[must_use]
    pub fn of_host(host: &str) -> Option<Self> {
        Groups::default().of_host(host)
    }

    /// Returns all known groups.
    pub fn all() -> impl Iterator<Item = Self> {
        rows().map(|(group, _)| group)
    }

    /// Returns the name, which is the value of the label.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// Returns the kind.
    #[must_use]
    pub const fn kind(&self) -> SourceKind {
        self.kind
    }
}

impl SourceKind {
    /// All kinds.
    pub const ALL: [Self; 5] = [Self::Search, Self::Social, Self::Mail, Self::Assistant, Self::Other];

    /// Returns the kind as text, e.g. `search`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Search => "search",
            Self::Social => "social",
            Self::Mail => "mail",
            Self::Assistant => "assistant",
            Self::Other => "other",
        }
    }
}

impl Groups {
    /// Returns the group of a host in lower case. The longest known host counts.
    pub(super) fn of_host(&self, host: &str) -> Option<SourceGroup> {
        let after_dots = host.match_indices('.').map(|(dot, _)| &host[dot + 1..]);
        std::iter::once(host).chain(after_dots).find_map(|host| {
            let in_any_country = || without_country(host).find_map(|host| find(&self.countries, host));
            find(&self.hosts, host).or_else(in_any_country)
        })
    }

    /// Returns the group of a host like [`of_host`](Self::of_host), from a cache if possible. The host may be any bytes:
    /// only one that needs no validation has a group.
    pub(super) fn recent(&self, host: &[u8]) -> Option<SourceGroup> {
        let place = self.recent.number(host, 0, || {
            let is_plain =
                |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b".-".contains(byte);
            let host = std::str::from_utf8(host).ok().filter(|host| host.as_bytes().iter().all(is_plain));
            let group = host.and_then(|host| self.of_host(host));
            (0..).zip(&self.all).find(|(_, one)| Some(**one) == group).map_or(0, |(place, _)| place + 1)
        });
        self.all.get(usize::try_from(place).ok()?.checked_sub(1)?).copied()
    }

    /// Returns the group of a word in a query.
    pub(super) fn of_word(&self, word: &str) -> Option<SourceGroup> {
        let mut text = Text::new();
        for c in squashed(word) {
            c.encode_utf8(&mut [0; 4]).bytes().try_for_each(|byte| text.push(byte))?;
        }
        find(&self.words, text.as_str()?)
    }
}

impl Default for Groups {
    fn default() -> Self {
        let (mut hosts, mut countries) = (Vec::new(), Vec::new());
        let mut words = Vec::<(String, SourceGroup)>::new();
        for (group, columns) in rows() {
            words.push((squashed(group.name).collect(), group));
            for word in columns.split(',').map(str::trim) {
                match word.strip_suffix(COUNTRIES) {
                    Some(host) => countries.push((host, group)),
                    None if word.contains('.') => hosts.push((word, group)),
                    None => words.push((squashed(word).collect(), group)),
                }
            }
        }
        hosts.sort_unstable_by_key(|(host, _)| *host);
        countries.sort_unstable_by_key(|(host, _)| *host);
        words.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        let all = SourceGroup::all().collect();
        let recent = Recent::default();
        Self { hosts: hosts.into(), countries: countries.into(), words: words.into(), all, recent }
    }
}

fn find<T: AsRef<str>>(all: &[(T, SourceGroup)], text: &str) -> Option<SourceGroup> {
    let at = all.binary_search_by(|(other, _)| other.as_ref().cmp(text)).ok()?;
    Some(all[at].1)
}

/// Returns a host without `.com`, `.de` and the like, and without `.co.uk`, `.com.br` and the like.
fn without_country(host: &str) -> impl Iterator<Item = &str> {
    let below = host.rsplit_once('.');
    let second_level = below.filter(|(_, country)| country.len() == 2).and_then(|(below, _)| {
        ["co", "com"].iter().find_map(|level| below.strip_suffix(level)?.strip_suffix('.'))
    });
    below.map(|(below, _)| below).into_iter().chain(second_level)
}

/// Returns a text without spaces and punctuation, in lower case.
fn squashed(text: &str) -> impl Iterator<Item = char> {
    text.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase)
}

/// Returns the groups with what identifies them, separated by commas.
fn rows() -> impl Iterator<Item = (SourceGroup, &'static str)> {
    let mut kind = SourceKind::Other;
    TABLE.lines().filter_map(move |line| {
        if let Some(section) = line.strip_prefix('[').and_then(|section| section.strip_suffix(']')) {
            let is_section = |kind: &SourceKind| kind.as_str().eq_ignore_ascii_case(section);
            kind = SourceKind::ALL.into_iter().find(is_section).expect("a kind");
            return None;
        }
        let (name, columns) = line.split_once('|').filter(|_| !line.starts_with('#'))?;
        Some((SourceGroup { name: name.trim(), kind }, columns))
    })
}

impl fmt::Display for SourceGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name)
    }
}

impl fmt::Display for SourceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_known_host_names_the_group() {
        let groups = Groups::default();
        for (host, name) in [
            ("google.com", Some("Google")),
            ("google.com.br", Some("Google")),
            ("lens.google.co", Some("Google")),
            ("mail.google.com", Some("Gmail")),
            ("news.google.com", Some("Google News")),
            ("scholar.google.co.uk", Some("Google Scholar")),
            ("com.google.android.gm", Some("Gmail")),
            ("uk.search.yahoo.com", Some("Yahoo")),
            ("r.search.yahoo.com", Some("Yahoo")),
            ("mail.yahoo.co.jp", Some("Yahoo Mail")),
            ("l.facebook.com", Some("Facebook")),
            ("t.co", Some("X")),
            ("de.wikipedia.org", Some("Wikipedia")),
            ("yandex.com.tr", Some("Yandex")),
            ("gemini.google.com", Some("Gemini")),
            ("google.evil.example", None),
            ("google.com.evil.example", None),
            ("notgoogle.com", None),
            ("google", None),
            ("com", None),
            ("someone.github.io", None),
            ("at.co", None),
            ("", None),
        ] {
            assert_eq!(groups.of_host(host).map(|group| group.name), name, "{host}");
        }
        for (word, name) in [
            ("google", Some("Google")),
            ("HackerNews", Some("Hacker News")),
            ("hacker-news", Some("Hacker News")),
            ("fb", Some("Facebook")),
            ("Twitter", Some("X")),
            ("newsletter", None),
            ("", None),
        ] {
            assert_eq!(groups.of_word(word).map(|group| group.name), name, "{word}");
        }
    }

    #[test]
    fn the_table_has_no_entry_twice() {
        let Groups { hosts, countries, words, .. } = Groups::default();
        assert!(hosts.len() > 200 && hosts.is_sorted_by(|(one, _), (other, _)| one < other), "{hosts:?}");
        assert!(countries.is_sorted_by(|(one, _), (other, _)| one < other), "{countries:?}");
        assert!(words.is_sorted_by(|(one, _), (other, _)| one < other), "{words:?}");
        let names: Vec<_> = rows().map(|(group, _)| group.name).collect();
        assert!(names.iter().all(|name| !name.is_empty() && !name.contains(['(', ':'])), "{names:?}");
    }
}
