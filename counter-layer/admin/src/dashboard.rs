//! The pages for people: complete as they are served, and kept up to date by a small script.

pub(crate) mod format;
mod chart;
mod range;
mod buckets;
mod value;
mod view;
mod annotations;
mod reader;
mod note_forms;
mod period;
mod assets;
mod controls;
mod summary;
mod facets;
mod table;
mod sources;
mod labels;
mod forecast;
mod sums;
mod visitors;
mod measured;
mod plot;
mod raised;
mod frame;
mod page;
mod client;
mod alerts;
mod routes;
mod alert_routes;

pub(crate) use alert_routes::alert_pages;
pub(crate) use annotations::Annotators;
pub(crate) use routes::{Dashboard, first_page, pages};
