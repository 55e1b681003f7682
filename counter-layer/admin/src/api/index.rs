use axum::Json;
use counter_core::time::Retention;
use counter_core::{Precisions, Stats};
use serde::Serialize;
use utoipa::ToSchema;

use super::parameter::{Asked, Kept};
use super::route::{Catalog, Route};

/// The addresses of the paths that can be read, and the precisions that there are.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Index {
    pages: Vec<String>,
    /// The precisions of counts, finest first.
    counts: Vec<ReadablePrecision>,
    /// The precisions of visitors, finest first.
    visitors: Vec<ReadablePrecision>,
}

/// A precision, and how far back its samples can be read.
#[derive(Debug, Serialize, ToSchema)]
struct ReadablePrecision {
    /// The width of the buckets in seconds.
    precision: u32,
    /// The seconds by which buckets begin after the multiples of the width.
    offset: u32,
    /// The number of samples that are kept, the current one included: the range of an answer where none was asked for.
    samples: u32,
    /// The number of samples that can be read, the current one included: more than are kept where there is an archive.
    reach: u32,
}

/// The path of the index, where the first page is another one.
const PATH: &str = "/api";

const SUMMARY: &str = "The paths that can be read, and how far back samples reach";

pub(crate) fn route(stats: &Stats, catalog: &Catalog) -> Route {
    Route::get(PATH, SUMMARY, (stats.clone(), catalog.clone()), index).json::<Index>()
}

async fn index(Asked { state: (stats, catalog), mount, .. }: Asked<(Stats, Catalog), ()>) -> Json<Index> {
    let routes = catalog.descriptions().iter();
    let paths = routes.filter(|route| route.method == "get" && !["/", PATH].contains(&route.path));
    let (kept, reach) = (stats.grid(), stats.reach());
    Json(Index {
        pages: paths.map(|route| format!("{mount}{}", route.path)).collect(),
        counts: readable(&kept.counts, &reach.counts),
        visitors: readable(&kept.visitors, &reach.visitors),
    })
}

fn readable(kept: &Precisions, reach: &Precisions) -> Vec<ReadablePrecision> {
    let readable = |kept: Retention| {
        let Kept { precision, samples, reach } = Kept::of(kept, reach);
        ReadablePrecision {
            precision: precision.as_seconds(),
            offset: precision.offset(),
            samples: samples.get(),
            reach: reach.get(),
        }
    };
    kept.iter().map(readable).collect()
}
