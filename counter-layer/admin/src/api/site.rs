//! Selects a single site of a fleet.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use http::Method;
use tower::ServiceExt;

use crate::problem::Problem;

/// The query parameter with the name of a site.
pub(crate) const SITE: &str = "site";

/// Request extension: routes should ignore the parameter [`SITE`], because it was used to select the router.
#[derive(Clone, Copy, Debug)]
pub(super) struct Selected;

/// Serves requests with the router of the selected site, or with `all` if no site is selected.
pub(crate) fn select(all: Router, sites: Vec<(String, Router)>) -> Router {
    if sites.is_empty() { all } else { all.layer(from_fn_with_state(Arc::from(sites), serve)) }
}

async fn serve(State(sites): State<Arc<[(String, Router)]>>, mut request: Request, next: Next) -> Response {
    let query = request.uri().query().unwrap_or_default();
    let values = form_urlencoded::parse(query.as_bytes()).filter(|(name, _)| name == SITE);
    let values: Vec<_> =
        values.map(|(_, value)| value.into_owned()).filter(|value| !value.is_empty()).collect();
    request.extensions_mut().insert(Selected);
    let problem = |detail, value: &str| {
        let names: Vec<_> = sites.iter().map(|(name, _)| &**name).collect();
        Problem::parameter(detail, SITE, Some(value), names.join(", ")).into_response()
    };
    match &*values {
        [] => next.run(request).await,
        [name] if ![Method::GET, Method::HEAD].contains(request.method()) => {
            problem("only reads can select a site", name)
        }
        [name] => match sites.iter().find(|(other, _)| other == name) {
            Some((_, router)) => router.clone().oneshot(request).await.into_response(),
            None => problem("unknown site", name),
        },
        [_, second, ..] => problem("duplicate parameter", second),
    }
}
