//! A page to try the routes, generated from the descriptions. This does not need scripts.

use askama::Template;
use axum::response::{Html, IntoResponse, Response};
use http::StatusCode;

use super::parameter::RequestParts;
use super::route::{Catalog, Description, Route};
use crate::access::assets;

/// The page with a section for each route.
#[derive(Debug, Template)]
#[template(path = "pages/explore.html", whitespace = "minimize")]
struct ExplorePage<'a> {
    style: String,
    icon: String,
    first: String,
    sections: Vec<Section<'a>>,
}

/// The description of a route.
#[derive(Debug)]
struct Section<'a> {
    method: String,
    path: &'a str,
    summary: &'a str,
    /// The names of the form fields, and whether they are required. We only create forms for `GET` routes that
    /// do not respond with a page of the dashboard or with this page.
    form: Option<Vec<(&'a str, bool)>>,
}

/// The path of the page.
pub(super) const PATH: &str = "/api/explore";

pub(crate) fn route(catalog: &Catalog) -> Route {
    Route::get(PATH, "A page to try these routes", catalog.clone(), explore).text("text/html", "The page")
}

async fn explore(RequestParts { state: catalog, mount, first, .. }: RequestParts<Catalog, ()>) -> Response {
    let page = ExplorePage {
        style: format!("{mount}{}", assets::style()),
        icon: format!("{mount}{}", assets::icon()),
        first,
        sections: catalog.descriptions().iter().map(Section::of).collect(),
    };
    match page.render() {
        Ok(text) => Html(text).into_response(),
        Err(error) => {
            tracing::error!(%error, "failed to render a page");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}

impl<'a> Section<'a> {
    fn of(route: &'a Description) -> Self {
        let parameters = route.parameters.iter().filter(|parameter| !parameter.is_header);
        let fields = parameters.map(|parameter| (parameter.name, parameter.is_required()));
        Self {
            method: route.method.to_uppercase(),
            path: route.path,
            summary: route.summary,
            form: (route.method == "get" && !["/", "/api"].contains(&route.path)).then(|| fields.collect()),
        }
    }
}
