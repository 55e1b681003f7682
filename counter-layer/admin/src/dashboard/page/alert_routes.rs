//! Routes for the alerts page and the forms on this page.

use axum::extract::{RawQuery, State};
use axum::response::Response;
use axum::routing::{get, post};
use axum::{Extension, Router};
use counter_alert::{AddRuleError, Alerts, RuleError, SilenceError};
use counter_core::{ErrorKind, Timestamp};
use http::{HeaderMap, StatusCode};

use super::alerts::{AlertsPage, path};
use super::pages::FailurePage;
use super::routes::{Dashboard, Rejection, failure, html, rendered, see_other};
use super::rule_forms::SubmittedRule;
use super::update::{KnownParts, respond};
use crate::access::form::Form;
use crate::access::right::{NO_RULE_FORM, RULE_FORM, SILENCE_FORM, TEST_FORM};
use crate::api::alerts;
use crate::api::parameter::Seconds;
use crate::dashboard::format::instants;
use crate::dashboard::view::addresses::ALERTS;
use crate::dashboard::view::client::Client;
use crate::dashboard::view::view::Page;
use crate::mount::Mount;
use crate::text::escape::isolated;
use crate::zone::Zone;

type AlertState = State<(Dashboard, Alerts)>;

/// Returns the alerts page and the form handlers.
pub(crate) fn alert_pages(dashboard: &Dashboard, alerts: &Alerts) -> Router {
    Router::new()
        .route(ALERTS, get(page))
        .route(SILENCE_FORM, post(silence))
        .route(TEST_FORM, post(test))
        .route(RULE_FORM, post(add))
        .route(NO_RULE_FORM, post(remove))
        .with_state((dashboard.clone(), alerts.clone()))
}

async fn page(
    State((dashboard, alerts)): AlertState,
    Extension(mount): Extension<Mount>,
    RawQuery(query): RawQuery,
    client: Client,
    headers: HeaderMap,
) -> Result<Response, Rejection> {
    let view = dashboard.view(&mount, Page::Site, client, query.as_deref())?;
    let known = alerts.read().await.map_err(|error| failure(dashboard.stats(), &view, &error))?;
    let page = AlertsPage::of(dashboard.stats(), &view, &known, client.may_silence);
    Ok(respond(KnownParts::of(&headers).as_ref(), &rendered(&page)?))
}

/// Mutes a rule, and redirects back to the page.
async fn silence(
    State((dashboard, alerts)): AlertState,
    Extension(mount): Extension<Mount>,
    RawQuery(query): RawQuery,
    client: Client,
    form: Form,
) -> Result<Response, Rejection> {
    let view = dashboard.view(&mount, Page::Site, client, query.as_deref())?;
    let rule = form.field("rule");
    let duration = match form.field("until") {
        "" => Seconds::parse(form.field("seconds")),
        until => mute_duration(until, &view.site.zone, Timestamp::now()),
    };
    let Some(duration) = duration else {
        let text = "Choose a time within the next 30 days.".to_owned();
        let page = FailurePage::of(dashboard.stats(), &view, "Rule not muted", text);
        return Ok(html(StatusCode::BAD_REQUEST, &page));
    };
    Ok(match alerts::silence(&alerts, rule, &duration).await {
        Ok(_) => see_other(&mount, &path(view.is_local)),
        Err(SilenceError::Store(error)) => failure(dashboard.stats(), &view, &error),
        Err(_) => {
            let text = format!("There is no rule named {}.", isolated(rule));
            html(StatusCode::NOT_FOUND, &FailurePage::of(dashboard.stats(), &view, "No such rule", text))
        }
    })
}

/// Returns how long to mute a rule until a time in a form, which must be in the future.
fn mute_duration(until: &str, zone: &Zone, now: Timestamp) -> Option<Seconds> {
    let until = instants::submitted(until, zone)?;
    let seconds = until.as_unix().checked_sub(now.as_unix()).filter(|seconds| *seconds > 0)?;
    Seconds::parse(&seconds.to_string())
}

/// Adds a rule, and redirects back to the page.
async fn add(
    State((dashboard, alerts)): AlertState,
    Extension(mount): Extension<Mount>,
    RawQuery(query): RawQuery,
    client: Client,
    form: Form,
) -> Result<Response, Rejection> {
    let (view, stats) = (dashboard.view(&mount, Page::Site, client, query.as_deref())?, dashboard.stats());
    let refused = |status, text| Ok(html(status, &FailurePage::of(stats, &view, "Rule not added", text)));
    let sent = SubmittedRule(form);
    let rule = match sent.rule(stats) {
        Ok(rule) => rule,
        Err(text) => return refused(StatusCode::BAD_REQUEST, text),
    };
    // An unreadable list can't say that there is no such counter.
    let found = stats.contains_counters(&sent.needed()).await;
    let found = found.map_err(|error| failure(stats, &view, &error))?;
    if found.iter().all(|found| matches!(found, Ok(false))) {
        return refused(StatusCode::BAD_REQUEST, sent.uncounted());
    }
    match alerts::add(&alerts, &rule, stats).await {
        Ok(()) => Ok(see_other(&mount, &path(view.is_local))),
        Err(AddRuleError::Rule(RuleError::Duplicate(name))) => {
            let text = format!("There already is a different rule named {}.", isolated(&name));
            refused(StatusCode::CONFLICT, text)
        }
        Err(AddRuleError::Store(error)) if matches!(error.kind(), ErrorKind::TooManyItems { .. }) => {
            let text = format!("There already are {} rules. Remove one first.", Alerts::MAX_STORED_RULES);
            refused(StatusCode::CONFLICT, text)
        }
        Err(AddRuleError::Store(error)) => Ok(failure(stats, &view, &error)),
        Err(error) => refused(StatusCode::BAD_REQUEST, format!("The {error}.")),
    }
}

/// Removes a rule, and redirects back to the page.
async fn remove(
    State((dashboard, alerts)): AlertState,
    Extension(mount): Extension<Mount>,
    RawQuery(query): RawQuery,
    client: Client,
    form: Form,
) -> Result<Response, Rejection> {
    let view = dashboard.view(&mount, Page::Site, client, query.as_deref())?;
    Ok(match alerts::remove(&alerts, form.field("rule")).await {
        // Only rules in the store have this form.
        Ok(_) => see_other(&mount, &path(view.is_local)),
        Err(error) => failure(dashboard.stats(), &view, &error),
    })
}

/// Sends a test message, and redirects back to the page.
async fn test(
    State((dashboard, alerts)): AlertState,
    Extension(mount): Extension<Mount>,
    RawQuery(query): RawQuery,
    client: Client,
) -> Result<Response, Rejection> {
    let view = dashboard.view(&mount, Page::Site, client, query.as_deref())?;
    Ok(match alerts.test().await {
        Ok(_) => see_other(&mount, &path(view.is_local)),
        Err(error) => failure(dashboard.stats(), &view, &error),
    })
}
