//! The decision about each request: let in, logged in, logged out or refused.

use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::middleware::{Next, from_fn};
use axum::response::{Html, IntoResponse, Response};
use counter_core::Timestamp;
use futures_util::StreamExt;
use http::header::{
    AUTHORIZATION, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE, LOCATION, SET_COOKIE, WWW_AUTHENTICATE,
};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use tokio::time::sleep;

use super::access::{Access, Right, Rights};
use super::headers::secure;
#[cfg(feature = "dashboard")]
use super::link;
use super::session::{Claim, LoggedIn};
use super::throttle::{Judgement, Shown};
use super::{cookie, origin, page};
use crate::admin::mount::{Mount, PublicPath};
use crate::admin::problem::Problem;

/// The rights of a request, by the credentials that it has shown.
#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    is_in: bool,
    /// What the request may also change.
    rights: Rights,
    /// The end of the session, if the request has one.
    session: Option<Timestamp>,
    /// The request has a header that no browser sets by itself.
    by_token: bool,
    /// The seconds in which no further credentials are compared.
    wait: Option<u64>,
}

/// Left in a request whose client may silence rules and send tests.
#[cfg(all(feature = "alert", feature = "dashboard"))]
#[derive(Clone, Copy, Debug)]
pub(crate) struct MaySilence;
/// Left in a request whose client may add and remove notes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MayNote;

/// The path that ends the session of a browser.
const LOGOUT: &str = "/logout";

/// The most bytes that a form may have.
const FORM: usize = 16_384;

impl Access {
    /// Lets those in who have access to these routes, which clients find at `public` where that is set.
    pub(crate) fn guard(self, routes: Router, public: Option<PublicPath>) -> Router {
        let guard = move |request: Request, next: Next| {
            let (access, public) = (self.clone(), public.clone());
            async move {
                let (mut parts, body) = request.into_parts();
                let mount = access.mount(&parts, public.as_ref());
                parts.extensions.insert(mount.clone());
                if access.is_post(&parts, page::LOGIN) {
                    return secure(access.log_in_by_form(&parts, &mount, body).await);
                }
                secure(match access.admit(&mut parts, &mount).await {
                    Ok(None) => next.run(Request::from_parts(parts, body)).await,
                    Ok(Some(end)) => within(end, next.run(Request::from_parts(parts, body)).await),
                    Err(response) => *response,
                })
            }
        };
        routes.layer(from_fn(guard))
    }

    /// Lets a request in, until the end of its session if it has one, or answers it.
    async fn admit(&self, parts: &mut Parts, mount: &Mount) -> Result<Option<Timestamp>, Box<Response>> {
        #[cfg(feature = "dashboard")]
        if link::takes_one(parts) {
            return if self.is_linked(parts) { Ok(None) } else { Err(Box::new(no_link(parts))) };
        }
        // The link first: a token in an address is to leave it, even in a session.
        let mut entry = Entry::default();
        if let Some(token) = link_token(parts)
            && let Some(response) = self.log_in_by_link(parts, mount, &token, &mut entry)
        {
            return Err(Box::new(response));
        }
        let is_logout = self.is_post(parts, LOGOUT);
        if !is_logout {
            self.look(parts, &mut entry).await;
            if !entry.is_in {
                return Err(Box::new(self.refuse(parts, mount, entry)));
            }
        }
        if !parts.method.is_safe() {
            if !entry.by_token && origin::is_another(parts) {
                return Err(Box::new(Problem::another_origin().into_response()));
            }
            if is_logout {
                return Err(Box::new(self.log_out(parts, mount)));
            }
            let right = Right::of(parts);
            if !entry.rights.has(right) {
                return Err(Box::new(self.out_of_scope(right)));
            }
        }
        if entry.session.is_some() {
            parts.extensions.insert(LoggedIn);
        }
        #[cfg(all(feature = "alert", feature = "dashboard"))]
        if entry.rights.has(Right::Silence) {
            parts.extensions.insert(MaySilence);
        }
        if entry.rights.has(Right::Note) {
            parts.extensions.insert(MayNote);
        }
        Ok(entry.session)
    }

    /// Returns `true` if a request is sent to this path, which is there where there are sessions.
    fn is_post(&self, parts: &Parts, path: &str) -> bool {
        self.has_sessions() && parts.method == Method::POST && parts.uri.path() == path
    }

    /// Judges the credentials of a request, and the ways that are open to it.
    async fn look(&self, parts: &Parts, entry: &mut Entry) {
        // Without a secret they are those of the application, and no guesses.
        if self.has_secrets() {
            self.look_at_credentials(parts, entry);
        }
        if !(entry.is_in && (parts.method.is_safe() || entry.rights.has(Right::of(parts)))) {
            for way in &self.ways {
                if way.is_open(parts).await {
                    entry.is_in = true;
                    entry.rights.add(way.rights);
                }
            }
        }
    }

    fn look_at_credentials(&self, parts: &Parts, entry: &mut Entry) {
        if let Some(token) = authorization(&parts.headers, "bearer") {
            entry.by_token = self.judge(parts, Shown::Token(token), entry);
        } else if let Some(shown) = authorization(&parts.headers, "basic") {
            self.judge(parts, Shown::Basic(shown), entry);
        }
        // What is over, or no session at all, is not worth a guess.
        let now = Timestamp::now();
        for session in cookie::values(&parts.headers) {
            if let Some(claim) = Claim::read(session, now)
                && self.judge(parts, Shown::Session(session), entry)
            {
                entry.session = entry.session.max(Some(claim.end()));
            }
        }
    }

    fn judge(&self, parts: &Parts, shown: Shown<'_>, entry: &mut Entry) -> bool {
        let mut rights = Rights::default();
        let judgement = self.attempts.judge(self.peer(parts), shown, || {
            let mut ways = self.ways.iter().filter(|way| way.shows(shown)).peekable();
            let is_right = ways.peek().is_some();
            ways.for_each(|way| rights.add(way.rights));
            is_right
        });
        match judgement {
            Judgement::Right => {
                entry.is_in = true;
                entry.rights.add(rights);
            }
            Judgement::Wrong => {}
            Judgement::NotYet(wait) => entry.wait = Some(wait.as_secs().max(1)),
        }
        judgement == Judgement::Right
    }

    /// The answer to a link with the token in it.
    fn log_in_by_link(
        &self,
        parts: &Parts,
        mount: &Mount,
        token: &str,
        entry: &mut Entry,
    ) -> Option<Response> {
        if !self.judge(parts, Shown::Token(token), &mut *entry) {
            return None;
        }
        // It is for the redirect to get in.
        *entry = Entry::default();
        self.begin(parts, token, &mount.address(&here(parts, mount)))
    }

    /// The answer to the form of the page that asks for the token.
    async fn log_in_by_form(&self, parts: &Parts, mount: &Mount, body: Body) -> Response {
        if origin::is_another(parts) {
            return Problem::another_origin().into_response();
        }
        let Ok(form) = to_bytes(body, FORM).await else { return Problem::no_form(FORM).into_response() };
        let field = |name| {
            let mut fields = form_urlencoded::parse(&form).filter(|(other, _)| other == name);
            fields.next().map(|(_, value)| value).unwrap_or_default()
        };
        let (token, to) = (field(page::TOKEN), field(page::TO));
        let to = page::below(&to).unwrap_or_default();
        let mut entry = Entry::default();
        if self.judge(parts, Shown::Token(token.trim()), &mut entry)
            && let Some(response) = self.begin(parts, token.trim(), &mount.address(to))
        {
            return response;
        }
        self.attempts.fail();
        self.refusal(parts, mount, entry, "That is not the token.", to)
    }

    /// Begins a session and leads to an address.
    fn begin(&self, parts: &Parts, token: &str, to: &str) -> Option<Response> {
        let session = cookie::set(&self.begin_session(token)?, parts, self.secure_cookie)?;
        let headers = [
            (LOCATION, HeaderValue::try_from(to).ok()?),
            (SET_COOKIE, session),
            (CACHE_CONTROL, HeaderValue::from_static("no-store")),
        ];
        Some((StatusCode::SEE_OTHER, headers).into_response())
    }

    fn log_out(&self, parts: &Parts, mount: &Mount) -> Response {
        let words = "This browser has forgotten its session. The token begins another.";
        let mut response = Html(page::write("Logged out", words, Some((mount, "")))).into_response();
        if let Some(removed) = cookie::remove(parts, self.secure_cookie) {
            response.headers_mut().insert(SET_COOKIE, removed);
        }
        response
    }

    fn out_of_scope(&self, right: Right) -> Response {
        let mut response = Problem::out_of_scope(right.meaning()).into_response();
        if self.has_sessions() {
            let challenge = HeaderValue::from_static(right.scope());
            response.headers_mut().insert(WWW_AUTHENTICATE, challenge);
        }
        response
    }

    /// The answer to a request that no way lets in.
    fn refuse(&self, parts: &Parts, mount: &Mount, entry: Entry) -> Response {
        let link_token = link_token(parts);
        // A browser asks without anything first, and a page that is open asks after its session has ended.
        let has_shown = parts.headers.contains_key(AUTHORIZATION) || link_token.is_some();
        if has_shown && self.has_secrets() {
            self.attempts.fail();
        }
        let words = match link_token {
            Some(_) => "The token in the link is not the right one.",
            None => "The statistics of this site are for those who have its admin token.",
        };
        self.refusal(parts, mount, entry, words, &here(parts, mount))
    }

    /// A problem, or for a browser a page in `words` with a form that leads to `to`.
    fn refusal(&self, parts: &Parts, mount: &Mount, entry: Entry, words: &str, to: &str) -> Response {
        let mut response = self.problem(entry);
        if !page::is_wanted(&parts.headers) {
            return response;
        }
        let wait = entry.wait.map(|wait| format!("Too many logins have failed. Try again in {wait} s."));
        let (title, words) = match wait {
            Some(wait) => ("Log in", wait),
            None if self.has_sessions() => ("Log in", words.to_owned()),
            None if self.has_secrets() => {
                ("Log in", "Load this page again to be asked for a name and a password.".to_owned())
            }
            None => ("No access", "You may not read the statistics of this site.".to_owned()),
        };
        let form = self.has_sessions().then_some((mount, to));
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
        response.headers_mut().remove(CONTENT_LENGTH);
        response.map(|_| Body::from(page::write(title, &words, form)))
    }

    fn problem(&self, entry: Entry) -> Response {
        if let Some(wait) = entry.wait {
            return Problem::too_many_attempts(wait).into_response();
        }
        let ways = self.ways.iter();
        let mut challenges: Vec<_> = ways.filter_map(|way| way.challenge()).collect();
        challenges.dedup();
        if challenges.is_empty() {
            return Problem::forbidden().into_response();
        }
        let words: Vec<_> = challenges.iter().map(|(_, words)| *words).collect();
        let mut response = Problem::unauthorized(&format!("show {}", words.join(", or "))).into_response();
        for (challenge, _) in challenges {
            response.headers_mut().append(WWW_AUTHENTICATE, HeaderValue::from_static(challenge));
        }
        response
    }
}

/// The answer to a link that is not signed with a token of this router, or is over. What else a request shows does not
/// matter, so that nothing is shown under an address that others would be refused under.
#[cfg(feature = "dashboard")]
fn no_link(parts: &Parts) -> Response {
    let mut response = Problem::no_link().into_response();
    if page::is_wanted(&parts.headers) {
        let words = "This link has ended, or is not whole. Ask for another where you have it from.";
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
        response.headers_mut().remove(CONTENT_LENGTH);
        return response.map(|_| Body::from(page::write("No such link", words, None)));
    }
    response
}

/// The path below the router that was asked for, and its query without a token.
fn here(parts: &Parts, mount: &Mount) -> String {
    let query = form_urlencoded::parse(parts.uri.query().unwrap_or_default().as_bytes());
    let query = query.filter(|(name, _)| name != "token");
    let query = form_urlencoded::Serializer::new(String::new()).extend_pairs(query).finish();
    if query.is_empty() { mount.rest().to_owned() } else { format!("{}?{query}", mount.rest()) }
}

/// Ends an answer that has no end of its own with the session that it was asked for by.
fn within(end: Timestamp, response: Response) -> Response {
    let is_endless = response.headers().get(CONTENT_TYPE).is_some_and(|kind| kind == "text/event-stream");
    if !is_endless {
        return response;
    }
    let left = end.as_unix().saturating_sub(Timestamp::now().as_unix());
    response.map(|body| {
        let ended = Box::pin(sleep(Duration::from_secs(left)));
        Body::from_stream(body.into_data_stream().take_until(ended))
    })
}

/// The credentials under one scheme, whose name is in lower case.
fn authorization<'a>(headers: &'a HeaderMap, scheme: &str) -> Option<&'a str> {
    let (shown, secret) = headers.get(AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    shown.eq_ignore_ascii_case(scheme).then_some(secret.trim())
}

/// The first token in an address that is followed.
fn link_token(parts: &Parts) -> Option<String> {
    let query = parts.uri.query().filter(|_| parts.method == Method::GET)?;
    let mut pairs = form_urlencoded::parse(query.as_bytes());
    pairs.find(|(name, _)| name == "token").map(|(_, token)| token.into_owned())
}
