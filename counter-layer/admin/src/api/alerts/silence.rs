use std::time::Duration;

use axum::Json;
use counter_alert::{Alerts, SilenceError};
use counter_core::Timestamp;
use serde::Serialize;
use utoipa::ToSchema;

use super::State;
use crate::access::right::SILENCE;
use crate::api::parameter::{RequestParts, RuleName, Seconds};
use crate::api::route::Route;
use crate::problem::Problem;

/// A silenced rule.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct AlertSilence {
    rule: String,
    /// Unix time of the end of the silence; null if the rule is not silenced.
    silenced_until: Option<u64>,
}

pub(super) fn route(state: State) -> Route {
    let summary = "Silences a rule, or ends a silence";
    let details = "A silenced rule is still evaluated, but does not send messages. When the silence ends, a message is sent if the alert is \
                raised, or if a reported alert is resolved, unless this was already sent.";
    Route::post(SILENCE, summary, state, |request, _| silence_rule(request))
        .json::<AlertSilence>()
        .details(details)
        .error_response("404", "Unknown rule")
}

async fn silence_rule(
    RequestParts { state: (stats, alerts), parameters: (RuleName(rule), seconds), .. }: RequestParts<
        State,
        (RuleName, Seconds),
    >,
) -> Result<Json<AlertSilence>, Problem> {
    let until = silence(&alerts, &rule, &seconds).await.map_err(|error| match error {
        SilenceError::Store(error) => Problem::alerts_not_changed(&error, &stats),
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
    tracing::info!(rule, seconds, "changed the silence of a rule");
    Ok(until)
}
