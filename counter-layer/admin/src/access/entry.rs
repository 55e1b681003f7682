//! Decides how to handle a request: admit, log in, log out or reject it.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use counter_core::internal::errands;
use counter_core::{Stats, Timestamp};
use futures_util::StreamExt;
use http::header::{AUTHORIZATION, CONTENT_TYPE};
use http::request::Parts;
use http::{HeaderMap, Method};

use super::access::{Access, LoginResult};
use super::auth_method::AuthMethod;
use super::headers::add_security_headers;
use super::login::{LOGOUT, Revocation};
use super::rejection::problem_as_page;
use super::right::{Right, Rights};
use super::signed::link;
use super::signed::secrets::{OpenSession, Secrets};
use super::signed::session::{Claim, LoggedIn};
use super::throttle::Credentials;
use super::{assets, cookie, origin, page};
use crate::mount::{Mount, PublicPath};
use crate::problem::Problem;
use crate::upload::{Logins, Uploads};

/// The middleware that restricts a router to clients with access.
struct Guard {
    access: Access,
    public: Option<PublicPath>,
    logins: Logins,
    uploads: Uploads,
}

/// The result of checking the credentials of a request.
#[derive(Default)]
struct Entry {
    is_admitted: bool,
    /// The changes that this request may make.
    rights: Rights,
    session: Option<OpenSession>,
    /// The secrets of the token that was sent, or of the session.
    secrets: Option<Arc<Secrets>>,
    /// True if the request has an `Authorization` header with a valid token, which browsers never add.
    has_token_header: bool,
    /// If set, credentials are not compared for this number of seconds.
    wait: Option<u64>,
}

/// Request extension: the client may create and revoke links.
#[derive(Clone)]
pub(crate) struct Signer {
    /// The secrets to sign links with.
    pub(crate) secrets: Arc<Secrets>,
    /// The origin at which the client reached the router, if it is known.
    pub(crate) origin: Option<String>,
}
/// Request extension: revocations by other instances can't be read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RevocationsUnknown;
/// Request extension: the client may silence rules and send tests.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MaySilence;
/// Request extension: the client may change notes and goals.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MayNote;

impl Access {
    /// Restricts the routes to clients with access. Clients see the routes at `public`, if it is set.
    /// Revocations are stored in the documents of `stats`, or otherwise just in this process.
    pub(crate) fn guard(self, routes: Router, public: Option<PublicPath>, stats: Option<Stats>) -> Router {
        let access = match stats.and_then(|stats| Some((stats.documents()?, errands(&stats)))) {
            Some((documents, errands)) => self.stored_in(&documents, &errands),
            None => self,
        };
        let guard = Guard { access, public, logins: Logins::default(), uploads: Uploads::new() };
        let guard = Arc::new(guard);
        routes.layer(from_fn(move |request: Request, next: Next| {
            let guard = Arc::clone(&guard);
            async move { add_security_headers(guard.respond(request, next).await) }
        }))
    }
}

impl Guard {
    async fn respond(&self, request: Request, next: Next) -> Response {
        let (mut parts, body) = request.into_parts();
        if let Some(file) = assets::serve(&parts) {
            return file;
        }
        let mount = self.access.mount(&parts, self.public.as_ref());
        parts.extensions.insert(mount.clone());
        let is_browser = page::accepts_html(&parts.headers);
        let response = self.dispatch(parts, body, &mount, next).await;
        if is_browser { problem_as_page(response, &mount) } else { response }
    }

    async fn dispatch(&self, mut parts: Parts, body: Body, mount: &Mount, next: Next) -> Response {
        if self.is_post(&parts, page::LOGIN) {
            return self.log_in(&parts, mount, body).await;
        }
        if self.is_post(&parts, LOGOUT) {
            return self.access.log_out(&parts, mount).await;
        }
        match self.admit(&mut parts, mount).await {
            Ok(session) => {
                parts.extensions.insert(self.uploads.clone());
                end_with_session(session, next.run(Request::from_parts(parts, body)).await)
            }
            Err(response) => *response,
        }
    }

    /// Returns `true` for a `POST` to this path. Without sessions, these paths don't exist.
    fn is_post(&self, parts: &Parts, path: &str) -> bool {
        self.access.has_sessions() && parts.method == Method::POST && parts.uri.path() == path
    }

    async fn log_in(&self, parts: &Parts, mount: &Mount, body: Body) -> Response {
        if origin::is_cross_origin(parts) {
            return Problem::cross_origin().into_response();
        }
        match self.logins.read(body).await {
            Ok(form) => self.access.log_in_by_form(parts, mount, &form).await,
            Err(problem) => problem.into_response(),
        }
    }

    /// Admits a request and returns the session, if any. Otherwise, returns a response.
    async fn admit(&self, parts: &mut Parts, mount: &Mount) -> Result<Option<OpenSession>, Box<Response>> {
        let access = &self.access;
        if link::is_link_path(parts) {
            // We ignore other credentials, because otherwise a link could work for the owner but fail for
            // everyone else.
            let is_linked = access.is_linked(parts).await;
            return if is_linked { Ok(None) } else { Err(Box::new(Problem::invalid_link().into_response())) };
        }
        // Check the link before the session: even if the client is logged in, we need to redirect, so that
        // the token is removed from the address.
        let mut entry = Entry::default();
        if let Some(token) = link_token(parts) {
            let secrets = access.check(parts, Credentials::Token(&token), &mut entry);
            if let Some(secrets) = secrets
                && let Some(response) =
                    access.start(parts, &secrets, &mount.address(&requested_page(parts, mount))).await
            {
                return Err(Box::new(response));
            }
        }
        access.check_all(parts, &mut entry).await;
        if !entry.is_admitted {
            return Err(Box::new(access.reject(parts, mount, entry.wait)));
        }
        if !parts.method.is_safe() {
            if !entry.has_token_header && origin::is_cross_origin(parts) {
                return Err(Box::new(Problem::cross_origin().into_response()));
            }
            if let Some(revocation) = Revocation::of(parts) {
                return Err(Box::new(match &entry.secrets {
                    Some(secrets) => access.revoke(parts, mount, secrets, revocation).await,
                    None => Problem::token_required().into_response(),
                }));
            }
            if let Some(right) = Right::of(parts).filter(|right| !entry.rights.has(*right)) {
                return Err(Box::new(access.out_of_scope(right)));
            }
        }
        if entry.session.is_some() {
            parts.extensions.insert(LoggedIn);
        }
        if access.is_failing() {
            parts.extensions.insert(RevocationsUnknown);
        }
        if let Some(secrets) = entry.secrets {
            let origin = origin::of(parts, access.is_cookie_secure(parts));
            parts.extensions.insert(Signer { secrets, origin });
        }
        if entry.rights.has(Right::Silence) {
            parts.extensions.insert(MaySilence);
        }
        if entry.rights.has(Right::Note) {
            parts.extensions.insert(MayNote);
        }
        Ok(entry.session)
    }
}

impl Access {
    /// Checks the credentials of a request, and the authentication methods that don't need credentials. Adds
    /// the result to `entry`.
    async fn check_all(&self, parts: &Parts, entry: &mut Entry) {
        // If there is no secret to guess, any credentials are for the application.
        if self.has_secrets() {
            self.check_credentials(parts, entry).await;
        }
        if !(entry.is_admitted
            && (parts.method.is_safe() || Right::of(parts).is_none_or(|right| entry.rights.has(right))))
        {
            for auth_method in &self.auth_methods {
                if auth_method.is_open(parts).await {
                    entry.admit(auth_method);
                }
            }
        }
    }

    async fn check_credentials(&self, parts: &Parts, entry: &mut Entry) {
        // Sessions are signed, so the guess budget does not apply.
        let now = Timestamp::now();
        for cookie in cookie::values(&parts.headers) {
            let Some(claim) = Claim::read(cookie, now) else { continue };
            for auth_method in self.accepting_ways(&claim).await {
                entry.admit(auth_method);
                if let Some(secrets) = auth_method.secrets() {
                    entry.session = Some(OpenSession::new(Arc::clone(secrets), cookie, &claim));
                }
            }
        }
        if entry.session.is_some() {
            self.attempts.recognize(self.peer(parts));
        }
        if let Some(token) = authorization(&parts.headers, "bearer") {
            entry.has_token_header = self.check(parts, Credentials::Token(token), entry).is_some();
        } else if let Some(credentials) = authorization(&parts.headers, "basic") {
            self.check(parts, Credentials::Basic(credentials), entry);
        }
    }

    /// Checks credentials and adds the result to `entry`. Returns the secrets of a valid token.
    fn check(&self, parts: &Parts, credentials: Credentials<'_>, entry: &mut Entry) -> Option<Arc<Secrets>> {
        match self.check_login(parts, credentials) {
            LoginResult::Valid(auth_methods) => {
                auth_methods.iter().for_each(|auth_method| entry.admit(auth_method));
                auth_methods.iter().find_map(|auth_method| auth_method.secrets()).cloned()
            }
            LoginResult::Wrong => None,
            LoginResult::Throttled(wait) => {
                entry.wait = Some(wait);
                None
            }
        }
    }

    /// Responds to a request without access.
    fn reject(&self, parts: &Parts, mount: &Mount, wait: Option<u64>) -> Response {
        let link_token = link_token(parts);
        // Don't count requests without credentials: browsers always start with one, and an open page
        // continues to send requests after the session has ended.
        let has_credentials = parts.headers.contains_key(AUTHORIZATION) || link_token.is_some();
        if has_credentials && self.has_secrets() {
            self.attempts.fail();
        }
        let words = match link_token {
            Some(_) => "The token in this link is not valid.",
            None => "You need the admin token to see the statistics of this site.",
        };
        self.rejection(parts, mount, wait, words, &requested_page(parts, mount))
    }
}

impl Entry {
    fn admit(&mut self, auth_method: &AuthMethod) {
        self.is_admitted = true;
        self.rights.add(auth_method.rights);
        self.secrets = self.secrets.take().or_else(|| auth_method.secrets().cloned());
    }
}

/// Returns the path of a request below the router, including the query but not the token.
fn requested_page(parts: &Parts, mount: &Mount) -> String {
    let query = form_urlencoded::parse(parts.uri.query().unwrap_or_default().as_bytes());
    let query = query.filter(|(name, _)| name != "token");
    let query = form_urlencoded::Serializer::new(String::new()).extend_pairs(query).finish();
    let path = page::below(mount.rest()).unwrap_or_default();
    if query.is_empty() { path.to_owned() } else { format!("{path}?{query}") }
}

/// Ends an event stream together with the session.
fn end_with_session(session: Option<OpenSession>, response: Response) -> Response {
    let is_endless = response.headers().get(CONTENT_TYPE).is_some_and(|kind| kind == "text/event-stream");
    match session.filter(|_| is_endless) {
        None => response,
        Some(session) => response
            .map(|body| Body::from_stream(body.into_data_stream().take_until(Box::pin(session.ended())))),
    }
}

/// Returns the credentials of a scheme. `scheme` must be in lower case.
fn authorization<'a>(headers: &'a HeaderMap, scheme: &str) -> Option<&'a str> {
    let (name, secret) = headers.get(AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    name.eq_ignore_ascii_case(scheme).then_some(secret.trim())
}

/// Returns the token in the query of a `GET` request.
fn link_token(parts: &Parts) -> Option<String> {
    let query = parts.uri.query().filter(|_| parts.method == Method::GET)?;
    let mut pairs = form_urlencoded::parse(query.as_bytes());
    pairs.find(|(name, _)| name == "token").map(|(_, token)| token.into_owned())
}
