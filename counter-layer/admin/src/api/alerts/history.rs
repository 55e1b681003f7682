use axum::Json;
use counter_alert::{AlertKind, Arrival, HistoryEntry, Severity};
use serde::Serialize;
use utoipa::ToSchema;

use super::State;
use super::bucket::AlertBucket;
use crate::api::parameter::Asked;
use crate::api::route::Route;
use crate::problem::Problem;

/// The last messages, 500 at most, the latest first.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct AlertHistory {
    messages: Vec<AlertMessage>,
}

/// A message, and what has become of it.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct AlertMessage {
    /// The id by which receivers tell repetitions.
    id: String,
    /// The name of the rule; `test` for a test.
    rule: String,
    /// `raised`, `resolved` or `test`.
    #[schema(value_type = String)]
    kind: AlertKind,
    /// `info`, `warning` or `critical`.
    #[schema(value_type = String)]
    severity: Severity,
    /// The width of the buckets that the rule looks at, in seconds; 0 for a test.
    precision: u32,
    /// The first Unix second of the bucket that decided.
    start: u64,
    /// The value in that bucket.
    value: f64,
    /// The bound that it is compared with.
    bound: f64,
    reason: String,
    /// The Unix time at which it was written.
    at: u64,
    /// `waiting`, `arrived`, `silenced`, or `lost` where no receiver took it until there was no more room.
    arrival: &'static str,
    /// The Unix time at which it had arrived; null where it has not.
    arrived_at: Option<u64>,
    /// The buckets that decided, oldest first; of more than 6 the last ones.
    buckets: Vec<AlertBucket>,
}

pub(super) fn route(state: State) -> Route {
    let summary = "The alerts of the past: what was told, when and why, and whether it has arrived";
    Route::get("/api/alerts/history", summary, state, history).json::<AlertHistory>().schema::<AlertMessage>()
}

async fn history(
    Asked { state: (stats, alerts), .. }: Asked<State, ()>,
) -> Result<Json<AlertHistory>, Problem> {
    let known = alerts.read().await.map_err(|error| Problem::of(&error, &stats))?;
    Ok(Json(AlertHistory { messages: known.history.into_iter().map(AlertMessage::from).collect() }))
}

impl From<HistoryEntry> for AlertMessage {
    fn from(entry: HistoryEntry) -> Self {
        let (arrival, arrived_at) = match entry.arrival {
            Arrival::Arrived(at) => ("arrived", Some(at)),
            Arrival::Silenced => ("silenced", None),
            Arrival::Lost => ("lost", None),
            _ => ("waiting", None),
        };
        let alert = entry.alert;
        Self {
            id: alert.id,
            rule: alert.rule,
            kind: alert.kind,
            severity: alert.severity,
            precision: alert.precision,
            start: alert.start,
            value: alert.value,
            bound: alert.bound,
            reason: alert.reason,
            at: entry.at,
            arrival,
            arrived_at,
            buckets: entry.buckets.into_iter().map(AlertBucket::from).collect(),
        }
    }
}
