//! A panel that ranks values.

use super::name::Name;

/// A panel with a list of values and their share.
#[derive(Debug)]
pub(crate) struct Panel {
    pub(crate) id: String,
    pub(crate) title: String,
    pub(crate) rows: Vec<PanelRow>,
    /// A hint, e.g. on omitted values.
    pub(crate) note: Option<String>,
}

/// A row of a panel.
#[derive(Debug)]
pub(crate) struct PanelRow {
    pub(crate) name: Name,
    pub(crate) address: String,
    pub(crate) value: String,
    pub(crate) share: Option<String>,
    /// Percentage relative to the largest value.
    pub(crate) percent: String,
}
