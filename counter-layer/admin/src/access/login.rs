//! Login, logout, and revocation of sessions and links.

use axum::response::{Html, IntoResponse, Response};
use counter_core::Timestamp;
use http::header::{CACHE_CONTROL, LOCATION, SET_COOKIE};
use http::request::Parts;
use http::{HeaderValue, Method, StatusCode};

use super::access::{Access, LoginResult};
use super::form::Form;
use super::page::{self, Next};
use super::rejection::as_page;
use super::signed::secrets::Secrets;
use super::signed::session::Claim;
use super::throttle::Credentials;
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
        let form = Form::parse(form);
        let (token, to) = (form.field(page::TOKEN).trim(), form.to());
        let wait = match self.check_login(parts, Credentials::Token(token)) {
            LoginResult::Valid(auth_methods) => {
                let secrets = auth_methods.iter().find_map(|auth_method| auth_method.secrets());
                if let Some(secrets) = secrets
                    && let Some(response) = self.start(parts, secrets, &mount.address(to)).await
                {
                    return response;
                }
                None
            }
            LoginResult::Wrong => None,
            LoginResult::Throttled(wait) => Some(wait),
        };
        self.attempts.fail();
        self.rejection(parts, mount, wait, "This token is not valid.", to)
    }

    /// Starts a session and redirects to the URL `to`. Returns `None` if the operating system does not
    /// provide randomness.
    pub(crate) async fn start(&self, parts: &Parts, secrets: &Secrets, to: &str) -> Option<Response> {
        let session = secrets.start_session(self.session_lifetime).await?;
        let headers = [
            (LOCATION, HeaderValue::try_from(to).ok()?),
            (SET_COOKIE, cookie::set(&session, parts, self.is_cookie_secure(parts))?),
            (CACHE_CONTROL, HeaderValue::from_static("no-store")),
        ];
        Some((StatusCode::SEE_OTHER, headers).into_response())
    }

    /// Ends the sessions of a browser, if any.
    pub(crate) async fn log_out(&self, parts: &Parts, mount: &Mount) -> Response {
        if origin::is_cross_origin(parts) {
            return Problem::cross_origin().into_response();
        }
        let (now, mut unwritten) = (Timestamp::now(), None);
        for session in cookie::values(&parts.headers) {
            let Some(claim) = Claim::read(session, now) else { continue };
            for auth_method in self.accepting_ways(&claim).await {
                if let Some(secrets) = auth_method.secrets()
                    && let Err(error) = secrets.log_out(&claim).await
                {
                    unwritten = Some(error);
                }
            }
        }
        let next = Next::LogIn("");
        let mut response = match unwritten {
            None => {
                let words = "You are signed out.";
                Html(page::write(mount, "Signed out", words, next)).into_response()
            }
            Some(error) => {
                let words = "You are signed out in this browser and on this instance. The store cannot be \
                             written, so other instances accept your session until the store is available again.";
                as_page(
                    parts,
                    mount,
                    Problem::not_revoked(&error).into_response(),
                    "Signed out on this instance",
                    words,
                    next,
                )
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
                "All sessions have ended, including the sessions in other browsers.",
            ),
            Revocation::Links => (
                secrets.end_links().await,
                "Share links revoked",
                "All existing links are invalid. You can create new links.",
            ),
        };
        if let Err(error) = revoked {
            return Problem::not_revoked(&error).into_response();
        }
        let is_out = matches!(revocation, Revocation::Sessions);
        let next = if is_out { Next::LogIn("") } else { Next::Back };
        let mut response = Html(page::write(mount, title, words, next)).into_response();
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
