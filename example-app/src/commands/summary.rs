//! Summary of an import or a consumer.

use std::time::Duration;

use counter_core::source::Sources;
use serde::Serialize;

/// Number of records by outcome, printed at the end.
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
    hits: Hits,
    seconds: f64,
}

/// Number of hits by state. A record results in a hit per counter and label.
#[derive(Debug, Default, Serialize)]
struct Hits {
    applied: u64,
    /// Hits that are older than all buckets of the store, and were added to the archive.
    archived: u64,
    /// Hits that are older than all buckets. These are only added to the lifetime totals.
    expired: u64,
    /// Hits that were rejected because they are more than 25 hours ahead of the store clock.
    ahead: u64,
    refused: u64,
    /// Hits that were not confirmed by the store. The records were either read again, or will be read by the
    /// next run.
    returned: u64,
}

impl Summary {
    /// Sums up the sources, and adds the records that were counted before the sources were opened.
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
            let hits = status.ledger.hits;
            summary.hits.applied += hits.applied;
            summary.hits.archived += hits.archived;
            summary.hits.expired += hits.expired.saturating_sub(hits.archived);
            summary.hits.ahead += hits.dropped.ahead;
            summary.hits.refused += hits.dropped.total() - hits.dropped.ahead;
            summary.hits.returned += hits.pending + hits.returned;
        }
        summary
    }

    /// Logs a warning if hits were not added to a bucket, with a remedy for expired hits.
    pub(crate) fn warn(&self, remedy: &str) {
        let Hits { expired, ahead, refused, .. } = self.hits;
        if expired > 0 {
            tracing::warn!(
                expired,
                "some hits are older than all buckets, only the lifetime totals include them{remedy}"
            );
        }
        if ahead > 0 {
            tracing::warn!(
                ahead,
                "some hits are more than 25 hours ahead of the store clock and were not counted"
            );
        }
        if refused > 0 {
            tracing::warn!(refused, "the store rejected some hits, which were not counted");
        }
    }
}
