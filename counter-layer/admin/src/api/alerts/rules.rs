use axum::Json;
use counter_alert::{RuleStatus, Severity, Unit};
use serde::Serialize;
use utoipa::ToSchema;

use super::State;
use super::bucket::{AlertBand, AlertBucket};
use crate::api::parameter::Asked;
use crate::api::route::Route;
use crate::problem::Problem;

/// The rules, in the order of the application.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct AlertRules {
    rules: Vec<AlertRule>,
}

/// A rule, and what is known of it.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct AlertRule {
    name: String,
    /// The condition in words.
    condition: String,
    /// The counters that the condition looks at.
    counters: Vec<String>,
    /// `hits`, `share`, `seconds`, `bytes` or `count`.
    #[schema(value_type = String)]
    unit: Unit,
    /// `info`, `warning` or `critical`.
    #[schema(value_type = String)]
    severity: Severity,
    /// The width of the buckets that it looks at, in seconds; null for a rule about the process that answers.
    precision: Option<u32>,
    /// The buckets in a row that raise the alert.
    raise_after: u32,
    /// The buckets in a row that resolve it.
    resolve_after: u32,
    /// `raised`, `ok`, or `unknown` before the first verdict.
    state: &'static str,
    /// The start of the bucket that raised the alert; null where it is not raised.
    raised_since: Option<u64>,
    /// The end of the silence; null where there is none.
    silenced_until: Option<u64>,
    /// The end of the last bucket that was looked at; null before the first.
    judged_until: Option<u64>,
    /// The reason why the alert is raised; null where it is not.
    reason: Option<String>,
    /// The numbers of the last bucket with a verdict; null before the first.
    last: Option<AlertBucket>,
    /// The buckets that raised or resolved the alert last, oldest first; of more than 6 the last ones.
    buckets: Vec<AlertBucket>,
}

pub(super) fn route(state: State) -> Route {
    let summary = "The rules of alerts, their state, and the numbers that decided";
    Route::get("/api/alerts", summary, state, rules)
        .json::<AlertRules>()
        .schema::<AlertRule>()
        .schema::<AlertBucket>()
        .schema::<AlertBand>()
}

async fn rules(Asked { state: (stats, alerts), .. }: Asked<State, ()>) -> Result<Json<AlertRules>, Problem> {
    let known = alerts.read().await.map_err(|error| Problem::of(&error, &stats))?;
    Ok(Json(AlertRules { rules: known.rules.into_iter().map(AlertRule::from).collect() }))
}

impl From<RuleStatus> for AlertRule {
    fn from(rule: RuleStatus) -> Self {
        let state = match (&rule.raised, &rule.last) {
            (Some(_), _) => "raised",
            (None, Some(_)) => "ok",
            (None, None) => "unknown",
        };
        Self {
            state,
            reason: rule.reason().map(str::to_owned),
            name: rule.name,
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
