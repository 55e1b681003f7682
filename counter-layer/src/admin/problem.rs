use axum::Json;
use axum::response::{IntoResponse, Response};
use counter_core::{CounterName, Error, ErrorKind, Stats, Store};
use http::StatusCode;
use serde::Serialize;

use super::api::{Health, Ledger};

/// Why a question is not answered: a status, and a body that says what to do.
#[derive(Debug)]
pub(super) struct Problem {
    status: StatusCode,
    body: Box<Body>,
}

#[derive(Debug, Default, Serialize)]
struct Body {
    error: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    parameter: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    allowed: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    health: Option<Health>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ledger: Option<Ledger>,
}

impl Problem {
    fn new(status: StatusCode, error: impl Into<String>) -> Self {
        Self { status, body: Box::new(Body { error: error.into(), ..Body::default() }) }
    }

    pub(super) fn unauthorized() -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "show the admin token: `Authorization: Bearer <token>`")
    }

    pub(super) fn forbidden() -> Self {
        Self::new(StatusCode::FORBIDDEN, "you may not see the statistics")
    }

    pub(super) fn nothing_here() -> Self {
        Self::new(StatusCode::NOT_FOUND, "there is no such page of the statistics")
    }

    pub(super) fn unknown_counter(counter: &CounterName) -> Self {
        let mut problem = Self::new(StatusCode::NOT_FOUND, "there is no such counter");
        problem.body.parameter = Some("counter".to_owned());
        problem.body.value = Some(counter.to_string());
        problem
    }

    /// A parameter that cannot be understood; `value` is missing when the parameter is.
    pub(super) fn parameter(
        error: impl Into<String>,
        parameter: &str,
        value: Option<&str>,
        allowed: impl Into<String>,
    ) -> Self {
        let mut problem = Self::new(StatusCode::BAD_REQUEST, error);
        problem.body.parameter = Some(parameter.to_owned());
        problem.body.value = value.map(str::to_owned);
        problem.body.allowed = Some(allowed.into());
        problem
    }

    /// What a read failed with.
    pub(super) fn of<S: Store>(error: &Error, stats: &Stats<S>) -> Self {
        match error.kind() {
            ErrorKind::TooManyBuckets { asked, most } => {
                let allowed = format!("ranges of at most {most} buckets, over all counters");
                Self::parameter(error.to_string(), "from", Some(&format!("{asked} buckets")), allowed)
            }
            ErrorKind::UnknownPrecision { asked, kept } => {
                Self::parameter(error.to_string(), "precision", Some(&asked.to_string()), kept)
            }
            _ => {
                let cause = std::error::Error::source(error).map(ToString::to_string).unwrap_or_default();
                tracing::warn!(%error, cause, "the statistics cannot be read");
                let mut problem = Self::new(StatusCode::SERVICE_UNAVAILABLE, error.to_string());
                problem.body.health = Some(stats.health().into());
                problem.body.ledger = Some(stats.ledger().into());
                problem
            }
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        (self.status, Json(self.body)).into_response()
    }
}
