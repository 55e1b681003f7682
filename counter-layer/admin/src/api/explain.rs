use std::sync::Arc;

use axum::Json;
use serde::Serialize;

use super::parameter::{Matched, Method, Path, RequestParts};
use super::route::Route;
use counter_layer::{Decision, Rules};

#[derive(Debug, Serialize)]
pub(crate) struct Explained {
    /// `excluded`, `count`, `unmatched`, or `matched_path` if the route template decides, but the request did
    /// not include it.
    decision: &'static str,
    /// The counter. If the template decides, this is the counter of unmatched requests.
    counter: Option<String>,
    reason: String,
}

pub(crate) fn route(rules: Arc<Rules>) -> Route {
    Route::get("/", "How the rules classify a request, and why", rules, explain)
}

async fn explain(request: RequestParts<Arc<Rules>, (Method, Path, Matched)>) -> Json<Explained> {
    let RequestParts { state: rules, parameters: (Method(method), Path(path), Matched(matched)), .. } =
        request;
    let explanation = rules.explain(&method, &path, matched.as_deref());
    let counter = explanation.decision.counter().map(str::to_owned);
    let decision = match explanation.decision {
        Decision::Excluded { .. } => "excluded",
        _ if explanation.without_matched_path => "matched_path",
        _ if counter.is_some() => "count",
        _ => "unmatched",
    };
    Json(Explained { decision, counter, reason: explanation.to_string() })
}
