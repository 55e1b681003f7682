use axum::Json;
use counter_core::{Error, Stats};
use http::StatusCode;

use super::parameter::{After, Counter, Limit, RequestParts};
use super::response::{Counters, KnownCounter, Unreadable};
use super::route::{ResponseKind, Route};
use crate::problem::Problem;

const PATH: &str = "/api/counters";

pub(crate) fn route(stats: &Stats) -> Route {
    Route::get(PATH, "A page of counters, sorted by name", stats.clone(), counters).json::<Counters>()
}

pub(crate) fn forget_route(stats: &Stats) -> Route {
    let summary = "Forgets a counter: samples, visitors, lifetime total and pairs";
    Route::delete(PATH, summary, stats.clone(), forget).response("204", ResponseKind::Empty)
}

async fn counters(
    RequestParts { state: stats, parameters: (After(after), Limit(limit)), .. }: RequestParts<
        Stats,
        (After, Limit<100>),
    >,
) -> Result<Json<Counters>, Problem> {
    let failed = |error: Error| Problem::of(&error, &stats);
    let known = stats.list_counters(after.as_ref(), limit).await.map_err(failed)?;
    let names: Vec<_> = known.counters.iter().map(|(name, _)| name.clone()).collect();
    let lifetimes = stats.lifetimes_by_counter(&names).await.map_err(failed)?;
    let (mut counters, mut unreadable) = (Vec::with_capacity(names.len()), known.unreadable);
    for ((name, precisions), lifetime) in known.counters.into_iter().zip(lifetimes) {
        counters.push(KnownCounter {
            counter: name.to_string(),
            precisions: precisions.into_iter().map(|precision| precision.as_seconds()).collect(),
            lifetime: lifetime
                .map_err(|why| unreadable.push(why))
                .ok()
                // Every counter of this library has a lifetime total in this store, so 0 means that a
                // different program counted it.
                .filter(|total| *total > 0),
        });
    }
    let next = known.next.map(|name| name.to_string());
    Ok(Json(Counters { counters, next, unreadable: Unreadable::list(unreadable) }))
}

/// Succeeds even if the counter does not exist, so that clients can retry if a response was lost.
async fn forget(
    RequestParts { state: stats, parameters: (Counter(counter),), .. }: RequestParts<Stats, (Counter,)>,
) -> Result<StatusCode, Problem> {
    stats.forget(&counter).await.map_err(|error| Problem::of(&error, &stats))?;
    tracing::info!(%counter, "forgot a counter");
    Ok(StatusCode::NO_CONTENT)
}
