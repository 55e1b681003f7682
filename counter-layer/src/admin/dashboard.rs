//! The pages for people: complete as they are served, and kept up to date by a small script.

pub(crate) mod format;
mod chart;
mod range;
mod view;
mod reader;
mod period;
mod assets;
mod controls;
mod summary;
mod table;
mod sources;
mod labels;
mod forecast;
mod sums;
mod visitors;
mod plot;
mod page;
mod routes;

pub(crate) use routes::{first_page, pages};
