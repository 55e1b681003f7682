use std::fmt;
use std::future::ready;
use std::sync::Arc;
use std::time::Duration;

use counter_core::Timestamp;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use http::Method;
use http::request::Parts;
use subtle::ConstantTimeEq;

#[cfg(feature = "dashboard")]
use super::link::{self, Link, Links};
use super::session::{Claim, Sessions};
use super::throttle::{Attempts, Shown};
use crate::admin::mount::{Mount, PublicPath};
use crate::closure::Closure;
use crate::identity::{Address, Identity, RequestHead};

/// The credentials that open the admin router, and the rights that come with them. There is no default.
///
/// ```
/// use counter_layer::admin::Access;
///
/// // The office reads; the owner of the token forgets as well.
/// let office = Access::basic("office", "correct horse battery staple")?;
/// let owner = Access::bearer("a-long-random-token")?.may_forget();
/// let access = office.or(owner);
/// assert_eq!(access.failed_logins(), 0);
/// # Ok::<(), counter_layer::admin::AccessError>(())
/// ```
///
/// A failed login is counted, and answered at once. The rate of guesses is bounded whether or not the client
/// waits for the answer: in each process a peer may be wrong ten times and then once in ten seconds, and all
/// peers together from which no login has succeeded yet a hundred times and then once a second. Beyond that
/// nothing is compared, and the answer is 429. Right credentials and repeated wrong ones cost nothing. This
/// slows guessing down and does not prevent it: a long random token does.
///
/// A peer is the address of the connection (the first 64 bits of IPv6), which the server must leave in the
/// request: axum does so with `into_make_service_with_connect_info::<SocketAddr>()`. Without it, and behind a
/// proxy until [`clients`](Self::clients) is set, all clients are one peer, and a client that guesses keeps
/// the others from logging in; sessions that this process has seen stay valid.
///
/// Requests that change something are refused when a browser sends them for a page of another origin.
#[derive(Clone)]
pub struct Access {
    pub(crate) ways: Vec<Way>,
    pub(crate) attempts: Arc<Attempts>,
    /// The cookie is for TLS alone, whatever a request looks like.
    pub(crate) secure_cookie: bool,
    pub(crate) session_lifetime: Duration,
    clients: Option<Address>,
    forwarded_prefix: bool,
}

/// The error of a text that cannot be a token, a name or a password.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct AccessError(&'static str);

/// One way in, and how far it leads.
#[derive(Clone)]
pub(crate) struct Way {
    rule: Rule,
    pub(crate) rights: Rights,
}

/// The changes that are allowed, beside reading.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rights {
    pub(crate) forget: bool,
    pub(crate) record: bool,
    pub(crate) repair: bool,
    pub(crate) silence: bool,
    pub(crate) note: bool,
}

/// A right to change something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Right {
    Forget,
    Record,
    Repair,
    Silence,
    Note,
}

/// The path that hits are sent to.
pub(crate) const HITS: &str = "/api/hits";
/// The path of the audit of an archive.
pub(crate) const AUDIT: &str = "/api/audit";
/// The paths of alerts that change something, for programs and then for people.
pub(crate) const SILENCE: &str = "/api/alerts/silence";
pub(crate) const TEST: &str = "/api/alerts/test";
pub(crate) const SILENCE_FORM: &str = "/alerts/silence";
pub(crate) const TEST_FORM: &str = "/alerts/test";
/// The path of notes.
pub(crate) const NOTES: &str = "/api/notes";
/// The path that a form on a page adds a note by.
pub(crate) const NOTE_FORM: &str = "/notes";
/// The path that a form on a page removes a note by.
pub(crate) const NO_NOTE_FORM: &str = "/notes/remove";

#[derive(Clone)]
enum Rule {
    Open,
    Bearer(Arc<Secrets>),
    /// The part after the scheme, as a browser encodes it.
    Basic(Arc<str>),
    FromFn(Arc<Closure<AllowedFn>>),
}

type AllowedFn = dyn Fn(&Parts) -> BoxFuture<'static, bool> + Send + Sync;

struct Secrets {
    token: String,
    sessions: Sessions,
    #[cfg(feature = "dashboard")]
    links: Links,
}

/// A working day, with what comes before and after it.
const SESSION: Duration = Duration::from_secs(12 * 3600);

impl Access {
    /// Accepts this token: as `Authorization: Bearer …`, or once as `?token=…` in the address of a page,
    /// which begins a session and redirects to the address without it. A browser that comes without a token
    /// is asked for it by a form, which begins a session as well.
    ///
    /// A session is an `HttpOnly`, `SameSite=Lax` cookie that is signed with the token. All instances with
    /// the same token accept it, also after a restart, until it [ends](Self::session_lifetime) or the token
    /// changes. `POST /logout` removes it from the browser; the dashboard has a button for that. The cookie
    /// is `Secure` when the request itself says that it came by `https`, as those of HTTP/2 do; behind a
    /// proxy that ends TLS, see [`secure_cookie`](Self::secure_cookie).
    ///
    /// With the feature `dashboard`, a session can make [links](crate::guide::admin#a-link-to-one-view) that show one view
    /// to those without the token, signed with it as well.
    ///
    /// # Errors
    /// When the token is empty or has other characters than letters, digits and `-._~+/=` (RFC 6750, section
    /// 2.1).
    pub fn bearer(token: impl Into<String>) -> Result<Self, AccessError> {
        let token = token.into();
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~+/=".contains(&byte);
        if token.is_empty() || !token.bytes().all(allowed) {
            return Err(AccessError("a token is not empty and has only letters, digits and -._~+/="));
        }
        Ok(Self::of(Rule::Bearer(Arc::new(Secrets {
            sessions: Sessions::new(&token),
            #[cfg(feature = "dashboard")]
            links: Links::new(&token),
            token,
        }))))
    }

    /// Accepts this name and password, which browsers ask for (RFC 7617). They are sent with every request as
    /// they are, and are confidential over TLS only.
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
        Ok(Self::of(Rule::Basic(base64(format!("{user}:{password}").as_bytes()).into())))
    }

    /// Accepts requests by a closure, and none on which it panics. It sees the head of a request, with what
    /// layers further out have left in its extensions.
    ///
    /// The closure sees every request without other valid credentials, however many it refuses: a comparison
    /// with a secret has to be bounded by the closure itself. A refusal is no failed login, and keeps nobody
    /// from logging in.
    #[must_use]
    pub fn from_fn(allowed: impl Fn(&Parts) -> bool + Send + Sync + 'static) -> Self {
        Self::from_async_fn(move |parts| ready(allowed(parts)))
    }

    /// Accepts requests by the future that a closure returns; otherwise as [`from_fn`](Self::from_fn).
    ///
    /// The future takes what it needs from the request, such as the session that a layer of the application
    /// has left in its extensions: the [guide](crate::guide::admin#with-the-applications-own-session) shows
    /// one of `tower-sessions`. A request waits for it as long as it takes.
    ///
    /// ```
    /// use counter_layer::admin::Access;
    ///
    /// #[derive(Clone)]
    /// struct Account(u64);
    ///
    /// async fn is_admin(account: Account) -> bool {
    ///     account.0 == 1 // a question to the database
    /// }
    ///
    /// let access = Access::from_async_fn(|parts| {
    ///     let account = parts.extensions.get::<Account>().cloned();
    ///     async move {
    ///         match account {
    ///             Some(account) => is_admin(account).await,
    ///             None => false,
    ///         }
    ///     }
    /// });
    /// # drop(access);
    /// ```
    #[must_use]
    pub fn from_async_fn<F>(allowed: impl Fn(&Parts) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = bool> + Send + 'static,
    {
        let allowed = move |parts: &Parts| allowed(parts).boxed();
        Self::of(Rule::FromFn(Arc::new(Closure::new("access", allowed))))
    }

    /// Accepts every request.
    #[must_use]
    pub fn open() -> Self {
        Self::of(Rule::Open)
    }

    /// Grants the right to [forget](counter_core::Stats::forget) counters.
    #[must_use]
    pub fn may_forget(mut self) -> Self {
        for way in &mut self.ways {
            way.rights.forget = true;
        }
        self
    }

    /// Grants the right to send hits to `api/hits`, which is there with
    /// [`Options::hits`](crate::admin::Options::hits).
    ///
    /// ```
    /// use counter_layer::admin::Access;
    ///
    /// // The programs of the shop record; people of the office only read.
    /// let shop = Access::bearer("a-long-random-token-of-the-shop")?.may_record();
    /// let access = Access::basic("office", "correct horse battery staple")?.or(shop);
    /// # drop(access);
    /// # Ok::<(), counter_layer::admin::AccessError>(())
    /// ```
    #[must_use]
    pub fn may_record(mut self) -> Self {
        for way in &mut self.ways {
            way.rights.record = true;
        }
        self
    }

    /// Grants the right to audit an archive by a `POST` to `api/audit`, and to repair one of its stores from the other. The
    /// path is there with [`Options::archive`](crate::admin::Options::archive); who may read may read the last audit.
    ///
    /// ```
    /// use counter_layer::admin::Access;
    ///
    /// // The office reads; the owner of the token decides which store is right.
    /// let owner = Access::bearer("a-long-random-token")?.may_repair();
    /// let access = Access::basic("office", "correct horse battery staple")?.or(owner);
    /// # drop(access);
    /// # Ok::<(), counter_layer::admin::AccessError>(())
    /// ```
    #[must_use]
    pub fn may_repair(mut self) -> Self {
        for way in &mut self.ways {
            way.rights.repair = true;
        }
        self
    }

    /// Grants the right to add notes and to remove them, by `api/notes` and by the pages, where
    /// [`Options::notes`](crate::admin::Options::notes) has opened them; who may read may read them.
    ///
    /// ```
    /// use counter_layer::admin::Access;
    ///
    /// // The script that deploys leaves notes; people of the office only read.
    /// let deploy = Access::bearer("a-long-random-token-of-the-script")?.may_note();
    /// let access = Access::basic("office", "correct horse battery staple")?.or(deploy);
    /// # drop(access);
    /// # Ok::<(), counter_layer::admin::AccessError>(())
    /// ```
    #[must_use]
    pub fn may_note(mut self) -> Self {
        for way in &mut self.ways {
            way.rights.note = true;
        }
        self
    }

    /// Grants the right to silence rules and to send a test, at `api/alerts/silence` and `api/alerts/test` and on the
    /// dashboard. The paths are there with [`Options::alerts`](crate::admin::Options::alerts); who may read may read the
    /// alerts.
    ///
    /// ```
    /// use counter_layer::admin::Access;
    ///
    /// // The office sees what is raised; who is on call silences it.
    /// let on_call = Access::bearer("a-long-random-token")?.may_silence();
    /// let access = Access::basic("office", "correct horse battery staple")?.or(on_call);
    /// # drop(access);
    /// # Ok::<(), counter_layer::admin::AccessError>(())
    /// ```
    #[must_use]
    pub fn may_silence(mut self) -> Self {
        for way in &mut self.ways {
            way.rights.silence = true;
        }
        self
    }

    /// Marks the session cookie `Secure` whatever a request looks like, so that browsers send it over TLS
    /// only.
    ///
    /// It is for sites that are reached by `https` alone, but whose proxy ends TLS and speaks plain HTTP from
    /// there on, and for servers of HTTP/1.1 behind TLS, where a request does not tell its scheme. No header
    /// is trusted: `X-Forwarded-Proto` can come from any client. Without it the cookie of such a site would
    /// also go with a request over plain HTTP, where others can read it. With it the link does not log in
    /// over plain HTTP, except for `http://localhost` and `http://127.0.0.1` in most browsers; a bearer
    /// header does.
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

    /// Sets the length of sessions from the login on, in whole seconds. Default: twelve hours.
    ///
    /// The end is written into the session, and no instance stores it, so a session that began before a
    /// change keeps its length.
    #[must_use]
    pub const fn session_lifetime(mut self, lifetime: Duration) -> Self {
        self.session_lifetime = lifetime;
        self
    }

    /// Tells peers apart by this address where guesses are bounded. Default: the address of the connection,
    /// which behind a proxy is always the proxy's.
    ///
    /// ```
    /// use counter_layer::admin::Access;
    /// use counter_layer::{Forwarded, Identity};
    ///
    /// let client = Identity::forwarded(Forwarded::X_FORWARDED_FOR).trusted_hops(1);
    /// let behind_a_proxy = Access::bearer("a-long-random-token")?.clients(client);
    /// # drop(behind_a_proxy);
    /// # Ok::<(), counter_layer::admin::AccessError>(())
    /// ```
    #[must_use]
    pub fn clients(mut self, address: Address) -> Self {
        self.clients = Some(address);
        self
    }

    /// Reads `X-Forwarded-Prefix`, in which a proxy tells which part of the path it has taken away. Default:
    /// the header is ignored.
    ///
    /// Links, redirects and the path of the session cookie then begin with it. Only the proxies that
    /// [`clients`](Self::clients) trusts are believed: those of its networks, or, where it counts hops, any
    /// request with as many entries as there are hops. They have to set the header on every request or to remove
    /// it, or clients could send their own. A value that is no [path](crate::admin::Options::public_path) is
    /// ignored, and so are several values.
    ///
    /// ```
    /// use counter_layer::admin::Access;
    /// use counter_layer::{Forwarded, Identity};
    ///
    /// let client = Identity::forwarded(Forwarded::X_FORWARDED_FOR).trusted_networks(["10.0.0.0/8".parse()?]);
    /// let behind_a_proxy = Access::bearer("a-long-random-token")?.clients(client).forwarded_prefix();
    /// # drop(behind_a_proxy);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub const fn forwarded_prefix(mut self) -> Self {
        self.forwarded_prefix = true;
        self
    }

    /// Accepts the credentials of either access, each with its own rights.
    ///
    /// A cookie is [secure](Self::secure_cookie) when either of them asks for it, sessions have the shorter
    /// [lifetime](Self::session_lifetime), and [clients](Self::clients) are those of the first that sets
    /// them.
    #[must_use]
    pub fn or(mut self, other: Self) -> Self {
        self.secure_cookie |= other.secure_cookie;
        self.session_lifetime = self.session_lifetime.min(other.session_lifetime);
        self.clients = self.clients.or(other.clients);
        self.forwarded_prefix |= other.forwarded_prefix;
        self.ways.extend(other.ways);
        // What was wrong before may be right now.
        self.attempts = Arc::default();
        self
    }

    /// Returns the number of requests that tried to log in and were refused, by this value and all its
    /// clones. A session that is over or not valid is no attempt.
    #[must_use]
    pub fn failed_logins(&self) -> u64 {
        self.attempts.failed()
    }

    fn of(rule: Rule) -> Self {
        let ways = vec![Way { rule, rights: Rights::default() }];
        Self {
            ways,
            attempts: Arc::default(),
            secure_cookie: false,
            session_lifetime: SESSION,
            clients: None,
            forwarded_prefix: false,
        }
    }

    /// The peer that the guesses of a request are charged to.
    pub(crate) fn peer(&self, parts: &Parts) -> Option<u128> {
        self.clients.as_ref().unwrap_or(&Identity::peer()).client(&head(parts))
    }

    /// The place of the router, as the client of a request sees it.
    pub(crate) fn mount(&self, parts: &Parts, public: Option<&PublicPath>) -> Mount {
        let clients = self.clients.as_ref().filter(|_| self.forwarded_prefix);
        Mount::of(parts, public, clients.is_some_and(|clients| clients.is_forwarded(&head(parts))))
    }

    /// Begins a session by this token, where there is a way by it.
    pub(crate) fn begin_session(&self, token: &str) -> Option<String> {
        let way = self.ways.iter().find(|way| way.shows(Shown::Token(token)))?;
        let Rule::Bearer(secrets) = &way.rule else { return None };
        secrets.sessions.begin(Timestamp::now(), self.session_lifetime)
    }

    /// Returns the query of a link to this path below the router, which shows this query until then; `None` where there is
    /// no token to sign it with.
    #[cfg(feature = "dashboard")]
    pub(crate) fn sign_link(&self, path: &str, query: &str, until: Timestamp) -> Option<String> {
        self.tokens().next().map(|secrets| secrets.links.sign(path, query, until))
    }

    /// Returns `true` if a request follows a link that is signed and not over.
    #[cfg(feature = "dashboard")]
    pub(crate) fn is_linked(&self, parts: &Parts) -> bool {
        let link = Link::read(parts, Timestamp::now()).filter(|_| link::reads(parts));
        link.is_some_and(|link| self.tokens().any(|secrets| secrets.links.signed(&link)))
    }

    #[cfg(feature = "dashboard")]
    fn tokens(&self) -> impl Iterator<Item = &Secrets> {
        self.ways.iter().filter_map(|way| match &way.rule {
            Rule::Bearer(secrets) => Some(&**secrets),
            _ => None,
        })
    }

    pub(crate) fn has_sessions(&self) -> bool {
        self.ways.iter().any(|way| matches!(way.rule, Rule::Bearer(_)))
    }

    /// Returns `true` if there is a secret that can be guessed.
    pub(crate) fn has_secrets(&self) -> bool {
        self.ways.iter().any(|way| matches!(way.rule, Rule::Bearer(_) | Rule::Basic(_)))
    }
}

impl Rights {
    pub(crate) const fn has(self, right: Right) -> bool {
        match right {
            Right::Forget => self.forget,
            Right::Record => self.record,
            Right::Repair => self.repair,
            Right::Silence => self.silence,
            Right::Note => self.note,
        }
    }

    pub(crate) const fn add(&mut self, other: Self) {
        self.forget |= other.forget;
        self.record |= other.record;
        self.repair |= other.repair;
        self.silence |= other.silence;
        self.note |= other.note;
    }
}

impl Right {
    /// Returns the right that a request needs that changes something.
    pub(crate) fn of(parts: &Parts) -> Self {
        match (&parts.method, parts.uri.path()) {
            (&Method::POST, HITS) => Self::Record,
            (&Method::POST, AUDIT) => Self::Repair,
            (&Method::POST, SILENCE | TEST | SILENCE_FORM | TEST_FORM) => Self::Silence,
            (&Method::POST | &Method::DELETE, NOTES) | (&Method::POST, NOTE_FORM | NO_NOTE_FORM) => {
                Self::Note
            }
            _ => Self::Forget,
        }
    }

    /// Returns the name of the scope (RFC 6750, section 3).
    pub(crate) const fn scope(self) -> &'static str {
        match self {
            Self::Forget => "Bearer error=\"insufficient_scope\", scope=\"forget\"",
            Self::Record => "Bearer error=\"insufficient_scope\", scope=\"record\"",
            Self::Repair => "Bearer error=\"insufficient_scope\", scope=\"repair\"",
            Self::Silence => "Bearer error=\"insufficient_scope\", scope=\"silence\"",
            Self::Note => "Bearer error=\"insufficient_scope\", scope=\"note\"",
        }
    }

    /// Returns what the right is for, in words.
    pub(crate) const fn meaning(self) -> &'static str {
        match self {
            Self::Forget => "forget counters",
            Self::Record => "send hits",
            Self::Repair => "audit and repair the archive",
            Self::Silence => "silence rules or send a test",
            Self::Note => "add and remove notes",
        }
    }
}

impl Way {
    /// Returns `true` for valid credentials of this way.
    pub(crate) fn shows(&self, shown: Shown<'_>) -> bool {
        match (&self.rule, shown) {
            (Rule::Bearer(secrets), Shown::Token(token)) => same(token, &secrets.token),
            (Rule::Bearer(secrets), Shown::Session(session)) => {
                Claim::read(session, Timestamp::now()).is_some_and(|claim| secrets.sessions.signed(&claim))
            }
            (Rule::Basic(expected), Shown::Basic(shown)) => same(shown, expected),
            _ => false,
        }
    }

    /// Returns `true` if a request needs no credentials.
    pub(crate) async fn is_open(&self, parts: &Parts) -> bool {
        match &self.rule {
            Rule::Open => true,
            Rule::FromFn(allowed) => allowed.await_answer(|allowed| allowed(parts)).await.unwrap_or(false),
            Rule::Bearer(_) | Rule::Basic(_) => false,
        }
    }

    /// The challenge for browsers, and the same in words.
    pub(crate) const fn challenge(&self) -> Option<(&'static str, &'static str)> {
        match &self.rule {
            Rule::Bearer(_) => Some(("Bearer", "the admin token: `Authorization: Bearer <token>`")),
            Rule::Basic(_) => {
                Some(("Basic realm=\"statistics\", charset=\"UTF-8\"", "a name and a password"))
            }
            Rule::Open | Rule::FromFn(_) => None,
        }
    }
}

fn head(parts: &Parts) -> RequestHead<'_> {
    let Parts { method, uri, headers, extensions, .. } = parts;
    RequestHead { method, uri, headers, extensions }
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
                Rule::FromFn(_) => "Access::from_fn(..)",
            })?;
            f.write_str(if way.rights.forget { ".may_forget()" } else { "" })?;
            f.write_str(if way.rights.record { ".may_record()" } else { "" })?;
            f.write_str(if way.rights.repair { ".may_repair()" } else { "" })?;
            f.write_str(if way.rights.silence { ".may_silence()" } else { "" })?;
            f.write_str(if way.rights.note { ".may_note()" } else { "" })?;
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

crate::debug::debug_in_full!(AccessError);

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
