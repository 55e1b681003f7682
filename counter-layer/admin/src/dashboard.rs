//! The pages for people: complete as they are served, and kept up to date by a small script.

pub(crate) mod format;
mod chart;
mod view;
pub(crate) mod annotations;
mod reader;
mod plot;
mod panels;
pub(crate) mod page;
