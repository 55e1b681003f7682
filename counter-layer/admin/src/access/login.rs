//! Login, logout, and revocation of sessions and links.

use axum::response::{Html, IntoResponse, Response};
use counter_core::Timestamp;
use http::header::{CACHE_CONTROL, LOCATION, SET_COOKIE};
use http::request::Parts;
use http::{HeaderValue, Method, StatusCode};

use super::access::{Access, Judged};
use super::page::{self, Next};
use super::refusal::as_page;
use super::signed::secrets::Secrets;
use super::signed::session::Claim;
use super::throttle::Shown;
use super::{cookie, origin};
use crate::mount::Mount;
use crate::problem::Problem;

/// The path to end the current session.
pub(crate) const LOGOUT: &str = "/logout";
/// The path to end all sessions of a token.
pub(crate) const LOGOUT_EVERYWHERE: &str = "/logout/everywhere";
/// The path to revoke all links of a token.
pub(crate) const REVOKE_LINKS: &str = "/links/revoke";

/// A request to revoke all sessions or links of a token.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Revocation {
    Sessions,
    Links,
}

impl Revocation {
    pub(crate) fn of(parts: &Parts) -> Option<Self> {
        match (&parts.method, parts.uri.path()) {
            (&Method::POST, LOGOUT_EVERYWHERE) => Some(Self::Sessions),
            (&Method::POST, REVOKE_LINKS) => Some(Self::Links),
            _ => None,
        }
    }
}

impl Access {
    /// Handles the login form.
    pub(crate) async fn log_in_by_form(&self, parts: &Parts, mount: &Mount, form: &[u8]) -> Response {
        let field = |name| {
            let mut fields = form_urlencoded::parse(form).filter(|(other, _)| other == name);
            fields.next().map(|(_, value)| value).unwrap_or_default()
        };
        let (token, to) = (field(page::TOKEN), field(page::TO));
        let to = page::below(&to).unwrap_or_default();
        let wait = match self.judge(parts, Shown::Token(token.trim())) {
            Judged::Valid(ways) => {
                let secrets = ways.iter().find_map(|way| way.secrets());
                if let Some(secrets) = secrets
                    && let Some(response) = self.begin(parts, secrets, &mount.address(to)).await
                {
                    return response;
                }
                None
            }
            Judged::Wrong => None,
            Judged::NotYet(wait) => Some(wait),
        };
        self.attempts.fail();
        self.refusal(parts, mount, wait, "That is not the token.", to)
    }

    /// Starts a session and redirects to an address. Returns `None` if the operating system does not provide
    /// randomness.
    pub(crate) async fn begin(&self, parts: &Parts, secrets: &Secrets, to: &str) -> Option<Response> {
        let session = secrets.begin_session(self.session_lifetime).await?;
        let headers = [
            (LOCATION, HeaderValue::try_from(to).ok()?),
            (SET_COOKIE, cookie::set(&session, parts, self.is_cookie_secure(parts))?),
            (CACHE_CONTROL, HeaderValue::from_static("no-store")),
        ];
        Some((StatusCode::SEE_OTHER, headers).into_response())
    }

    /// Ends the sessions of a browser, if any.
    pub(crate) async fn log_out(&self, parts: &Parts, mount: &Mount) -> Response {
        if origin::is_another(parts) {
            return Problem::another_origin().into_response();
        }
        let (now, mut unwritten) = (Timestamp::now(), None);
        for session in cookie::values(&parts.headers) {
            let Some(claim) = Claim::read(session, now) else { continue };
            for way in self.ways_of(&claim).await {
                if let Some(secrets) = way.secrets()
                    && let Err(error) = secrets.log_out(&claim).await
                {
                    unwritten = Some(error);
                }
            }
        }
        let next = Next::LogIn(mount, "");
        let mut response = match unwritten {
            None => {
                let words = "Your session has ended. The token begins another.";
                Html(page::write("Logged out", words, next)).into_response()
            }
            Some(error) => {
                let words = "Your session has ended in this browser and at this instance. The store could not be \
                             written, so other instances accept it until the store can be reached again.";
                as_page(parts, Problem::not_revoked(&error).into_response(), "Logged out here", words, next)
            }
        };
        self.remove_cookie(parts, &mut response);
        response
    }

    /// Revokes all sessions or links of a token.
    pub(crate) async fn revoke(
        &self,
        parts: &Parts,
        mount: &Mount,
        secrets: &Secrets,
        revocation: Revocation,
    ) -> Response {
        let (revoked, title, words) = match revocation {
            Revocation::Sessions => (
                secrets.end_sessions().await,
                "Signed out everywhere",
                "All sessions have ended, also those of other browsers. The token begins another.",
            ),
            Revocation::Links => (
                secrets.end_links().await,
                "Share links revoked",
                "The links that were made until now show nothing any more. New links can be made.",
            ),
        };
        if let Err(error) = revoked {
            let words = "The store could not be written, so nothing was revoked for certain. Try again, or change the \
                         token.";
            let problem = Problem::not_revoked(&error).into_response();
            return as_page(parts, problem, "Nothing was revoked", words, Next::Back(mount));
        }
        let is_out = matches!(revocation, Revocation::Sessions);
        let next = if is_out { Next::LogIn(mount, "") } else { Next::Back(mount) };
        let mut response = Html(page::write(title, words, next)).into_response();
        if is_out {
            self.remove_cookie(parts, &mut response);
        }
        response
    }

    fn remove_cookie(&self, parts: &Parts, response: &mut Response) {
        if let Some(removed) = cookie::remove(parts, self.is_cookie_secure(parts)) {
            response.headers_mut().insert(SET_COOKIE, removed);
        }
    }
}
