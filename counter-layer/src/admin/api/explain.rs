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
    let (decision, counter) = match explanation.decision() {
        Decision::Excluded => ("excluded", None),
        Decision::Unmatched => ("unmatched", None),
        Decision::Count { counter, .. } => ("count", Some(counter.to_owned())),
    };
    Ok(Json(Explained { decision, counter, reason: explanation.to_string() }))
}
