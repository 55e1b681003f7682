//! Reports of days and weeks: when they are due, what they contain, and their HTML.

pub(crate) mod schedule;
pub(crate) mod report;
mod html;
