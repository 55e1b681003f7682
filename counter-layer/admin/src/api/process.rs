//! The ledger and the health of this process. These routes don't read the store.

use axum::Json;
use axum::response::{IntoResponse, Response};
use counter_core::Stats;
use http::StatusCode;

use super::parameter::Asked;
use super::route::Route;
use crate::status::{Health, Ledger};

pub(crate) fn ledger_route(stats: &Stats) -> Route {
    let summary = "The ledger of this process: every request and hit that it has seen";
    Route::get("/api/ledger", summary, stats.clone(), ledger).json::<Ledger>()
}

pub(crate) fn health_route(stats: &Stats) -> Route {
    let summary = "The health of this process's connection to its store";
    Route::get("/api/health", summary, stats.clone(), health).json::<Health>().json_with::<Health>("503")
}

async fn ledger(Asked { state: stats, .. }: Asked<Stats, ()>) -> Json<Ledger> {
    Json(stats.ledger().into())
}

async fn health(Asked { state: stats, .. }: Asked<Stats, ()>) -> Response {
    let health = stats.health();
    let status = if health.is_well() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, Json(Health::from(health))).into_response()
}
