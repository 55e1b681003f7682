use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use super::Deliver;
use super::rule::AlertRule;
use super::schedule::ReportSchedule;
use crate::Timestamp;
use crate::document::DocumentStore;
use crate::visits::Stats;

/// The settings of a watch.
pub(super) struct Settings {
    pub(super) stats: Stats,
    pub(super) store: Arc<dyn DocumentStore>,
    pub(super) rules: Vec<AlertRule>,
    pub(super) reports: Vec<ReportSchedule>,
    pub(super) deliver: Arc<dyn Deliver>,
    pub(super) interval: Duration,
    pub(super) lateness: Duration,
    /// The times that are not compared with others.
    pub(super) holidays: Vec<Range<Timestamp>>,
}
