use std::sync::Arc;

use axum::Json;
use axum::extract::{RawQuery, State};
use serde::Serialize;

use super::query::Query;
use crate::admin::problem::Problem;
use crate::{Decision, Rules};

#[derive(Debug, Serialize)]
pub(crate) struct Explained {
    decision: &'static str,
    counter: Option<String>,
    reason: String,
}

pub(crate) async fn explain(
    State(rules): State<Arc<Rules>>,
    RawQuery(query): RawQuery,
) -> Result<Json<Explained>, Problem> {
    let query = Query::parse(query.as_deref(), &["method", "path", "matched"])?;
    let method = query.method()?;
    let explanation = rules.explain(&method, query.path()?, query.matched()?);
    let counter = explanation.decision.counter().map(str::to_owned);
    let decision = match explanation.decision {
        Decision::Excluded { .. } => "excluded",
        _ if counter.is_some() => "count",
        _ => "unmatched",
    };
    Ok(Json(Explained { decision, counter, reason: explanation.to_string() }))
}
