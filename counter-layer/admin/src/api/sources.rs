use axum::Json;
use counter_core::source::{self, SourceStatus};
use counter_core::{Stats, Timestamp};
use serde::Serialize;
use utoipa::ToSchema;

use super::parameter::RequestParts;
use super::route::Route;
use crate::status::{Dropped, Ignored};

/// The open sources of this process, sorted by name.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Sources {
    sources: Vec<Source>,
}

/// A log, topic or producer that is counted exactly once, because the position is stored with the counts.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Source {
    name: String,
    /// The position after the latest record that this process read.
    position: u64,
    /// The position up to which the store has counted all records.
    counted: u64,
    /// The end of the log; null if the reader can't determine it.
    end: Option<u64>,
    /// The number of positions between `counted` and `end`.
    lag: Option<u64>,
    /// Unix time of the latest record with a hit.
    latest: Option<u64>,
    /// The age of the `latest` record in seconds, or 0 at the end of the log; null if the time or the end is
    /// unknown.
    lag_seconds: Option<u64>,
    /// Unix time of the latest commit by this process that the store acknowledged.
    committed: Option<u64>,
    /// True if the source made no progress for a minute, although the log contains more records.
    stands_still: bool,
    /// Records read per second, over the past ten seconds or slightly longer.
    records_per_second: f64,
    records: SourceRecords,
    hits: SourceHits,
}

/// Numbers of records. `read` is the sum of all other fields except `lost`.
#[derive(Debug, Serialize, ToSchema)]
struct SourceRecords {
    read: u64,
    recorded: u64,
    already_counted: u64,
    excluded: u64,
    unmatched: u64,
    ignored: Ignored,
    malformed: u64,
    /// Positions that had been deleted from the log when the reader got to them; not included in `read`.
    lost: u64,
}

/// Numbers of hits. `recorded` is the sum of `applied`, `pending`, `expired`, `returned` and the dropped
/// hits.
#[derive(Debug, Serialize, ToSchema)]
struct SourceHits {
    recorded: u64,
    applied: u64,
    pending: u64,
    expired: u64,
    /// Expired hits that were added to an archive.
    archived: u64,
    /// Hits returned to the log, to be read again by the next reader.
    returned: u64,
    dropped: Dropped,
    /// Included in `recorded`: hits on the counter `(other)`.
    overflow: u64,
}

pub(crate) fn route(stats: &Stats) -> Route {
    let summary = "The sources of this process, with position, ledger and lag";
    Route::get("/api/sources", summary, stats.clone(), sources).json::<Sources>()
}

async fn sources(RequestParts { state: stats, .. }: RequestParts<Stats, ()>) -> Json<Sources> {
    Json(Sources { sources: stats.sources().into_iter().map(Source::from).collect() })
}

impl From<SourceStatus> for Source {
    fn from(status: SourceStatus) -> Self {
        let source::SourceRecords {
            read,
            recorded,
            already_counted,
            excluded,
            unmatched,
            ignored,
            malformed,
            lost,
            ..
        } = status.ledger.records;
        let source::SourceHits {
            recorded: hits,
            applied,
            pending,
            expired,
            archived,
            returned,
            dropped,
            overflow,
            ..
        } = status.ledger.hits;
        Self {
            lag: status.lag(),
            name: status.name.to_string(),
            position: status.position,
            counted: status.counted,
            end: status.end,
            latest: status.latest.map(Timestamp::as_unix),
            lag_seconds: status.lag_time(Timestamp::now()).map(|time| time.as_secs()),
            committed: status.committed.map(Timestamp::as_unix),
            stands_still: status.is_stalled(),
            records_per_second: status.records_per_second(),
            records: SourceRecords {
                read,
                recorded,
                already_counted,
                excluded,
                unmatched,
                ignored: ignored.into(),
                malformed,
                lost,
            },
            hits: SourceHits {
                recorded: hits,
                applied,
                pending,
                expired,
                archived,
                returned,
                dropped: dropped.into(),
                overflow,
            },
        }
    }
}
