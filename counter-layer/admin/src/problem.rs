use std::time::Duration;

use axum::Json;
use axum::response::{IntoResponse, Response};
use counter_alert::forecast::ForecastError;
use counter_alert::{AddRuleError, RuleError};
use counter_core::internal::admits_log_line;
use counter_core::{CounterName, Error, ErrorKind, Stats};
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderValue, StatusCode};
use serde::Serialize;
use utoipa::ToSchema;

use super::status::{Health, Ledger};
use super::text::escape::isolated;

/// An error response: a status, and a body that describes the problem.
#[derive(Debug)]
pub(crate) struct Problem {
    status: StatusCode,
    retry_after: Option<u64>,
    details: Box<Details>,
    /// The message for browsers, unless it is derived from the details.
    message: Option<Message>,
}

/// Response extension: the title and the text of a page for browsers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Message {
    pub(crate) title: String,
    pub(crate) text: String,
}

/// A problem as defined in RFC 9457. We don't define problem types, because the status and `parameter` are
/// enough to distinguish problems.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Problem)]
pub(crate) struct Details {
    #[serde(rename = "type")]
    kind: &'static str,
    /// The reason phrase of the status.
    title: &'static str,
    status: u16,
    /// The error message.
    detail: String,
    /// The invalid parameter.
    #[serde(skip_serializing_if = "Option::is_none")]
    parameter: Option<String>,
    /// The value of this parameter, if it was sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<String>,
    /// The allowed values.
    #[serde(skip_serializing_if = "Option::is_none")]
    allowed: Option<String>,
    /// The number of the latest counted request of this producer.
    #[serde(skip_serializing_if = "Option::is_none")]
    number: Option<u64>,
    /// The health of this process, if the store can't be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    health: Option<Health>,
    /// The ledger of this process, if the store can't be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    ledger: Option<Ledger>,
}

impl Problem {
    fn new(status: StatusCode, detail: impl Into<String>) -> Self {
        let details = Details {
            kind: "about:blank",
            title: status.canonical_reason().unwrap_or_default(),
            status: status.as_u16(),
            detail: detail.into(),
            parameter: None,
            value: None,
            allowed: None,
            number: None,
            health: None,
            ledger: None,
        };
        Self { status, retry_after: None, details: Box::new(details), message: None }
    }

    /// Sets the message for browsers.
    fn message(mut self, title: &str, text: &str) -> Self {
        self.message = Some(Message { title: title.to_owned(), text: text.to_owned() });
        self
    }

    pub(crate) fn unauthorized(detail: &str) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, detail)
    }

    pub(crate) fn forbidden() -> Self {
        Self::new(StatusCode::FORBIDDEN, "you may not read the statistics")
    }

    pub(crate) fn out_of_scope(what: &str) -> Self {
        Self::new(StatusCode::FORBIDDEN, format!("you may read the statistics, but may not {what}"))
    }

    pub(crate) fn cross_origin() -> Self {
        Self::new(StatusCode::FORBIDDEN, "cross-origin requests may not change anything").message(
            "Request rejected",
            "A page of another site sent this request. Open the dashboard and try again.",
        )
    }

    /// Too many failed logins; `wait` is in seconds. Also affects valid credentials, because these are not
    /// compared.
    pub(crate) fn too_many_attempts(wait: u64) -> Self {
        let detail = "too many failed logins; these credentials were not checked, try again later";
        Self { retry_after: Some(wait), ..Self::new(StatusCode::TOO_MANY_REQUESTS, detail) }
    }

    pub(crate) fn slow_body(limit: Duration) -> Self {
        let detail = format!("the request body did not arrive within {} s", limit.as_secs());
        Self::new(StatusCode::REQUEST_TIMEOUT, detail)
    }

    pub(crate) fn too_many_bodies() -> Self {
        let detail = "too many incomplete request bodies; this body was not read completely, try again";
        Self { retry_after: Some(1), ..Self::new(StatusCode::SERVICE_UNAVAILABLE, detail) }
    }

    /// The client tried to create a link or to revoke something, but does not have a token.
    pub(crate) fn token_required() -> Self {
        Self::new(StatusCode::FORBIDDEN, "this requires the admin token or a session started with it")
            .message(
                "Admin token required",
                "Sign in with the admin token to create or revoke links and to end sessions.",
            )
    }

    pub(crate) fn not_revoked(error: &Error) -> Self {
        tracing::warn!(%error, cause = cause(error), "cannot revoke sessions or links");
        let detail = "the store cannot be written, so the revocation may not have been applied: try again, or change the token";
        Self { retry_after: Some(1), ..Self::new(StatusCode::SERVICE_UNAVAILABLE, detail) }.message(
            "Revocation failed",
            "The store cannot be written, so the revocation may not have been applied. Try again, or change the \
             token.",
        )
    }

    pub(crate) fn too_many_listeners(max: usize) -> Self {
        let detail = format!("the limit of {max} listeners is reached");
        Self { retry_after: Some(30), ..Self::new(StatusCode::SERVICE_UNAVAILABLE, detail) }
    }

    pub(crate) fn unknown_path() -> Self {
        Self::new(StatusCode::NOT_FOUND, "unknown path")
            .message("Page not found", "There is no page at this address.")
    }

    pub(crate) fn method_not_allowed() -> Self {
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "method not allowed; see the `Allow` header")
    }

    pub(crate) fn unknown_counter(counter: &CounterName) -> Self {
        let mut problem = Self::new(StatusCode::NOT_FOUND, "unknown counter");
        problem.details.parameter = Some("counter".to_owned());
        problem.details.value = Some(counter.to_string());
        problem
    }

    pub(crate) fn unknown_rule(rule: &str) -> Self {
        let mut problem = Self::new(StatusCode::NOT_FOUND, "unknown rule");
        problem.details.parameter = Some("rule".to_owned());
        problem.details.value = Some(rule.to_owned());
        problem
    }

    /// A rule that can't be removed.
    pub(crate) fn configured_rule(rule: &str) -> Self {
        let mut problem = Self::new(StatusCode::CONFLICT, "a rule of the program can't be removed");
        problem.details.parameter = Some("rule".to_owned());
        problem.details.value = Some(rule.to_owned());
        problem
    }

    /// A rule that can't be added.
    pub(crate) fn rule_refused(error: &AddRuleError) -> Self {
        let status = match error {
            AddRuleError::Rule(RuleError::Duplicate(_)) => StatusCode::CONFLICT,
            _ => StatusCode::BAD_REQUEST,
        };
        let mut problem = Self::new(status, error.to_string());
        problem.details.parameter = Some("config".to_owned());
        problem
    }

    /// An invalid or missing parameter; `value` is `None` if it is missing.
    pub(crate) fn parameter(
        detail: impl Into<String>,
        parameter: &str,
        value: Option<&str>,
        allowed: impl Into<String>,
    ) -> Self {
        let mut problem = Self::new(StatusCode::BAD_REQUEST, detail);
        problem.details.parameter = Some(parameter.to_owned());
        problem.details.value = value.map(str::to_owned);
        problem.details.allowed = Some(allowed.into());
        problem
    }

    pub(crate) fn invalid_link() -> Self {
        Self::new(StatusCode::FORBIDDEN, "this link is invalid or has expired").message(
            "Invalid link",
            "This link has expired, was revoked, or is incomplete. Ask the sender for a new link.",
        )
    }

    /// A shared view can't be read. Health and ledger should never be shared.
    pub(crate) fn unreadable_view() -> Self {
        let detail = "the data cannot be read; try again";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, detail)
            .message("Data unavailable", "The data of this view cannot be read. Try again later.")
    }

    /// Creates the problem for a failed read.
    pub(crate) fn of(error: &Error, stats: &Stats) -> Self {
        match error.kind() {
            ErrorKind::TooManyBuckets { requested, max } => {
                let allowed = format!("ranges of at most {max} buckets, over all counters");
                Self::parameter(error.to_string(), "from", Some(&format!("{requested} buckets")), allowed)
            }
            ErrorKind::UnknownPrecision { requested, retained } => {
                Self::parameter(error.to_string(), "precision", Some(&requested.to_string()), retained)
            }
            ErrorKind::TooManyCounters { .. } => {
                Self::new(StatusCode::UNPROCESSABLE_ENTITY, error.to_string())
            }
            ErrorKind::NoVisitors { counter } => Self::parameter(
                error.to_string(),
                "counter",
                Some(counter),
                "pages, the site, or label values that count people",
            ),
            _ => {
                warn(stats, error, "cannot read the statistics");
                Self::store_unavailable(error, stats)
            }
        }
    }

    /// A silence or a test may not have been stored. The client can retry safely.
    pub(crate) fn alerts_not_changed(error: &Error, stats: &Stats) -> Self {
        warn(stats, error, "cannot change alerts");
        Self::store_unavailable(error, stats)
    }

    pub(crate) fn audit_running() -> Self {
        Self::new(StatusCode::CONFLICT, "another audit is running: read the result when it is done")
    }

    /// A store error ended an audit, which might already have repaired something.
    pub(crate) fn audit_failed(error: &Error, stats: &Stats) -> Self {
        warn(stats, error, "an audit of the archive failed");
        Self::store_unavailable(error, stats)
    }

    /// A note may or may not have been added or removed.
    pub(crate) fn notes_not_changed(error: &Error, stats: &Stats) -> Self {
        Self::list_not_changed(error, stats, [TOO_MANY_NOTES, "cannot change notes"])
    }

    /// A goal may or may not have been marked or removed.
    pub(crate) fn goals_not_changed(error: &Error, stats: &Stats) -> Self {
        let full = "the maximum number of goals is reached: remove one first";
        Self::list_not_changed(error, stats, [full, "cannot change goals"])
    }

    /// A rule may or may not have been added or removed.
    pub(crate) fn rules_not_changed(error: &Error, stats: &Stats) -> Self {
        let full = "the maximum number of rules is reached: remove one first";
        Self::list_not_changed(error, stats, [full, "cannot change rules"])
    }

    fn list_not_changed(error: &Error, stats: &Stats, [full, failed]: [&'static str; 2]) -> Self {
        if matches!(error.kind(), ErrorKind::TooManyItems { .. }) {
            return Self::new(StatusCode::CONFLICT, full);
        }
        warn(stats, error, failed);
        Self::store_unavailable(error, stats)
    }

    pub(crate) fn too_large(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, detail)
    }

    pub(crate) fn unread_body() -> Self {
        Self::new(StatusCode::BAD_REQUEST, "the request body is incomplete")
    }

    /// Creates the problem for a forecast that is not possible.
    pub(crate) fn forecast_failed(error: &ForecastError) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, error.to_string())
    }

    pub(crate) fn store_unavailable(error: &Error, stats: &Stats) -> Self {
        let detail = match error.kind() {
            ErrorKind::Incomplete { .. } => with_cause(error),
            _ => error.to_string(),
        };
        let mut problem = Self::new(StatusCode::SERVICE_UNAVAILABLE, detail);
        problem.details.health = Some(stats.health().into());
        problem.details.ledger = Some(stats.ledger().into());
        problem.message = Some(Message::of(error));
        problem
    }

    pub(crate) fn details(&self) -> &Details {
        &self.details
    }
}

#[cfg(feature = "hits")]
impl Problem {
    /// An earlier request of the producer has not been counted.
    pub(crate) fn number_gap(number: u64, counted: u64) -> Self {
        let detail = format!(
            "the latest counted request of this producer has number {counted}, but this request has {number}: \
             send {} next",
            counted + 1
        );
        let mut problem = Self::new(StatusCode::CONFLICT, detail);
        problem.details.number = Some(counted);
        problem
    }

    pub(crate) fn encoded_body() -> Self {
        Self::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "content encodings are not supported")
    }

    /// The hits may not have been counted. The producer can retry safely.
    pub(crate) fn hits_not_counted(error: &Error, stats: &Stats) -> Self {
        warn(stats, error, "cannot count hits; the producer must retry");
        Self { retry_after: Some(1), ..Self::store_unavailable(error, stats) }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let message = self.message.unwrap_or_else(|| self.details.message());
        let mut response = (self.status, Json(self.details)).into_response();
        response.extensions_mut().insert(message);
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if let Some(seconds) = self.retry_after {
            headers.insert(RETRY_AFTER, seconds.into());
        }
        response
    }
}

impl Details {
    fn message(&self) -> Message {
        let (first, rest) = self.title.split_at(self.title.len().min(1));
        let mut text = sentence(&self.detail);
        if let Some(parameter) = &self.parameter {
            text += &format!(" Parameter: {}.", isolated(parameter));
        }
        if let Some(value) = &self.value {
            text += &format!(" Value: {}.", isolated(value));
        }
        if let Some(allowed) = &self.allowed {
            text += &format!(" Allowed: {allowed}.");
        }
        Message { title: format!("{first}{}", rest.to_lowercase()), text }
    }
}

impl Message {
    /// Describes a failed read. The reason is only logged, because store errors can contain addresses.
    pub(crate) fn of(error: &Error) -> Self {
        let text = match error.kind() {
            ErrorKind::TooManyBuckets { .. }
            | ErrorKind::TooManyCounters { .. }
            | ErrorKind::UnknownPrecision { .. }
            | ErrorKind::NoVisitors { .. }
            | ErrorKind::EmptyRange
            => sentence(&error.to_string()),
            // A reader of several sites needs the name of the site and the reason.
            ErrorKind::Incomplete { .. } => sentence(&with_cause(error)),
            ErrorKind::Malformed { .. } => {
                "The store contains unexpected data. See the log for the key and the reason.".to_owned()
            }
            ErrorKind::Unavailable => {
                "The store is unavailable or too slow. Hits are still counted and kept until it accepts them. See \
                  the log for the reason."
                    .to_owned()
            }
            _ => {
                "The store cannot be read. Hits are still counted and kept until it is back. See the log for \
                  the reason."
                    .to_owned()
            }
        };
        Self { title: "Data unavailable".to_owned(), text }
    }
}

/// Turns the text of an error into a sentence.
fn sentence(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| format!("{}{}.", first.to_uppercase(), chars.as_str()))
}

fn with_cause(error: &Error) -> String {
    format!("{error}: {}", cause(error))
}

/// Returns the cause of a store error, to be logged.
pub(crate) fn cause(error: &Error) -> String {
    std::error::Error::source(error).map(ToString::to_string).unwrap_or_default()
}

/// The reason if a note is not added, because the store already contains the maximum number.
pub(crate) const TOO_MANY_NOTES: &str = "the maximum number of notes is reached: remove one first";

/// Logs a store error. The rate is limited to once per second and message, because during an outage every
/// request might fail.
pub(crate) fn warn(stats: &Stats, error: &Error, message: &'static str) {
    if admits_log_line(stats, message) {
        tracing::warn!(%error, cause = cause(error), "{message}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_describe_problems_in_sentences() {
        let text = |problem: Problem| {
            let message = problem.into_response().extensions().get::<Message>().cloned();
            message.map(|message| format!("{}: {}", message.title, message.text))
        };
        for (problem, expected) in [
            (Problem::unknown_path(), "Page not found: There is no page at this address."),
            (Problem::unread_body(), "Bad request: The request body is incomplete."),
            (
                Problem::parameter("unknown precision", "precision", Some("7"), "60, 3600"),
                "Bad request: Unknown precision. Parameter: \u{2068}precision\u{2069}. Value: \u{2068}7\u{2069}. \
                 Allowed: 60, 3600.",
            ),
        ] {
            assert_eq!(text(problem).as_deref(), Some(expected));
        }
    }

    #[test]
    fn pages_do_not_show_store_errors() {
        let secret = "connection to 10.0.0.1 refused";
        for kind in [ErrorKind::Unavailable, ErrorKind::Rejected, ErrorKind::Malformed { key: secret.into() }]
        {
            let Message { title, text } = Message::of(&Error::new(kind).caused_by(secret));
            assert!(!text.contains(secret) && text.contains("See the log"), "{title}: {text}");
        }
    }
}
