use std::fmt;
use std::sync::Arc;

use axum::Router;
use axum::extract::{OriginalUri, Request};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use http::header::{AUTHORIZATION, CACHE_CONTROL, COOKIE, LOCATION, SET_COOKIE, WWW_AUTHENTICATE};
use http::request::Parts;
use http::uri::Scheme;
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use subtle::ConstantTimeEq;

use super::attempts::Attempts;
use super::headers::secure;
use super::problem::Problem;

/// Who may see the numbers, and who may also forget counters. There is no default.
///
/// ```
/// use counter_layer::admin::Access;
///
/// // Everybody in the office reads; who has the token forgets as well.
/// let office = Access::basic("office", "correct horse battery staple")?;
/// let owner = Access::bearer("a-long-random-token")?.may_forget();
/// let access = office.or(owner);
/// assert_eq!(access.failed_logins(), 0);
/// # Ok::<(), counter_layer::admin::AccessError>(())
/// ```
///
/// A login that fails is counted, and its answer waits: 250 ms, twice as long with each that follows
/// within a minute, 4 s at most. Sixty-four wait at the same time; beyond that the answer is 429, at once.
/// Who shows what is right never waits. This slows down who guesses and does not stop
/// him: a long random token does.
#[derive(Clone)]
pub struct Access {
    ways: Vec<Way>,
    attempts: Arc<Attempts>,
    /// Whether the cookie is for TLS alone, whatever a request looks like.
    secure_cookie: bool,
}

/// What cannot be a token, or a name and a password.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AccessError(&'static str);

/// One way in, and how far it leads.
#[derive(Clone)]
struct Way {
    rule: Rule,
    forget: bool,
}

#[derive(Clone)]
enum Rule {
    Open,
    Bearer(Arc<Secrets>),
    /// What follows the scheme, as a browser encodes it.
    Basic(Arc<str>),
    When(Arc<dyn Fn(&Parts) -> bool + Send + Sync>),
}

struct Secrets {
    token: String,
    /// What the cookie holds in place of the token: another one for each start.
    session: String,
}

/// What is answered in place of the page.
struct Refusal {
    response: Response,
    /// Whether somebody tried to get in.
    attempt: bool,
}

const COOKIE_NAME: &str = "counter_session";

impl Access {
    /// Whoever shows this token: as `Authorization: Bearer …`, or once as `?token=…` in the address of
    /// a page, which sets an `HttpOnly`, `SameSite=Strict` cookie and redirects to the address without. The
    /// cookie is `Secure` when the request says itself that it came by `https`, as those of HTTP/2 do;
    /// behind a proxy that ends TLS, see [`secure_cookie`](Self::secure_cookie).
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
            return Err(AccessError("a token is not empty and has only letters, digits and -._~+/="));
        }
        let mut random = [0; 16];
        getrandom::fill(&mut random).expect("the operating system gives random bytes");
        let session = format!("{:032x}", u128::from_le_bytes(random));
        Ok(Self::by(Rule::Bearer(Arc::new(Secrets { token, session }))))
    }

    /// Whoever logs in by this name and password, for which a browser asks (RFC 7617). They go with
    /// every request as they are: only over TLS does nobody else see them.
    ///
    /// # Errors
    /// When one of them is empty or has a control character, or the name has a colon.
    pub fn basic(user: &str, password: &str) -> Result<Self, AccessError> {
        let wrong = |text: &str| text.is_empty() || text.chars().any(char::is_control);
        if wrong(user) || wrong(password) || user.contains(':') {
            let rule =
                "a name and a password are not empty and without control characters, and a name has no colon";
            return Err(AccessError(rule));
        }
        Ok(Self::by(Rule::Basic(base64(format!("{user}:{password}").as_bytes()).into())))
    }

    /// Whoever this closure lets in.
    #[must_use]
    pub fn when(allowed: impl Fn(&Parts) -> bool + Send + Sync + 'static) -> Self {
        Self::by(Rule::When(Arc::new(allowed)))
    }

    /// Everybody.
    #[must_use]
    pub fn open() -> Self {
        Self::by(Rule::Open)
    }

    /// The same, who may also [forget](counter_core::Stats::forget) counters.
    #[must_use]
    pub fn may_forget(mut self) -> Self {
        for way in &mut self.ways {
            way.forget = true;
        }
        self
    }

    /// The same, whose cookie browsers send over TLS only (`Secure`), whatever a request looks like.
    ///
    /// It is for sites that people reach by `https` alone, but whose proxy ends TLS and speaks plain HTTP
    /// from there on, and for servers of HTTP/1.1 behind TLS, where a request does not say its scheme. No header
    /// is asked: `X-Forwarded-Proto` is from anybody. Without it the cookie of such a site would also go with
    /// a request over plain HTTP, where others can read it. With it the link does not log in over plain
    /// HTTP, but for `http://localhost` and `http://127.0.0.1` in most browsers; a bearer header does.
    ///
    /// ```
    /// use counter_layer::admin::Access;
    ///
    /// let behind_a_proxy = Access::bearer("a-long-random-token")?.secure_cookie();
    /// # drop(behind_a_proxy);
    /// # Ok::<(), counter_layer::admin::AccessError>(())
    /// ```
    #[must_use]
    pub const fn secure_cookie(mut self) -> Self {
        self.secure_cookie = true;
        self
    }

    /// These, and those of another access as far as that lets them. A cookie is
    /// [secure](Self::secure_cookie) when either of them wants it.
    #[must_use]
    pub fn or(mut self, other: Self) -> Self {
        self.secure_cookie |= other.secure_cookie;
        self.ways.extend(other.ways);
        self
    }

    /// How often somebody tried to get in and was refused, by this and all clones of it.
    #[must_use]
    pub fn failed_logins(&self) -> u64 {
        self.attempts.failed()
    }

    fn by(rule: Rule) -> Self {
        let ways = vec![Way { rule, forget: false }];
        Self { ways, attempts: Arc::new(Attempts::new()), secure_cookie: false }
    }

    pub(super) fn guard(self, routes: Router) -> Router {
        let guard = move |request: Request, next: Next| {
            let access = self.clone();
            async move {
                let (parts, body) = request.into_parts();
                let Some(Refusal { response, attempt }) = access.refusal(&parts) else {
                    return secure(next.run(Request::from_parts(parts, body)).await);
                };
                let as_usual = !attempt || access.attempts.fail().await;
                secure(if as_usual { response } else { Problem::too_many_attempts().into_response() })
            }
        };
        routes.layer(from_fn(guard))
    }

    fn refusal(&self, parts: &Parts) -> Option<Refusal> {
        // The link first: a token in an address is to leave it, whoever is logged in already.
        let mut secrets = self.ways.iter().filter_map(|way| way.rule.secrets());
        if let Some(response) = secrets.find_map(|secrets| secrets.log_in(parts, self.secure_cookie)) {
            return Some(Refusal { response, attempt: false });
        }
        let mut open = self.ways.iter().filter(|way| way.rule.lets_in(parts)).peekable();
        if open.peek().is_none() {
            return Some(self.unknown(parts));
        }
        // Whatever changes something needs the scope.
        if parts.method.is_safe() || open.any(|way| way.forget) {
            return None;
        }
        let mut response = Problem::out_of_scope().into_response();
        if self.ways.iter().any(|way| way.rule.secrets().is_some()) {
            let challenge = HeaderValue::from_static("Bearer error=\"insufficient_scope\", scope=\"forget\"");
            response.headers_mut().insert(WWW_AUTHENTICATE, challenge);
        }
        Some(Refusal { response, attempt: false })
    }

    /// The answer to somebody whom no way lets in.
    fn unknown(&self, parts: &Parts) -> Refusal {
        let ways = self.ways.iter();
        let mut challenges: Vec<_> = ways.filter_map(|way| way.rule.challenge()).collect();
        challenges.dedup();
        if challenges.is_empty() {
            return Refusal { response: Problem::forbidden().into_response(), attempt: true };
        }
        let words: Vec<_> = challenges.iter().map(|(_, words)| *words).collect();
        let mut response = Problem::unauthorized(&format!("show {}", words.join(", or "))).into_response();
        for (challenge, _) in challenges {
            response.headers_mut().append(WWW_AUTHENTICATE, HeaderValue::from_static(challenge));
        }
        // A browser asks without anything first, and that is no attempt.
        let by_closure = self.ways.iter().any(|way| matches!(way.rule, Rule::When(_)));
        let attempt = by_closure
            || parts.headers.contains_key(AUTHORIZATION)
            || cookies(&parts.headers).next().is_some()
            || tokens(parts).next().is_some();
        Refusal { response, attempt }
    }
}

impl Rule {
    fn lets_in(&self, parts: &Parts) -> bool {
        match self {
            Self::Open => true,
            Self::Bearer(secrets) => secrets.shown_in(&parts.headers),
            Self::Basic(expected) => {
                authorization(&parts.headers, "basic").is_some_and(|shown| same(shown, expected))
            }
            Self::When(allowed) => allowed(parts),
        }
    }

    fn secrets(&self) -> Option<&Secrets> {
        match self {
            Self::Bearer(secrets) => Some(secrets),
            _ => None,
        }
    }

    /// What is asked for, for browsers and in words.
    const fn challenge(&self) -> Option<(&'static str, &'static str)> {
        match self {
            Self::Bearer(_) => Some(("Bearer", "the admin token: `Authorization: Bearer <token>`")),
            Self::Basic(_) => {
                Some(("Basic realm=\"statistics\", charset=\"UTF-8\"", "a name and a password"))
            }
            Self::Open | Self::When(_) => None,
        }
    }
}

impl Secrets {
    fn shown_in(&self, headers: &HeaderMap) -> bool {
        authorization(headers, "bearer").is_some_and(|shown| same(shown, &self.token))
            || cookies(headers).any(|shown| same(shown, &self.session))
    }

    /// The answer to a link with the token in it.
    fn log_in(&self, parts: &Parts, secure: bool) -> Option<Response> {
        if parts.method != Method::GET || !tokens(parts).any(|shown| same(&shown, &self.token)) {
            return None;
        }
        let query = form_urlencoded::parse(parts.uri.query()?.as_bytes());
        let rest = query.filter(|(name, _)| name != "token");
        let original = parts.extensions.get::<OriginalUri>().map_or(&parts.uri, |original| &original.0);
        let mount = original.path().strip_suffix(parts.uri.path()).unwrap_or(original.path());
        let rest = form_urlencoded::Serializer::new(String::new()).extend_pairs(rest).finish();
        let to =
            if rest.is_empty() { original.path().to_owned() } else { format!("{}?{rest}", original.path()) };
        // What the request says can add to it and take nothing away.
        let secure = secure || original.scheme() == Some(&Scheme::HTTPS);
        let cookie = format!(
            "{COOKIE_NAME}={}; Path={}; HttpOnly; SameSite=Strict{}",
            self.session,
            if mount.is_empty() { "/" } else { mount },
            if secure { "; Secure" } else { "" },
        );
        let headers = [
            (LOCATION, HeaderValue::try_from(to).ok()?),
            (SET_COOKIE, HeaderValue::try_from(cookie).ok()?),
            (CACHE_CONTROL, HeaderValue::from_static("no-store")),
        ];
        Some((StatusCode::SEE_OTHER, headers).into_response())
    }
}

/// What is shown under one scheme, whose name is in lower case.
fn authorization<'a>(headers: &'a HeaderMap, scheme: &str) -> Option<&'a str> {
    let (shown, secret) = headers.get(AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    shown.eq_ignore_ascii_case(scheme).then_some(secret.trim())
}

fn cookies(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let values = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
    let pairs = values.flat_map(|value| value.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.filter(|(name, _)| *name == COOKIE_NAME).map(|(_, value)| value)
}

/// The tokens in the address.
fn tokens(parts: &Parts) -> impl Iterator<Item = String> {
    let query = form_urlencoded::parse(parts.uri.query().unwrap_or_default().as_bytes());
    query.filter(|(name, _)| name == "token").map(|(_, token)| token.into_owned())
}

/// In a time that tells nothing but whether the lengths are the same.
fn same(shown: &str, secret: &str) -> bool {
    shown.as_bytes().ct_eq(secret.as_bytes()).into()
}

/// RFC 4648, section 4. A text has one such form only, so what is shown need not be decoded.
fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let byte = |place: usize| u32::from(chunk.get(place).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for place in 0..4 {
            let sextet = (bits >> (18 - 6 * place)) & 63;
            text.push(if place <= chunk.len() { char::from(ALPHABET[sextet as usize]) } else { '=' });
        }
    }
    text
}

impl fmt::Debug for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, way) in self.ways.iter().enumerate() {
            f.write_str(if place == 0 { "" } else { " or " })?;
            f.write_str(match way.rule {
                Rule::Open => "Access::open()",
                Rule::Bearer(_) => "Access::bearer(..)",
                Rule::Basic(_) => "Access::basic(..)",
                Rule::When(_) => "Access::when(..)",
            })?;
            f.write_str(if way.forget { ".may_forget()" } else { "" })?;
        }
        Ok(())
    }
}

impl fmt::Display for AccessError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for AccessError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_that_of_the_rfc() {
        let table = [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
            ("foobar", "Zm9vYmFy"),
            ("Aladdin:open sesame", "QWxhZGRpbjpvcGVuIHNlc2FtZQ=="),
            ("\u{ff}>?~", "w78+P34="),
        ];
        for (text, expected) in table {
            assert_eq!(base64(text.as_bytes()), expected, "{text}");
        }
    }
}
