use std::sync::Arc;

use axum::Json;
use counter_core::archive::{self, Archive, Auditor, Side, Values};
use counter_core::{Stats, Timestamp};
use serde::Serialize;
use tokio::sync::Mutex;
use utoipa::ToSchema;

use super::parameter::{Asked, Right};
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
    /// Unix time of the start.
    at: u64,
    /// Values that exist in at least one store.
    compared: u64,
    /// Values that arrived late in the near store, and have been copied.
    late: u64,
    /// Values that are smaller in the near store.
    differing: u64,
    /// Entries that can't be read in either store; these are not compared.
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
    /// The same for the far store. Estimates can be equal even if the visitors differ, and sums even if the
    /// bins differ.
    far: u64,
}

/// An archive, and the auditor. Requests must hold the lock, so audits don't run concurrently.
#[derive(Clone, Debug)]
struct Audited {
    stats: Stats,
    archive: Archive,
    auditor: Arc<Mutex<Auditor>>,
}

pub(crate) fn routes(stats: &Stats, archive: &Archive) -> [Route; 2] {
    let auditor = Arc::new(Mutex::new(archive.auditor(stats.grid())));
    let state = Audited { stats: stats.clone(), archive: archive.clone(), auditor };
    let last = Route::get(AUDIT, "The last audit of the archive by this process", state.clone(), last)
        .json::<LastAudit>();
    let summary = "Compares the two stores of the archive now, and repairs one of them where asked";
    let most = "It reads all closed buckets that both stores should have, and answers when it is done. With `right=far` \
                what the near store lacks is added to it from the archive, so hits that come meanwhile stay; with \
                `right=near` the archive gets what the near store has, even if that is less. The answer tells of the \
                stores as they were before. A client that goes away ends it; what was repaired stays repaired.";
    let made = Route::post(AUDIT, summary, state, move |asked, _| audit(asked))
        .json::<Audit>()
        .schema::<AuditDifference>()
        .most(most)
        .refusal("409", "This process is making an audit that another request asked for")
        .refusal("503", "One of the stores does not answer: what was repaired stays repaired");
    // `LastAudit` contains an audit, which contains differences.
    [last.schema::<Audit>().schema::<AuditDifference>(), made]
}

async fn last(Asked { state: Audited { archive, .. }, .. }: Asked<Audited, ()>) -> Json<LastAudit> {
    Json(LastAudit { last: archive.last_audit().as_deref().map(Audit::from) })
}

async fn audit(
    Asked { state, parameters: (Right(right),), .. }: Asked<Audited, (Right,)>,
) -> Result<Json<Audit>, Problem> {
    let Ok(mut auditor) = state.auditor.try_lock() else { return Err(Problem::audit_under_way()) };
    let audit = auditor.audit(Timestamp::now(), right).await;
    let audit = audit.map_err(|error| Problem::no_audit(&error, &state.stats))?;
    if let Some(right) = right {
        let (right, differing) = (name(right), audit.differing);
        tracing::info!(right, differing, "the archive was audited and repaired");
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
            refused: audit.refused,
            repaired_from: audit.repaired_from.map(name),
            differences: audit.differences.iter().map(AuditDifference::from).collect(),
        }
    }
}

impl From<&archive::Difference> for AuditDifference {
    fn from(difference: &archive::Difference) -> Self {
        Self {
            kind: match difference.values {
                Values::Counts => "counts",
                Values::Visitors => "visitors",
                Values::Distributions => "distributions",
            },
            counter: difference.counter.to_string(),
            precision: difference.bucket.precision.as_seconds(),
            start: difference.bucket.start.as_unix(),
            near: difference.near,
            far: difference.far,
        }
    }
}
