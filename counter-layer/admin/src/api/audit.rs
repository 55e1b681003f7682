use std::sync::Arc;

use axum::Json;
use counter_core::archive::{self, Archive, Auditor, Side};
use counter_core::time::Kind;
use counter_core::{Stats, Timestamp};
use serde::Serialize;
use tokio::sync::Mutex;
use utoipa::ToSchema;

use super::parameter::{RequestParts, Right};
use super::route::Route;
use crate::access::right::AUDIT;
use crate::problem::Problem;

/// The most recent audit of this process.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct LastAudit {
    /// Null if this process has not run an audit.
    last: Option<Audit>,
}

/// A comparison of both archive stores, bucket by bucket, prior to repairs.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Audit {
    /// Unix time of the start of the audit.
    at: u64,
    /// Values that exist in at least one store.
    compared: u64,
    /// Values that arrived late in the near store, and have been copied.
    late: u64,
    /// Values that are smaller in the near store.
    differing: u64,
    /// Entries that can't be read in at least one store; these are not compared.
    unreadable: u64,
    /// Values that the repaired store rejected.
    refused: u64,
    /// The source of the repair, `near` or `far`; null if nothing should be repaired.
    repaired_from: Option<&'static str>,
    /// The differences, up to 1,000.
    differences: Vec<AuditDifference>,
}

/// A value that is smaller in the near store than in the far store.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct AuditDifference {
    /// `counts`, `visitors` or `distributions`.
    kind: &'static str,
    counter: String,
    precision: u32,
    /// Unix time of the bucket start.
    start: u64,
    /// The count in the near store. For visitors this is an estimate, for distributions the sum of the bins.
    near: u64,
    /// The count in the far store. Estimates can be equal even if the visitors differ, and sums even if the
    /// bins differ.
    far: u64,
}

/// An archive, and the auditor. Requests must hold the lock, so audits don't run concurrently.
#[derive(Clone, Debug)]
struct AuditState {
    stats: Stats,
    archive: Archive,
    auditor: Arc<Mutex<Auditor>>,
}

pub(crate) fn routes(stats: &Stats, archive: &Archive) -> [Route; 2] {
    let auditor = Arc::new(Mutex::new(archive.auditor(stats.grid())));
    let state = AuditState { stats: stats.clone(), archive: archive.clone(), auditor };
    let last = Route::get(AUDIT, "The latest archive audit of this process", state.clone(), last)
        .json::<LastAudit>();
    let summary = "Audits the archive now, and optionally repairs one store";
    let details = "Reads all closed buckets that both stores should contain, and responds at the end. With `right=far`, \
                missing hits are added to the near store, so new hits are not lost; with \
                `right=near`, the archive is overwritten from the near store, even with smaller values. The response describes \
                the stores before the repair. The audit ends if the client disconnects; earlier repairs are kept.";
    let run = Route::post(AUDIT, summary, state, move |request, _| audit(request))
        .json::<Audit>()
        .schema::<AuditDifference>()
        .details(details)
        .error_response("409", "Another audit is running in this process")
        .error_response("503", "A store does not respond; earlier repairs are kept");
    // `LastAudit` contains an audit, which contains differences.
    [last.schema::<Audit>().schema::<AuditDifference>(), run]
}

async fn last(
    RequestParts { state: AuditState { archive, .. }, .. }: RequestParts<AuditState, ()>,
) -> Json<LastAudit> {
    Json(LastAudit { last: archive.last_audit().as_deref().map(Audit::from) })
}

async fn audit(
    RequestParts { state, parameters: (Right(right),), .. }: RequestParts<AuditState, (Right,)>,
) -> Result<Json<Audit>, Problem> {
    let Ok(mut auditor) = state.auditor.try_lock() else { return Err(Problem::audit_running()) };
    let audit = auditor.audit(Timestamp::now(), right).await;
    let audit = audit.map_err(|error| Problem::audit_failed(&error, &state.stats))?;
    if let Some(right) = right {
        let (right, differing) = (name(right), audit.differing);
        tracing::info!(right, differing, "audited and repaired the archive");
    }
    Ok(Json(Audit::from(&audit)))
}

const fn name(side: Side) -> &'static str {
    match side {
        Side::Near => "near",
        Side::Far => "far",
    }
}

impl From<&archive::Audit> for Audit {
    fn from(audit: &archive::Audit) -> Self {
        Self {
            at: audit.at.as_unix(),
            compared: audit.compared,
            late: audit.late,
            differing: audit.differing,
            unreadable: audit.unreadable,
            refused: audit.rejected,
            repaired_from: audit.repaired_from.map(name),
            differences: audit.differences.iter().map(AuditDifference::from).collect(),
        }
    }
}

impl From<&archive::Difference> for AuditDifference {
    fn from(difference: &archive::Difference) -> Self {
        Self {
            kind: match difference.kind {
                Kind::Counts => "counts",
                Kind::Visitors => "visitors",
                Kind::Distributions => "distributions",
            },
            counter: difference.counter.to_string(),
            precision: difference.bucket.precision.as_seconds(),
            start: difference.bucket.start.as_unix(),
            near: difference.near,
            far: difference.far,
        }
    }
}
