use axum::Json;
use counter_core::source::{self, SourceStatus};
use counter_core::{Stats, Timestamp};
use serde::Serialize;
use utoipa::ToSchema;

use super::parameter::Asked;
use super::route::Route;
use crate::status::{Dropped, Ignored};

/// The sources that this process has opened, by name.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Sources {
    sources: Vec<Source>,
}

/// A log that is counted exactly once, from a position that the store keeps.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Source {
    name: String,
    /// The position up to which this process has read.
    position: u64,
    /// The position up to which the store has counted everything.
    counted: u64,
    /// The end of the log; null where its reader does not know it.
    end: Option<u64>,
    /// The positions between `counted` and `end`.
    lag: Option<u64>,
    /// The Unix time of the latest record that made a hit.
    latest: Option<u64>,
    /// The age of that record, 0 at the end of the log; null where either is not known.
    lag_seconds: Option<u64>,
    /// The Unix time of the last commit of this process that the store acknowledged.
    committed: Option<u64>,
    /// Nothing more was counted for a minute, although the log goes on.
    stands_still: bool,
    /// Records that were read in a second, over the last ten seconds or a little more.
    records_per_second: f64,
    records: SourceRecords,
    hits: SourceHits,
}

/// `read` is the sum of the others but `lost`.
#[derive(Debug, Serialize, ToSchema)]
struct SourceRecords {
    read: u64,
    recorded: u64,
    already_counted: u64,
    excluded: u64,
    unmatched: u64,
    ignored: Ignored,
    malformed: u64,
    /// Positions that the log no longer had when the reader came to them; no part of `read`.
    lost: u64,
}

/// `recorded` is the sum of `applied`, `pending`, `expired`, `returned` and those that were dropped.
#[derive(Debug, Serialize, ToSchema)]
struct SourceHits {
    recorded: u64,
    applied: u64,
    pending: u64,
    expired: u64,
    /// Hits that went back to the log, for the next reader.
    returned: u64,
    dropped: Dropped,
    /// A part of `recorded`.
    overflow: u64,
}

pub(crate) fn route(stats: &Stats) -> Route {
    let summary = "The sources of this process: their positions, ledgers and lags";
    Route::get("/api/sources", summary, stats.clone(), sources).json::<Sources>()
}

async fn sources(Asked { state: stats, .. }: Asked<Stats, ()>) -> Json<Sources> {
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
            recorded: hits, applied, pending, expired, returned, dropped, overflow, ..
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
            stands_still: status.stands_still(),
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
                returned,
                dropped: dropped.into(),
                overflow,
            },
        }
    }
}
