//! Daily and weekly reports: schedules, contents and HTML.

pub(crate) mod schedule;
pub(crate) mod report;
mod html;
