//! Responses to requests that are not admitted.

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use http::HeaderValue;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, WWW_AUTHENTICATE};
use http::request::Parts;

use super::access::Access;
use super::page::{self, Next};
use super::right::Right;
use crate::mount::Mount;
use crate::problem::{Message, Problem};

impl Access {
    pub(crate) fn out_of_scope(&self, right: Right) -> Response {
        let mut response = Problem::out_of_scope(right.meaning()).into_response();
        if self.has_sessions() {
            let challenge = HeaderValue::from_static(right.scope());
            response.headers_mut().insert(WWW_AUTHENTICATE, challenge);
        }
        response
    }

    /// Returns a problem, or for a browser a page with the text `words` and a form that redirects to `to`. If
    /// `wait` is set, the response contains the number of seconds to wait instead.
    pub(crate) fn rejection(
        &self,
        parts: &Parts,
        mount: &Mount,
        wait: Option<u64>,
        words: &str,
        to: &str,
    ) -> Response {
        let response = self.problem(wait);
        let waiting = wait.map(|wait| format!("Too many failed sign-ins. Try again in {wait} s."));
        let (title, words) = match &waiting {
            Some(waiting) => ("Sign in", &**waiting),
            None if self.has_sessions() => ("Sign in", words),
            None if self.has_secrets() => ("Sign in", "Reload this page to enter a name and a password."),
            None => ("No access", "You do not have access to the statistics of this site."),
        };
        let next = if self.has_sessions() { Next::LogIn(to) } else { Next::Back };
        as_page(parts, mount, response, title, words, next)
    }

    fn problem(&self, wait: Option<u64>) -> Response {
        if let Some(wait) = wait {
            return Problem::too_many_attempts(wait).into_response();
        }
        let auth_methods = self.auth_methods.iter();
        let mut challenges: Vec<_> = auth_methods.filter_map(|auth_method| auth_method.challenge()).collect();
        challenges.dedup();
        if challenges.is_empty() {
            return Problem::forbidden().into_response();
        }
        let words: Vec<_> = challenges.iter().map(|(_, words)| *words).collect();
        let mut response = Problem::unauthorized(&format!("send {}", words.join(", or "))).into_response();
        for (challenge, _) in challenges {
            response.headers_mut().append(WWW_AUTHENTICATE, HeaderValue::from_static(challenge));
        }
        response
    }
}

/// Replaces the problem with a page if the client is a browser.
pub(crate) fn as_page(
    parts: &Parts,
    mount: &Mount,
    problem: Response,
    title: &str,
    words: &str,
    next: Next<'_>,
) -> Response {
    match page::accepts_html(&parts.headers) {
        true => with_page(problem, page::write(mount, title, words, next)),
        false => problem,
    }
}

/// Replaces a problem with a page for browsers. Other responses are returned unchanged.
pub(crate) fn problem_as_page(response: Response, mount: &Mount) -> Response {
    let is_problem =
        response.headers().get(CONTENT_TYPE).is_some_and(|kind| kind == "application/problem+json");
    match response.extensions().get::<Message>().filter(|_| is_problem).cloned() {
        Some(Message { title, text }) => {
            let page = page::write(mount, &title, &text, Next::Back);
            with_page(response, page)
        }
        None => response,
    }
}

fn with_page(mut response: Response, page: String) -> Response {
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    response.headers_mut().remove(CONTENT_LENGTH);
    response.map(|_| Body::from(page))
}
