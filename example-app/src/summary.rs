//! The line at the end of an import, and of a consumer.

use std::time::Duration;

use counter_core::source::Sources;
use serde::Serialize;

/// What was read, by what became of it.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Summary {
    read: u64,
    recorded: u64,
    excluded: u64,
    unmatched: u64,
    ignored: u64,
    malformed: u64,
    already_counted: u64,
    lost: u64,
    seconds: f64,
}

impl Summary {
    /// Adds up the sources, and the records that were counted before the sources were opened.
    pub(crate) fn new(sources: &Sources, already_counted: u64, elapsed: Duration) -> Self {
        let seconds = elapsed.as_secs_f64();
        let mut summary = Self { read: already_counted, already_counted, seconds, ..Self::default() };
        for status in sources.statuses() {
            let records = status.ledger.records;
            summary.read += records.read;
            summary.recorded += records.recorded;
            summary.excluded += records.excluded;
            summary.unmatched += records.unmatched;
            summary.ignored += records.ignored.total();
            summary.malformed += records.malformed;
            summary.already_counted += records.already_counted;
            summary.lost += records.lost;
        }
        summary
    }
}
