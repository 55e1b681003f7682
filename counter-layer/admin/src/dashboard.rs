//! The HTML pages. These are complete when served, and a small script will keep them up to date.

pub(crate) mod format;
mod chart;
mod view;
pub(crate) mod annotations;
mod reader;
mod period_reader;
mod plot;
mod panels;
mod summary;
pub(crate) mod page;
