use axum::Json;
use serde::Serialize;

use super::parameter::Asked;
use super::route::{Catalog, Route};

/// The addresses of the paths that can be read.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub(crate) struct Index {
    pages: Vec<String>,
}

/// The path of the index, where the first page is another one.
const PATH: &str = "/api";

const SUMMARY: &str = "The paths that can be read";

pub(crate) fn route(catalog: &Catalog) -> Route {
    Route::get(PATH, SUMMARY, catalog.clone(), index).json::<Index>()
}

/// The index as the first page.
#[cfg(not(feature = "dashboard"))]
pub(crate) fn first_page(catalog: &Catalog) -> Route {
    Route::get("/", SUMMARY, catalog.clone(), index).json::<Index>()
}

async fn index(Asked { state: catalog, mount, .. }: Asked<Catalog, ()>) -> Json<Index> {
    let routes = catalog.descriptions().iter();
    let paths = routes.filter(|route| route.method == "get" && !["/", PATH].contains(&route.path));
    Json(Index { pages: paths.map(|route| format!("{mount}{}", route.path)).collect() })
}
