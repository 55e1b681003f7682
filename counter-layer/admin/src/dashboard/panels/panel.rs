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
    /// Explains why there are no rows. The note contains the numbers, if any hits were counted.
    pub(crate) const fn reason_if_empty(&self) -> &'static str {
        if self.note.is_some() { "No value to show" } else { "No data yet" }
    }

    /// Returns `true` if any row has a change.
    pub(crate) fn is_compared(&self) -> bool {
        self.rows.iter().any(|row| row.change.is_some())
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
