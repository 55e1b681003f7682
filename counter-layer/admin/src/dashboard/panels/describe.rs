//! Readable names and descriptions of label values.

use std::collections::HashMap;

use counter_layer::internal::{BOT_LABEL, SOURCE_LABEL};
use counter_layer::{Bot, SourceGroup};

use crate::dashboard::format::counters::{BROKEN_LINKS, MISSING_PAGES, path_and_host};
use crate::dashboard::format::names;
use crate::text::digits;

/// The value of requests without a value.
pub(super) const NONE: &str = "(none)";

/// The maximum number of hosts to show for a missing page.
const MAX_HOSTS: usize = 3;

/// Describes the values of a label.
#[derive(Debug)]
pub(super) enum Values<'a> {
    /// Bots, with purpose and operator.
    Bots(HashMap<&'static str, Bot>),
    /// Groups of referrers, with their kind.
    Sources(HashMap<&'static str, &'static str>),
    /// Paths of missing pages, and the broken links to them with their hits.
    Missing(HashMap<&'a str, Vec<(&'a str, u64)>>),
    /// Paths of missing pages, each followed by the host that links to it.
    BrokenLinks,
    Other(&'a str),
}

impl<'a> Values<'a> {
    /// `links` are the values of broken links, most hits first.
    pub(super) fn of(label: &'a str, links: &'a [(String, u64)]) -> Self {
        match label {
            BOT_LABEL => Self::Bots(Bot::all().map(|bot| (bot.name(), bot)).collect()),
            SOURCE_LABEL => {
                Self::Sources(SourceGroup::all().map(|group| (group.name(), group.kind().as_str())).collect())
            }
            MISSING_PAGES => Self::Missing(by_path(links)),
            BROKEN_LINKS => Self::BrokenLinks,
            _ => Self::Other(label),
        }
    }

    /// Returns the name of a value, and its description.
    pub(super) fn describe(&self, value: &str) -> (String, Option<String>) {
        match self {
            Self::Bots(known) => {
                let description = |bot: &Bot| {
                    let purpose = names::capitalized(bot.purpose().as_str());
                    let operator = operator(bot).map(|operator| format!(", {operator}"));
                    purpose + &operator.unwrap_or_default()
                };
                (value.to_owned(), known.get(value).map(description))
            }
            Self::Sources(kinds) => match value {
                NONE => ("Direct".to_owned(), None),
                _ => (value.to_owned(), kinds.get(value).map(|kind| (*kind).to_owned())),
            },
            Self::Missing(links) => (path_and_host(value).0, links.get(value).map(|hosts| linking(hosts))),
            Self::BrokenLinks => {
                let (path, host) = path_and_host(value);
                (path, host.map(|host| format!("from {host}")))
            }
            Self::Other(label) => (names::readable(label, value).into_owned(), None),
        }
    }

    /// Returns `true` if neither more nor fewer hits are an improvement.
    pub(super) const fn is_neutral(&self) -> bool {
        matches!(self, Self::Bots(_) | Self::Missing(_) | Self::BrokenLinks)
    }
}

/// Returns the operator of a bot, unless the bot is named like it.
pub(super) fn operator(bot: &Bot) -> Option<&'static str> {
    bot.operator().filter(|operator| !bot.name().starts_with(operator))
}

/// Returns the hosts that link to each missing page, given the values of broken links.
fn by_path(links: &[(String, u64)]) -> HashMap<&str, Vec<(&str, u64)>> {
    let mut paths = HashMap::<_, Vec<_>>::new();
    for (value, hits) in links {
        if let Some((path, host)) = value.split_once(' ') {
            paths.entry(path).or_default().push((host, *hits));
        }
    }
    paths
}

/// Describes the hosts that link to a missing page, most hits first.
fn linking(hosts: &[(&str, u64)]) -> String {
    let host = |(host, hits): &(&str, u64)| format!("{host} {}", digits::grouped(*hits));
    format!("from {}", hosts.iter().take(MAX_HOSTS).map(host).collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_names_and_descriptions() {
        let links =
            [("/old%20page news.example", 1200), ("/other b.example", 7), ("/old%20page a.example", 3)];
        let links = links.map(|(value, hits)| (value.to_owned(), hits));
        for (label, value, name, description) in [
            ("not_found", "/old%20page", "/old page", Some("from news.example 1,200, a.example 3")),
            ("not_found", "/%FF%0A", "/\u{fffd}\u{fffd}", None),
            ("broken_link", "/caf%C3%A9 news.example", "/café", Some("from news.example")),
            ("source", "Google", "Google", Some("search")),
            ("source", "news.example", "news.example", None),
            ("source", NONE, "Direct", None),
            ("bot", "GPTBot", "GPTBot", Some("AI training, OpenAI")),
            ("bot", "UptimeRobot", "UptimeRobot", Some("Monitoring")),
            ("bot", "Futurebot", "Futurebot", None),
            ("country", "JP", "Japan", None),
            ("plan", "free", "free", None),
        ] {
            let found = Values::of(label, &links).describe(value);
            assert_eq!((&*found.0, found.1.as_deref()), (name, description), "{label} {value}");
        }
    }
}
