use axum::response::Response;
use counter_core::Stats;
use serde::Serialize;
use utoipa::ToSchema;

use super::caching;
use super::parameter::RequestParts;
use super::route::Route;
use crate::problem::Problem;

/// An estimate of the people of the last five minutes, on all instances and sites.
#[derive(Debug, Serialize, ToSchema)]
struct Now {
    people: u64,
    /// Unix time of the start of the minute five minutes ago. People who were seen since then are included.
    since: u64,
    /// The standard error as a fraction of `people`. Two thirds of all estimates are within this error.
    standard_error: f64,
    /// True if a visitor may count twice: once per site, or again in a new salt epoch.
    is_upper_bound: bool,
}

pub(crate) fn route(stats: &Stats) -> Route {
    Route::get("/api/now", "The number of people of the last five minutes", stats.clone(), now)
        .json::<Now>()
        .cached()
        .details(
            "Instances share this every two seconds, so it can be read every few seconds. People without an identity are not \
             included.",
        )
}

async fn now(request: RequestParts<Stats, ()>) -> Result<Response, Problem> {
    let RequestParts { state: stats, headers, .. } = request;
    let now = stats.now().await.map_err(|error| Problem::of(&error, &stats))?;
    let now = Now {
        people: now.people.visitors,
        since: now.since.as_unix(),
        standard_error: now.people.standard_error,
        is_upper_bound: now.people.is_upper_bound,
    };
    Ok(caching::json_response(&headers, None, &now))
}
