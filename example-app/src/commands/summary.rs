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
    hits: Hits,
    seconds: f64,
}

/// Hits of the records that were read, by where they are. A record makes one for each counter and label.
#[derive(Debug, Default, Serialize)]
struct Hits {
    applied: u64,
    /// Hits that no bucket keeps any more: only lifetimes count them.
    expired: u64,
    /// Hits that the store refused because their time is more than 25 hours ahead of its clock.
    ahead: u64,
    refused: u64,
    /// Hits that the store did not confirm. Their records were read again, or the next run reads them.
    returned: u64,
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
            let hits = status.ledger.hits;
            summary.hits.applied += hits.applied;
            summary.hits.expired += hits.expired;
            summary.hits.ahead += hits.dropped.ahead;
            summary.hits.refused += hits.dropped.total() - hits.dropped.ahead;
            summary.hits.returned += hits.pending + hits.returned;
        }
        summary
    }

    /// Logs a warning if some of the hits are in no bucket.
    pub(crate) fn warn(&self) {
        let Hits { expired, ahead, refused, .. } = self.hits;
        if expired > 0 {
            tracing::warn!(expired, "hits are older than any bucket is kept; only lifetimes count them");
        }
        if ahead > 0 {
            tracing::warn!(
                ahead,
                "hits are more than 25 hours ahead of the store's clock and are not counted"
            );
        }
        if refused > 0 {
            tracing::warn!(refused, "the store refused hits, which are not counted");
        }
    }
}
