//! The ledger and the health of this process, shared by all parts of the router.

use serde::Serialize;
use utoipa::ToSchema;

/// Accounts for all requests and hits of this process.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Ledger {
    pub(crate) requests: Requests,
    pub(crate) hits: Hits,
}

/// Numbers of requests. `observed` is the sum of `recorded`, `excluded`, `unmatched` and the ignored
/// requests.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Requests {
    observed: u64,
    recorded: u64,
    excluded: u64,
    unmatched: u64,
    ignored: Ignored,
    /// Included in `recorded`: requests by bots.
    bots: u64,
    /// Included in `recorded`: human requests without a visitor.
    unidentified: u64,
    /// Included in `recorded`: requests with a response that did not wait until the hits were stored.
    unconfirmed: u64,
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Ignored {
    outcome: u64,
    prefetch: u64,
    own: u64,
}

/// Numbers of hits. `recorded` is the sum of `applied`, `pending`, `expired` and the dropped hits.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Hits {
    recorded: u64,
    applied: u64,
    pending: u64,
    expired: u64,
    dropped: Dropped,
    /// Included in `recorded`: hits on the counter `(other)`.
    overflow: u64,
    /// Included in `recorded`: hits of exited processes, recovered from a spool.
    recovered: u64,
    /// Included in `applied`: hits that the store lost later, and that are too old to be sent again.
    lost_by_server: u64,
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Dropped {
    wrong_type: u64,
    not_a_number: u64,
    out_of_range: u64,
    ahead: u64,
    in_doubt: u64,
    other: u64,
}

/// The health of the connection between this process and the store.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Health {
    status: Status,
    pending: u64,
    pending_cells: usize,
    retained_bytes: usize,
    connections: u64,
    seconds_since_acknowledged: Option<f64>,
    failing_for_seconds: Option<f64>,
    last_error: Option<String>,
    /// How long pending hits have not been sent.
    stalled_for_seconds: Option<f64>,
    /// Seconds by which the process clock is ahead of the store clock, as of the latest batch.
    clock_skew_seconds: Option<i64>,
    /// The spool state, or null if a spool is not used.
    spool: Option<Spool>,
    /// The archive state, or null if an archive is not used.
    archive: Option<Archive>,
    /// Hints at a setup that gives wrong numbers, although nothing fails.
    hints: Vec<Hint>,
}

/// The state of the file that buffers hits for the store.
#[derive(Debug, Serialize, ToSchema)]
struct Spool {
    /// Hits that have been written into neither file nor store.
    unwritten: u64,
    bytes: u64,
    /// Files of exited processes that still need to be sent.
    leftovers: usize,
    seconds_since_written: Option<f64>,
    failing_for_seconds: Option<f64>,
    last_error: Option<String>,
}

/// The state of the second store, which retains closed buckets for years.
#[derive(Debug, Serialize, ToSchema)]
struct Archive {
    /// Buckets past retention that still need to be copied: the maximum over all precisions.
    waiting_buckets: u32,
    /// Keys and entries of the store that can't be read and thus are not in the archive.
    unreadable: u64,
    /// Values that are lower in the near store than in the archive, as of the latest audit, or null before an
    /// audit.
    differing: Option<u64>,
}

/// A hint at a setup that gives wrong numbers.
#[derive(Debug, Serialize, ToSchema)]
struct Hint {
    name: &'static str,
    /// The observation and the consequence.
    seen: &'static str,
    /// The recommended fix.
    remedy: &'static str,
}

/// The payload of a `status` event.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Standing {
    pub(crate) ledger: Ledger,
    pub(crate) health: Health,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
enum Status {
    /// Batches are accepted, and no problem is known.
    Ok,
    /// Batches are accepted, but a hint is active, the clock is off, or the spool can't be written.
    Degraded,
    /// Batches are either rejected or not sent.
    Failing,
}

impl From<counter_core::Ledger> for Ledger {
    fn from(ledger: counter_core::Ledger) -> Self {
        let (requests, hits) = (ledger.requests, ledger.hits);
        Self {
            requests: Requests {
                observed: requests.observed,
                recorded: requests.recorded,
                excluded: requests.excluded,
                unmatched: requests.unmatched,
                ignored: requests.ignored.into(),
                bots: requests.bots,
                unidentified: requests.unidentified,
                unconfirmed: requests.unconfirmed,
            },
            hits: Hits {
                recorded: hits.recorded,
                applied: hits.applied,
                pending: hits.pending,
                expired: hits.expired,
                dropped: hits.dropped.into(),
                overflow: hits.overflow,
                recovered: hits.recovered,
                lost_by_server: hits.lost_by_server,
            },
        }
    }
}

impl From<counter_core::visits::Ignored> for Ignored {
    fn from(ignored: counter_core::visits::Ignored) -> Self {
        Self { outcome: ignored.outcome, prefetch: ignored.prefetch, own: ignored.own }
    }
}

impl From<counter_core::visits::Dropped> for Dropped {
    fn from(dropped: counter_core::visits::Dropped) -> Self {
        Self {
            wrong_type: dropped.wrong_type,
            not_a_number: dropped.not_a_number,
            out_of_range: dropped.out_of_range,
            ahead: dropped.ahead,
            in_doubt: dropped.in_doubt,
            other: dropped.other,
        }
    }
}

impl From<counter_core::Health> for Health {
    fn from(health: counter_core::Health) -> Self {
        Self {
            status: match (health.is_well(), health.is_degraded()) {
                (false, _) => Status::Failing,
                (true, true) => Status::Degraded,
                (true, false) => Status::Ok,
            },
            pending: health.pending,
            pending_cells: health.pending_cells,
            retained_bytes: health.retained_bytes,
            connections: health.connections,
            seconds_since_acknowledged: health.since_acknowledged.map(|since| since.as_secs_f64()),
            failing_for_seconds: health.failing_for.map(|since| since.as_secs_f64()),
            last_error: health.last_error,
            stalled_for_seconds: health.stalled_for.map(|since| since.as_secs_f64()),
            clock_skew_seconds: health.clock_skew,
            spool: health.spool.map(Spool::from),
            archive: health.archive.map(Archive::from),
            hints: health.hints.into_iter().map(Hint::from).collect(),
        }
    }
}

impl From<counter_core::visits::SpoolHealth> for Spool {
    fn from(spool: counter_core::visits::SpoolHealth) -> Self {
        Self {
            unwritten: spool.unwritten,
            bytes: spool.bytes,
            leftovers: spool.leftovers,
            seconds_since_written: spool.since_written.map(|since| since.as_secs_f64()),
            failing_for_seconds: spool.failing_for.map(|since| since.as_secs_f64()),
            last_error: spool.last_error,
        }
    }
}

impl From<counter_core::visits::ArchiveHealth> for Archive {
    fn from(archive: counter_core::visits::ArchiveHealth) -> Self {
        let counter_core::visits::ArchiveHealth { waiting_buckets, unreadable, differing, .. } = archive;
        Self { waiting_buckets, unreadable, differing }
    }
}

impl From<counter_core::visits::Hint> for Hint {
    fn from(hint: counter_core::visits::Hint) -> Self {
        Self { name: hint.name, seen: hint.seen, remedy: hint.remedy }
    }
}
