//! A panel that ranks values.

use super::name::Name;
use crate::dashboard::format::numbers::Change;
use crate::dashboard::reader::Reader;
use crate::text::digits;

/// A panel with a list of values and their share.
#[derive(Debug, Default)]
pub(crate) struct Panel {
    pub(crate) id: String,
    pub(crate) title: String,
    pub(crate) rows: Vec<PanelRow>,
    /// What the two numbers of a row are.
    pub(crate) heads: Option<[&'static str; 2]>,
    /// A hint, e.g. on omitted values.
    pub(crate) note: Option<String>,
    /// The URL of the list of all values, if there is one.
    pub(crate) all: Option<String>,
}

impl Panel {
    /// Returns `true` if no hits were counted. If values can't be shown, there is a note.
    fn is_empty(&self) -> bool {
        self.rows.is_empty() && self.note.is_none()
    }

    /// Removes the shares of hits while a site is away, because it may have others.
    pub(super) fn known_to(mut self, reader: &Reader<'_>) -> Self {
        if !reader.is_complete() {
            self.rows.iter_mut().for_each(|row| row.share = None);
        }
        self
    }

    /// Returns `true` if any row has a change.
    pub(crate) fn is_compared(&self) -> bool {
        self.rows.iter().any(|row| row.change.is_some())
    }
}

/// Panels in the same place, of which one is shown.
#[derive(Debug)]
pub(crate) struct Tabs {
    pub(crate) id: &'static str,
    pub(crate) title: String,
    pub(crate) panels: Vec<Panel>,
}

impl Tabs {
    /// Takes the panels with these ids, in this order. Returns `None` if there are none. A panel without hits in the period
    /// stays, because an open page may get some.
    pub(crate) fn take(id: &'static str, title: &str, ids: &[&str], all: &mut Vec<Panel>) -> Option<Self> {
        let take = |id: &&str| {
            let place = all.iter().position(|panel| panel.id == **id)?;
            Some(all.remove(place))
        };
        let panels: Vec<_> = ids.iter().filter_map(take).collect();
        let title = match &*panels {
            [] => return None,
            [panel] => panel.title.clone(),
            _ => title.to_owned(),
        };
        Some(Self { id, title, panels })
    }
}

/// The panels of the site, in the order of the questions that they answer.
#[derive(Debug)]
pub(crate) struct Layout {
    pub(crate) sources: Option<Tabs>,
    pub(crate) addresses: Option<Panel>,
    pub(crate) to_fix: Option<Tabs>,
    pub(crate) people: Option<Tabs>,
    pub(crate) crawlers: Option<Tabs>,
    pub(crate) others: Panels,
    pub(crate) service: Vec<Panel>,
    /// What is not recorded, as a list.
    pub(crate) unrecorded: Option<String>,
}

impl Layout {
    pub(crate) fn of(mut all: Vec<Panel>, service: Vec<Panel>) -> Self {
        let is_missing = |id: &str| all.iter().all(|panel| panel.id != id);
        let unrecorded = EXPECTED.into_iter().filter(|(id, _)| is_missing(id)).map(|(_, title)| title);
        let unrecorded = unrecorded.collect::<Vec<_>>().join(", ");
        let mut tabs = |id, title, ids: &[&str]| Tabs::take(id, title, ids, &mut all);
        Self {
            sources: tabs("came-from", "Sources", &SOURCES),
            addresses: tabs("addresses", "Addresses", &["label-address"])
                .and_then(|mut tabs| tabs.panels.pop()),
            to_fix: tabs("to-fix", "To fix", &["label-not_found", "label-broken_link", "slowest"]),
            people: tabs("people-by", "People", &PEOPLE),
            crawlers: tabs("crawlers", "Crawlers", &["label-bot"]),
            others: Panels::of(all),
            service,
            unrecorded: (!unrecorded.is_empty()).then_some(unrecorded),
        }
    }
}

/// The panels that most sites have.
const EXPECTED: [(&str, &str); 8] = [
    ("label-source", "sources"),
    ("label-campaign", "campaigns"),
    ("label-address", "addresses"),
    ("label-device", "devices"),
    ("label-browser", "browsers"),
    ("label-country", "countries"),
    ("label-language", "languages"),
    ("label-bot", "crawlers"),
];

/// Where people come from.
const SOURCES: [&str; 6] =
    ["label-source", "label-referrer", "label-campaign", "label-medium", "label-content", "label-term"];

/// Who they are.
const PEOPLE: [&str; 4] = ["label-device", "label-browser", "label-country", "label-language"];

/// The panels of a page.
#[derive(Debug)]
pub(crate) struct Panels {
    pub(crate) shown: Vec<Panel>,
    /// The titles of panels without data, as a list.
    pub(crate) empty: Option<String>,
}

impl Panels {
    pub(crate) fn of(panels: Vec<Panel>) -> Self {
        let (empty, shown): (Vec<_>, Vec<_>) = panels.into_iter().partition(Panel::is_empty);
        let titles: Vec<_> = empty.iter().map(|panel| &*panel.title).collect();
        Self { shown, empty: (!titles.is_empty()).then(|| titles.join(", ")) }
    }
}

/// A row of a panel.
#[derive(Debug)]
pub(crate) struct PanelRow {
    pub(crate) name: Name,
    /// A hint below the name.
    pub(crate) description: Option<String>,
    /// The URL of its page. Empty if there is none.
    pub(crate) address: String,
    pub(crate) value: String,
    pub(crate) share: Option<String>,
    /// The change from the compared period, if known.
    pub(crate) change: Option<Change>,
    /// Percentage relative to the largest value.
    pub(crate) percent: String,
    pub(crate) role: Role,
}

impl PanelRow {
    pub(crate) fn is_heading(&self) -> bool {
        self.role == Role::Heading
    }

    pub(crate) fn is_member(&self) -> bool {
        self.role == Role::Member
    }

    /// Removes the color of the change.
    pub(super) fn neutral(&mut self) {
        self.change = self.change.take().map(Change::neutral);
    }
}

/// The role of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Value,
    /// The sum of the following members, without an address.
    Heading,
    /// A value in a group.
    Member,
}

/// Describes counts that are not shown as a row, if they are not 0, and limits.
pub(crate) fn note(counts: &[(u64, &str)], limits: &[String]) -> Option<String> {
    let counts = counts.iter().filter(|(count, _)| *count > 0);
    let counts = counts.map(|(count, description)| format!("{} {description}", digits::grouped(*count)));
    let notes: Vec<_> = counts.chain(limits.iter().cloned()).collect();
    (!notes.is_empty()).then(|| format!("{}.", notes.join("; ")))
}
