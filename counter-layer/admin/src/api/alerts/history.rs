use axum::Json;
use counter_alert::{AlertKind, Arrival, HistoryEntry, Severity};
use serde::Serialize;
use utoipa::ToSchema;

use super::State;
use super::bucket::AlertBucket;
use crate::api::parameter::RequestParts;
use crate::api::route::Route;
use crate::problem::Problem;

/// The latest messages in descending order, up to 500.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct AlertHistory {
    messages: Vec<AlertMessage>,
}

/// A message, with the delivery state.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct AlertMessage {
    /// The message id, which receivers can use to detect duplicates.
    id: String,
    /// The rule name; `test` for a test, `unknown` if rules can't be evaluated.
    rule: String,
    /// `raised`, `resolved`, `unknown` or `test`.
    #[schema(value_type = String)]
    kind: AlertKind,
    /// `info`, `warning` or `critical`.
    #[schema(value_type = String)]
    severity: Severity,
    /// Bucket width in seconds; 0 if the message is not about a rule.
    precision: u32,
    /// Unix time of the start of the deciding bucket.
    start: u64,
    /// The value of the deciding bucket, in the unit of the rule.
    value: f64,
    /// The bound that the value is compared with.
    bound: f64,
    reason: String,
    /// Unix time at which the message was created.
    at: u64,
    /// `waiting`, `arrived`, `silenced`, or `lost` if the message was dropped from a full queue because
    /// receivers did not accept it.
    arrival: &'static str,
    /// Unix time of the delivery; null if the message has not arrived.
    arrived_at: Option<u64>,
    /// The buckets that decided, in ascending order; only the latest 6.
    buckets: Vec<AlertBucket>,
}

pub(super) fn route(state: State) -> Route {
    let summary = "Alert messages of the past, with reason and delivery state";
    Route::get("/api/alerts/history", summary, state, history).json::<AlertHistory>().schema::<AlertMessage>()
}

async fn history(
    RequestParts { state: (stats, alerts), .. }: RequestParts<State, ()>,
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
