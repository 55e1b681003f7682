//! The tables and forms of a page.

pub(crate) mod name;
pub(crate) mod panel;
pub(crate) mod measured;
pub(crate) mod facets;
pub(crate) mod describe;
pub(crate) mod bots;
pub(crate) mod people;
pub(crate) mod labels;
pub(crate) mod entries;
pub(crate) mod table;
pub(crate) mod slowest;
pub(crate) mod sources;
pub(crate) mod goals;
