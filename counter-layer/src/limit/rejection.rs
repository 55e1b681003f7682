use http::header::CONTENT_TYPE;
use http::{HeaderValue, Response, StatusCode};

use super::fields::quoted;

/// The responses to rejected requests, with a body of type `R`. The layer adds the headers to describe the
/// limit.
pub trait Rejection<R> {
    /// Returns the response if the limit of this policy is exceeded. The status should be 429.
    fn limited(&self, policy: &str) -> Response<R>;

    /// Returns the response if the store fails. The status should be 503.
    fn unavailable(&self) -> Response<R>;
}

/// Responses with an empty body, i.e. `R::default()`.
#[derive(Clone, Copy, Debug, Default)]
pub struct EmptyRejection;

/// Responses with an `application/problem+json` body (RFC 9457), using the problem types in
/// draft-ietf-httpapi-ratelimit-headers-11, section 5.
#[derive(Clone, Copy, Debug, Default)]
pub struct ProblemRejection;

impl<R: Default> Rejection<R> for EmptyRejection {
    fn limited(&self, _: &str) -> Response<R> {
        with(StatusCode::TOO_MANY_REQUESTS, R::default())
    }

    fn unavailable(&self) -> Response<R> {
        with(StatusCode::SERVICE_UNAVAILABLE, R::default())
    }
}

impl<R: From<String>> Rejection<R> for ProblemRejection {
    fn limited(&self, policy: &str) -> Response<R> {
        let title = "Request cannot be satisfied as assigned quota has been exceeded";
        let policies = format!(r#","violated-policies":[{}]"#, quoted(policy));
        problem(StatusCode::TOO_MANY_REQUESTS, "quota-exceeded", title, &policies)
    }

    fn unavailable(&self) -> Response<R> {
        let title = "Request cannot be satisfied due to temporary server capacity constraints";
        problem(StatusCode::SERVICE_UNAVAILABLE, "temporary-reduced-capacity", title, "")
    }
}

fn problem<R: From<String>>(status: StatusCode, name: &str, title: &str, more: &str) -> Response<R> {
    let kind = format!("https://iana.org/assignments/http-problem-types#{name}");
    let status_code = status.as_u16();
    let body = format!(r#"{{"type":"{kind}","title":"{title}","status":{status_code}{more}}}"#);
    let mut response = with(status, R::from(body));
    let json = HeaderValue::from_static("application/problem+json");
    response.headers_mut().insert(CONTENT_TYPE, json);
    response
}

fn with<R>(status: StatusCode, body: R) -> Response<R> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response
}
