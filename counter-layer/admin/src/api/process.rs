//! The ledger and the health of this process. These routes don't read the store.

use axum::Json;
use axum::response::{IntoResponse, Response};
use counter_core::Stats;
use http::StatusCode;

use super::parameter::RequestParts;
use super::route::Route;
use crate::status::{Health, Ledger};

pub(crate) fn ledger_route(stats: &Stats) -> Route {
    let summary = "The ledger of this process: all requests and hits";
    Route::get("/api/ledger", summary, stats.clone(), ledger).json::<Ledger>()
}

pub(crate) fn health_route(stats: &Stats) -> Route {
    let summary = "The health of the store connection of this process";
    Route::get("/api/health", summary, stats.clone(), health).json::<Health>().json_with::<Health>("503")
}

async fn ledger(RequestParts { state: stats, .. }: RequestParts<Stats, ()>) -> Json<Ledger> {
    Json(stats.ledger().into())
}

async fn health(RequestParts { state: stats, .. }: RequestParts<Stats, ()>) -> Response {
    let health = stats.health();
    let status = if health.is_well() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, Json(Health::from(health))).into_response()
}
