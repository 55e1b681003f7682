use std::fmt;
use std::sync::Arc;

use axum::Router;
use axum::extract::{OriginalUri, Request};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use http::header::{AUTHORIZATION, CACHE_CONTROL, COOKIE, LOCATION, SET_COOKIE, WWW_AUTHENTICATE};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use subtle::ConstantTimeEq;

use super::problem::Problem;

/// Who may see the numbers. There is no default.
#[derive(Clone)]
pub struct Access(Rule);

/// A token that cannot be one: empty, or with characters that a header cannot carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AccessError(());

#[derive(Clone)]
enum Rule {
    Open,
    Bearer(Arc<Secrets>),
    When(Arc<dyn Fn(&Parts) -> bool + Send + Sync>),
}

struct Secrets {
    token: String,
    /// What the cookie holds in place of the token: another one for each start.
    session: String,
}

const COOKIE_NAME: &str = "counter_session";

impl Access {
    /// Whoever shows this token: as `Authorization: Bearer …`, or once as `?token=…` in the address of
    /// a page, which sets an `HttpOnly`, `SameSite=Strict` cookie and redirects to the address without.
    ///
    /// # Errors
    /// When the token is empty or has other characters than letters, digits and `-._~+/=`
    /// (RFC 6750, section 2.1).
    ///
    /// # Panics
    /// When the operating system has no randomness to give.
    pub fn bearer(token: impl Into<String>) -> Result<Self, AccessError> {
        let token = token.into();
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~+/=".contains(&byte);
        if token.is_empty() || !token.bytes().all(allowed) {
            return Err(AccessError(()));
        }
        let mut random = [0; 16];
        getrandom::fill(&mut random).expect("the operating system gives random bytes");
        let session = format!("{:032x}", u128::from_le_bytes(random));
        Ok(Self(Rule::Bearer(Arc::new(Secrets { token, session }))))
    }

    /// Whoever this closure lets in.
    #[must_use]
    pub fn when(allowed: impl Fn(&Parts) -> bool + Send + Sync + 'static) -> Self {
        Self(Rule::When(Arc::new(allowed)))
    }

    /// Everybody.
    #[must_use]
    pub const fn open() -> Self {
        Self(Rule::Open)
    }

    pub(super) fn guard(self, routes: Router) -> Router {
        let guard = move |request: Request, next: Next| {
            let rule = self.0.clone();
            async move {
                let (parts, body) = request.into_parts();
                match rule.refusal(&parts) {
                    Some(response) => response,
                    None => next.run(Request::from_parts(parts, body)).await,
                }
            }
        };
        routes.layer(from_fn(guard))
    }
}

impl Rule {
    fn refusal(&self, parts: &Parts) -> Option<Response> {
        match self {
            Self::Open => None,
            Self::When(allowed) if allowed(parts) => None,
            Self::When(_) => Some(Problem::forbidden().into_response()),
            // The link first: a token in an address is to leave it, whoever is logged in already.
            Self::Bearer(secrets) => {
                secrets.log_in(parts).or_else(|| (!secrets.shown_in(&parts.headers)).then(unauthorized))
            }
        }
    }
}

impl Secrets {
    fn shown_in(&self, headers: &HeaderMap) -> bool {
        bearer(headers).is_some_and(|shown| same(shown, &self.token))
            || cookies(headers).any(|shown| same(shown, &self.session))
    }

    /// The answer to a link with the token in it.
    fn log_in(&self, parts: &Parts) -> Option<Response> {
        let query = form_urlencoded::parse(parts.uri.query()?.as_bytes());
        let (tokens, rest): (Vec<_>, Vec<_>) = query.partition(|(name, _)| name == "token");
        let right = tokens.iter().any(|(_, shown)| same(shown, &self.token));
        if parts.method != Method::GET || !right {
            return None;
        }
        let original = parts.extensions.get::<OriginalUri>().map_or(&parts.uri, |original| &original.0);
        let mount = original.path().strip_suffix(parts.uri.path()).unwrap_or(original.path());
        let rest = form_urlencoded::Serializer::new(String::new()).extend_pairs(rest).finish();
        let to =
            if rest.is_empty() { original.path().to_owned() } else { format!("{}?{rest}", original.path()) };
        let cookie = format!(
            "{COOKIE_NAME}={}; Path={}; HttpOnly; SameSite=Strict",
            self.session,
            if mount.is_empty() { "/" } else { mount },
        );
        let headers = [
            (LOCATION, HeaderValue::try_from(to).ok()?),
            (SET_COOKIE, HeaderValue::try_from(cookie).ok()?),
            (CACHE_CONTROL, HeaderValue::from_static("no-store")),
        ];
        Some((StatusCode::SEE_OTHER, headers).into_response())
    }
}

fn unauthorized() -> Response {
    let challenge = [(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"))];
    (challenge, Problem::unauthorized()).into_response()
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then_some(token.trim())
}

fn cookies(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let values = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
    let pairs = values.flat_map(|value| value.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.filter(|(name, _)| *name == COOKIE_NAME).map(|(_, value)| value)
}

/// In a time that tells nothing but whether the lengths are the same.
fn same(shown: &str, secret: &str) -> bool {
    shown.as_bytes().ct_eq(secret.as_bytes()).into()
}

impl fmt::Debug for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Rule::Open => "Access::open()",
            Rule::Bearer(_) => "Access::bearer(..)",
            Rule::When(_) => "Access::when(..)",
        })
    }
}

impl fmt::Display for AccessError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a token is not empty and has only letters, digits and -._~+/=")
    }
}

impl std::error::Error for AccessError {}
