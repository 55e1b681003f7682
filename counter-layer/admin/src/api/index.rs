use axum::Json;
use axum::response::{IntoResponse, Redirect, Response};
use counter_core::time::Retention;
use counter_core::{Precisions, Stats};
use serde::Serialize;
use utoipa::ToSchema;

use super::explore;
use super::parameter::{ReadableRetention, RequestParts};
use super::route::{Catalog, Route};
use crate::access::page::accepts_html;

/// The paths of the API, and the precisions that can be read.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Index {
    pages: Vec<String>,
    /// Precisions of counts, from fine to coarse.
    counts: Vec<ReadablePrecision>,
    /// Precisions of visitors, from fine to coarse.
    visitors: Vec<ReadablePrecision>,
    /// The sites of a fleet. A parameter `site` selects one of them, for any route.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    sites: Vec<Site>,
}

/// A site of a fleet.
#[derive(Debug, Serialize, ToSchema)]
struct Site {
    name: String,
    /// False if the last read failed.
    is_readable: bool,
}

/// A precision, with the number of samples.
#[derive(Debug, Serialize, ToSchema)]
struct ReadablePrecision {
    /// Bucket width in seconds.
    precision: u32,
    /// Seconds between a multiple of the width and the bucket start.
    offset: u32,
    /// Number of retained samples, including the current bucket. This is the default range of a response.
    samples: u32,
    /// Number of samples that can be read, including the current bucket. An archive increases this number.
    reach: u32,
}

/// The path of the index, which lists neither this path nor the dashboard. Browsers are redirected to a page.
const PATH: &str = "/api";

const SUMMARY: &str = "The API paths, and how far back you can read samples";

pub(crate) fn route(stats: &Stats, catalog: &Catalog) -> Route {
    Route::get(PATH, SUMMARY, (stats.clone(), catalog.clone()), index).json::<Index>().schema::<Site>()
}

async fn index(
    RequestParts { state: (stats, catalog), mount, headers, .. }: RequestParts<(Stats, Catalog), ()>,
) -> Response {
    if accepts_html(&headers) {
        return Redirect::to(&format!("{mount}{}", explore::PATH)).into_response();
    }
    let routes = catalog.descriptions().iter();
    let paths = routes.filter(|route| route.method == "get" && !["/", PATH].contains(&route.path));
    let (stored, reach) = (stats.grid(), stats.reach());
    let site = |site: &counter_core::fleet::Site| Site {
        name: site.name().to_owned(),
        is_readable: site.failure().is_none(),
    };
    Json(Index {
        pages: paths.map(|route| format!("{mount}{}", route.path)).collect(),
        counts: readable(&stored.counts, &reach.counts),
        visitors: readable(&stored.visitors, &reach.visitors),
        sites: stats.sites().iter().map(site).collect(),
    })
    .into_response()
}

fn readable(stored: &Precisions, reach: &Precisions) -> Vec<ReadablePrecision> {
    let readable = |stored: Retention| {
        let ReadableRetention { precision, samples, reach } = ReadableRetention::of(stored, reach);
        ReadablePrecision {
            precision: precision.as_seconds(),
            offset: precision.offset(),
            samples: samples.get(),
            reach: reach.get(),
        }
    };
    stored.iter().map(readable).collect()
}
