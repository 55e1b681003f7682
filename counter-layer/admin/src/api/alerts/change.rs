use axum::Json;
use counter_alert::{AddRuleError, AlertRule, Alerts};
use counter_core::{Error, Stats};
use http::StatusCode;
use serde::Serialize;
use utoipa::ToSchema;

use super::State;
use crate::access::right::RULES;
use crate::api::notes::MAYBE_CHANGED;
use crate::api::parameter::{NewRule, RequestParts, RuleName};
use crate::api::route::{ResponseKind, Route};
use crate::problem::Problem;

/// A rule in the store.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct StoredRule {
    rule: String,
}

pub(super) fn routes(state: &State) -> [Route; 2] {
    let details = "All watches evaluate it from their next pass on. If the rule already exists, the request succeeds, so that it can \
                   be retried. There can be up to 100 rules in addition to those of the program.";
    let added =
        Route::post(RULES, "Adds a rule to the store", state.clone(), move |request, _| add_rule(request));
    let removed = Route::delete(RULES, "Removes a rule from the store", state.clone(), remove_rule);
    [
        added
            .json::<StoredRule>()
            .details(details)
            .error_response("409", "A different rule has this name, or the limit of 100 rules is reached")
            .error_response("503", MAYBE_CHANGED),
        removed
            .response("204", ResponseKind::Empty)
            .error_response("409", "The rule is one of the program")
            .error_response("503", MAYBE_CHANGED),
    ]
}

async fn add_rule(
    RequestParts { state: (stats, alerts), parameters: (NewRule(rule),), .. }: RequestParts<
        State,
        (NewRule,),
    >,
) -> Result<Json<StoredRule>, Problem> {
    add(&alerts, &rule, &stats).await.map_err(|error| match error {
        AddRuleError::Store(error) => Problem::rules_not_changed(&error, &stats),
        error => Problem::rule_refused(&error),
    })?;
    Ok(Json(StoredRule { rule: rule.name().to_owned() }))
}

/// Succeeds even if the rule does not exist, so that clients can retry if a response was lost.
async fn remove_rule(
    RequestParts { state: (stats, alerts), parameters: (RuleName(rule),), .. }: RequestParts<
        State,
        (RuleName,),
    >,
) -> Result<StatusCode, Problem> {
    match remove(&alerts, &rule).await.map_err(|error| Problem::rules_not_changed(&error, &stats))? {
        true => Ok(StatusCode::NO_CONTENT),
        false => Err(Problem::configured_rule(&rule)),
    }
}

/// Adds a rule to the store.
pub(crate) async fn add(alerts: &Alerts, rule: &AlertRule, stats: &Stats) -> Result<(), AddRuleError> {
    alerts.add(rule, stats).await?;
    tracing::info!(rule = rule.name(), "added a rule");
    Ok(())
}

/// Removes a rule from the store. Returns `false` if it is a rule of the program, which can't be removed.
pub(crate) async fn remove(alerts: &Alerts, rule: &str) -> Result<bool, Error> {
    let is_removed = alerts.remove(rule).await?;
    if is_removed {
        tracing::info!(rule, "removed a rule");
    }
    Ok(is_removed || alerts.rules().all(|configured| configured != rule))
}
