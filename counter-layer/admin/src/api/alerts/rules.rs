use axum::Json;
use counter_alert::{RuleStatus, Severity, Unit};
use serde::Serialize;
use utoipa::ToSchema;

use super::State;
use super::bucket::{AlertBand, AlertBucket};
use crate::api::parameter::RequestParts;
use crate::api::route::Route;
use crate::problem::Problem;

/// The rules, in the order in which the application defined them, followed by those in the store.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct AlertRules {
    rules: Vec<AlertRule>,
}

/// A rule, with the current state.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct AlertRule {
    name: String,
    /// True if the rule is in the store, so that it can be removed.
    is_stored: bool,
    /// A description of the condition.
    condition: String,
    /// The counters used by the condition.
    counters: Vec<String>,
    /// `hits`, `share`, `seconds`, `bytes` or `count`.
    #[schema(value_type = String)]
    unit: Unit,
    /// `info`, `warning` or `critical`.
    #[schema(value_type = String)]
    severity: Severity,
    /// Bucket width in seconds; null for a rule about the responding process.
    precision: Option<u32>,
    /// How many consecutive buckets raise the alert.
    raise_after: u32,
    /// How many consecutive buckets resolve the alert.
    resolve_after: u32,
    /// `raised`, `ok`, or `unknown` if the rule has not been evaluated yet, or if the data for it can't be read.
    state: &'static str,
    /// Unix time of the start of the bucket that raised the alert; null if it is not raised.
    raised_since: Option<u64>,
    /// Unix time of the end of the silence; null if the rule is not silenced.
    silenced_until: Option<u64>,
    /// Unix time of the end of the latest evaluated bucket; null if the rule has not been evaluated yet.
    judged_until: Option<u64>,
    /// Why the alert is raised; null if it is not.
    reason: Option<String>,
    /// The data that could not be read for the latest bucket, e.g. `site us`, so that `raised` may be outdated; null if all of it
    /// could.
    unread: Option<String>,
    /// The evaluation of the latest bucket with a verdict; null if the rule has not been evaluated yet.
    last: Option<AlertBucket>,
    /// The buckets that most recently raised or resolved the alert, in ascending order; only the latest 6.
    buckets: Vec<AlertBucket>,
}

pub(super) fn route(state: State) -> Route {
    let summary = "Alert rules with state and latest evaluation";
    Route::get("/api/alerts", summary, state, rules)
        .json::<AlertRules>()
        .schema::<AlertRule>()
        .schema::<AlertBucket>()
        .schema::<AlertBand>()
}

async fn rules(
    RequestParts { state: (stats, alerts), .. }: RequestParts<State, ()>,
) -> Result<Json<AlertRules>, Problem> {
    let known = alerts.read().await.map_err(|error| Problem::of(&error, &stats))?;
    Ok(Json(AlertRules { rules: known.rules.into_iter().map(AlertRule::from).collect() }))
}

impl From<RuleStatus> for AlertRule {
    fn from(rule: RuleStatus) -> Self {
        let state = match (&rule.raised, &rule.last, &rule.unread) {
            (Some(_), _, _) => "raised",
            (None, Some(_), None) => "ok",
            (None, _, _) => "unknown",
        };
        Self {
            state,
            reason: rule.reason().map(str::to_owned),
            unread: rule.unread.map(|unread| unread.key),
            name: rule.name,
            is_stored: rule.is_stored,
            condition: rule.condition,
            counters: rule.counters.iter().map(ToString::to_string).collect(),
            unit: rule.unit,
            severity: rule.severity,
            precision: rule.precision.map(|precision| precision.as_seconds()),
            raise_after: rule.raise_after,
            resolve_after: rule.resolve_after,
            raised_since: rule.raised.map(|at| at.as_unix()),
            silenced_until: rule.silenced.map(|at| at.as_unix()),
            judged_until: rule.judged.map(|at| at.as_unix()),
            last: rule.last.map(AlertBucket::from),
            buckets: rule.buckets.into_iter().map(AlertBucket::from).collect(),
        }
    }
}
