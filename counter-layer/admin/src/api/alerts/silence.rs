use std::time::Duration;

use axum::Json;
use counter_alert::{Alerts, SilenceError};
use counter_core::Timestamp;
use serde::Serialize;
use utoipa::ToSchema;

use super::State;
use crate::access::right::SILENCE;
use crate::api::parameter::{Asked, RuleName, Seconds};
use crate::api::route::Route;
use crate::problem::Problem;

/// A silenced rule.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct AlertSilence {
    rule: String,
    /// Unix time of the end; null if the rule is not silenced.
    silenced_until: Option<u64>,
}

pub(super) fn route(state: State) -> Route {
    let summary = "Silences a rule for a while, or ends its silence";
    let most = "A silenced rule is judged, and nothing is told of it. When the silence ends, it is told that the alert is \
                raised, or that one is resolved of which receivers know, unless they were told before.";
    Route::post(SILENCE, summary, state, |asked, _| silence_rule(asked))
        .json::<AlertSilence>()
        .most(most)
        .refusal("404", "There is no rule of this name")
}

async fn silence_rule(
    Asked { state: (stats, alerts), parameters: (RuleName(rule), seconds), .. }: Asked<
        State,
        (RuleName, Seconds),
    >,
) -> Result<Json<AlertSilence>, Problem> {
    let until = silence(&alerts, &rule, &seconds).await.map_err(|error| match error {
        SilenceError::Store(error) => Problem::no_change_of_alerts(&error, &stats),
        _ => Problem::unknown_rule(&rule),
    })?;
    Ok(Json(AlertSilence { rule, silenced_until: until.map(Timestamp::as_unix) }))
}

/// Silences a rule, and returns when the silence will end.
pub(crate) async fn silence(
    alerts: &Alerts,
    rule: &str,
    Seconds(seconds): &Seconds,
) -> Result<Option<Timestamp>, SilenceError> {
    let until = alerts.silence(rule, Duration::from_secs(*seconds)).await?;
    tracing::info!(rule, seconds, "a rule was silenced, or its silence ended");
    Ok(until)
}
