//! The panel of bots, grouped by purpose.

use std::cmp::Reverse;
use std::collections::HashMap;

use counter_layer::internal::BOT_LABEL;
use counter_layer::{Bot, Purpose};

use super::describe::operator;
use super::name::Name;
use super::panel::{self, Panel, PanelRow, Role};
use crate::dashboard::format::names;
use crate::dashboard::format::numbers;
use crate::dashboard::period_reader::Before;
use crate::text::digits;

/// The maximum number of bots to read.
pub(crate) const MAX_BOTS: usize = 50;

/// The maximum number of bots to show for a purpose.
const MAX_SHOWN: usize = 3;

/// The clients of a site or a page.
pub(crate) struct Clients {
    pub(crate) people: u64,
    /// Hits that are not by people. On a page, this includes hits with an unknown client.
    pub(crate) others: u64,
    pub(crate) of_page: bool,
    /// Descriptions of limits that apply.
    pub(crate) limits: Vec<String>,
}

/// The bots with the same purpose.
struct Group {
    purpose: Purpose,
    /// In descending order.
    bots: Vec<Counted>,
    hits: u64,
    /// Hits in the compared period, if known.
    before: Option<u64>,
}

struct Counted {
    name: String,
    address: String,
    operator: Option<&'static str>,
    hits: u64,
    before: Before,
}

/// Creates the panel for the names with the most hits, and the hits of bots and people. `before` returns the total of a
/// name in the compared period, and `address` the URL of its page.
pub(crate) fn panel(
    values: Vec<(String, u64)>,
    clients: &Clients,
    before: &impl Fn(&str) -> Before,
    address: &impl Fn(&str) -> Option<String>,
) -> Panel {
    let known: HashMap<_, _> = Bot::all().map(|bot| (bot.name(), bot)).collect();
    let mut groups: Vec<_> = Purpose::ALL.into_iter().map(Group::new).collect();
    for (name, hits) in values {
        let Some(address) = address(&name) else { continue };
        let bot = known.get(name.as_str());
        // The store can contain names that this version does not know.
        let purpose = bot.map_or(Purpose::Other, Bot::purpose);
        let (operator, before) = (bot.and_then(operator), before(&name));
        let counted = Counted { name, address, operator, hits, before };
        let group = groups.iter_mut().find(|group| group.purpose == purpose).expect("every purpose");
        group.add(counted);
    }
    groups.retain(|group| group.hits > 0);
    groups.sort_by_key(|group| Reverse(group.hits));
    let max = groups.first().map_or(0, |group| group.hits);
    let listed = groups.iter().map(|group| group.hits).fold(0, u64::saturating_add);
    // The rest of a page may be hits of people.
    let (all, others) =
        if clients.of_page { (listed, "not attributed") } else { (clients.others, "by other bots") };
    let rows = groups.iter().flat_map(|group| group.rows(all, max)).collect();
    let counts = [(clients.others.saturating_sub(listed), others), (clients.people, "by people")];
    let note = panel::note(&counts, &clients.limits);
    Panel { id: format!("label-{BOT_LABEL}"), title: "Crawlers".to_owned(), rows, note, ..Panel::default() }
}

impl Group {
    const fn new(purpose: Purpose) -> Self {
        Self { purpose, bots: Vec::new(), hits: 0, before: Some(0) }
    }

    fn add(&mut self, bot: Counted) {
        self.hits = self.hits.saturating_add(bot.hits);
        self.before = self.before.zip(bot.before.total()).map(|(sum, before)| sum.saturating_add(before));
        self.bots.push(bot);
    }

    /// Returns the row of the purpose, and rows of the bots with the most hits.
    fn rows(&self, total: u64, max: u64) -> Vec<PanelRow> {
        let row = |name: &str, hits: u64, before: Before, address: String, role| PanelRow {
            name: Name::new(name),
            description: None,
            address,
            value: digits::grouped(hits),
            share: numbers::share(hits, total),
            // The change has no color, because more bots can be good or bad.
            change: before.with(Some(hits)).change().map(numbers::Change::neutral),
            percent: numbers::percent(hits, max).to_string(),
            role,
        };
        let purpose = names::capitalized(self.purpose.as_str());
        let before = self.before.map_or(Before::Unknown, Before::Known);
        let heading = row(&purpose, self.hits, before, String::new(), Role::Heading);
        let bots = self.bots.iter().take(MAX_SHOWN).map(|bot| {
            let row = row(&bot.name, bot.hits, bot.before, bot.address.clone(), Role::Member);
            PanelRow { description: bot.operator.map(str::to_owned), ..row }
        });
        [heading].into_iter().chain(bots).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bots_are_grouped_by_purpose() {
        let hits = [("GPTBot", 40), ("Googlebot", 30), ("ClaudeBot", 20), ("Bingbot", 10), ("Futurebot", 5)];
        let values = hits.map(|(name, hits)| (name.to_owned(), hits)).to_vec();
        let before = |of: &str| {
            let known = hits.iter().find(|(name, _)| *name == of && of != "Bingbot");
            known.map_or(Before::Unknown, |(_, hits)| Before::Known(hits / 2))
        };
        let clients =
            |of_page| Clients { people: 895, others: 120, of_page, limits: vec!["too many".to_owned()] };
        let panel =
            |of_page| panel(values.clone(), &clients(of_page), &before, &|name| Some(format!("/{name}")));
        let (of_page, panel) = (panel(true), panel(false));
        let rows: Vec<_> = panel
            .rows
            .iter()
            .map(|row| (&*row.name.whole, &*row.value, row.role, row.description.as_deref()))
            .collect();
        let expected = [
            ("AI training", "60", Role::Heading, None),
            ("GPTBot", "40", Role::Member, Some("OpenAI")),
            ("ClaudeBot", "20", Role::Member, Some("Anthropic")),
            ("Search engine", "40", Role::Heading, None),
            ("Googlebot", "30", Role::Member, None),
            ("Bingbot", "10", Role::Member, Some("Microsoft")),
            ("Other", "5", Role::Heading, None),
            ("Futurebot", "5", Role::Member, None),
        ];
        assert_eq!(rows, expected);
        let changes: Vec<_> =
            panel.rows.iter().map(|row| row.change.as_ref().map(|change| &*change.text)).collect();
        assert_eq!(changes[..5], [Some("+100 %"), Some("+100 %"), Some("+100 %"), None, Some("+100 %")]);
        assert_eq!(panel.rows[0].share.as_deref(), Some("50.0 %"));
        assert_eq!(panel.note.as_deref(), Some("15 by other bots; 895 by people; too many."));
        assert_eq!(of_page.rows[0].share.as_deref(), Some("57.1 %"));
        assert_eq!(of_page.note.as_deref(), Some("15 not attributed; 895 by people; too many."));
    }
}
