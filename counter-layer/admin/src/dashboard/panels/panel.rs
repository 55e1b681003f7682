//! A panel that ranks values.

use super::name::Name;
use crate::dashboard::format::numbers::Change;
use crate::text::digits;

/// A panel with a list of values and their share.
#[derive(Debug)]
pub(crate) struct Panel {
    pub(crate) id: String,
    pub(crate) title: String,
    pub(crate) rows: Vec<PanelRow>,
    /// A hint, e.g. on omitted values.
    pub(crate) note: Option<String>,
}

impl Panel {
    /// Returns `true` if no hits were counted. If values can't be shown, there is a note.
    fn is_empty(&self) -> bool {
        self.rows.is_empty() && self.note.is_none()
    }

    /// Returns `true` if any row has a change.
    pub(crate) fn is_compared(&self) -> bool {
        self.rows.iter().any(|row| row.change.is_some())
    }
}

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
