//! The tables and forms of a page.

pub(crate) mod facets;
pub(crate) mod labels;
pub(crate) mod measured;
pub(crate) mod note_forms;
pub(crate) mod panel;
pub(crate) mod period_reader;
pub(crate) mod raised;
pub(crate) mod slowest;
pub(crate) mod sources;
pub(crate) mod summary;
pub(crate) mod table;
