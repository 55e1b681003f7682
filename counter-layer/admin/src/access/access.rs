use std::fmt;
use std::future::ready;
use std::sync::Arc;
use std::time::Duration;

use counter_core::Timestamp;
use counter_core::document::DocumentStore;
use counter_layer::internal::{client, is_forwarded};
use counter_layer::{Address, Identity};
use futures_util::FutureExt;
use http::header::HeaderName;
use http::request::Parts;
use http::uri::Scheme;

use super::error::AccessError;
use super::signed::link::{self, Link};
use super::signed::secrets::MIN_TOKEN_CHARS;
use super::signed::session::Claim;
use super::throttle::{Attempts, Judgement, Shown};
use super::way::Way;
use crate::mount::{Mount, PublicPath, original};

/// The credentials that the admin router accepts, and the rights of each. There is no default.
///
/// ```
/// use counter_admin::Access;
///
/// // The office can read; the owner of the token can also forget counters.
/// let office = Access::basic("office", "correct horse battery staple")?;
/// let owner = Access::bearer("a-long-random-token")?.may_forget();
/// let access = office.or(owner);
/// assert_eq!(access.failed_logins(), 0);
/// # Ok::<(), counter_admin::AccessError>(())
/// ```
///
/// # Guesses
///
/// Failed logins are counted, and their rate is limited in each process. A peer can fail ten times, and then once in ten
/// seconds. All peers that have never logged in can together fail 1,000 times, and then 50 times a second. Beyond that,
/// credentials are not compared, and the response is a 429. Valid credentials and repeated wrong ones cost nothing. Guesses
/// of unknown peers do not affect peers that have logged in before, credentials that were valid before, sessions, or links.
/// The limit slows guessing down but does not prevent it: a long random token does.
///
/// A peer is the address of the connection (the first 64 bits of IPv6), which the server must leave in the
/// request: axum does so with `into_make_service_with_connect_info::<SocketAddr>()`. Without it, and behind a
/// proxy until [`clients`](Self::clients) is set, all clients are one peer, and a client that guesses prevents
/// the others from logging in; their sessions stay valid.
///
/// The body of a login can have up to 16 KiB, and must arrive within 10 s. It is refused if 64 newer logins begin before it
/// is complete.
///
/// Requests that change something are refused if a browser sends them for a page of another origin.
#[derive(Clone)]
pub struct Access {
    pub(crate) ways: Vec<Way>,
    pub(crate) attempts: Arc<Attempts>,
    /// The cookie is for TLS alone, whatever a request looks like.
    secure_cookie: bool,
    pub(crate) session_lifetime: Duration,
    clients: Option<Address>,
    forwarded_prefix: bool,
}

/// The outcome of credentials that a client has sent.
pub(crate) enum Judged<'a> {
    /// The ways that they open, at least one.
    Valid(Vec<&'a Way>),
    Wrong,
    /// The seconds for which credentials of this client are not compared.
    NotYet(u64),
}

/// The scheme by which a client has sent a request to a proxy.
const FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");

/// A working day, with what comes before and after it.
const SESSION: Duration = Duration::from_secs(12 * 3600);

impl Access {
    /// The smallest number of characters in a token.
    pub const MIN_TOKEN_CHARS: usize = MIN_TOKEN_CHARS;

    /// Accepts this token as `Authorization: Bearer …`, or once as `?token=…` in the address of a page, which begins a
    /// session and redirects to the address without the token. A browser without a token receives a form, which begins a
    /// session as well.
    ///
    /// A session is an `HttpOnly`, `SameSite=Lax` cookie that is signed with a key derived from the token. All instances with
    /// the same token accept it, also after a restart, until it [ends](Self::session_lifetime), is
    /// [revoked](crate::guide#sessions), or the token changes. The cookie is `Secure` if the request is known
    /// to use `https`; behind a proxy that terminates TLS, see [`secure_cookie`](Self::secure_cookie).
    ///
    /// A session can make [links](crate::guide#a-link-to-one-view) that show one view
    /// to clients without the token, signed with the same key.
    ///
    /// The key is derived by Argon2id with 19 MiB of memory, so this call takes about 50 ms in a release build.
    ///
    /// ```
    /// use counter_admin::Access;
    ///
    /// let error = Access::bearer("letmein").unwrap_err();
    /// assert!(error.to_string().starts_with("a token has at least 16 characters"));
    /// ```
    ///
    /// # Errors
    /// Fails when the token has fewer than [16 characters](Self::MIN_TOKEN_CHARS), or others than letters, digits and
    /// `-._~+/=` (RFC 6750, section 2.1). The error suggests a random token.
    pub fn bearer(token: impl Into<String>) -> Result<Self, AccessError> {
        let token = token.into();
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~+/=".contains(&byte);
        if !token.bytes().all(allowed) {
            return Err(AccessError::TokenCharacters);
        }
        if token.len() < Self::MIN_TOKEN_CHARS {
            return Err(AccessError::ShortToken { suggestion: random_token().unwrap_or_default() });
        }
        Ok(Self::of(Way::bearer(token)))
    }

    /// Accepts this name and password, for which browsers prompt (RFC 7617). Browsers send them in clear text with every
    /// request, so they are confidential over TLS only.
    ///
    /// # Errors
    /// Fails if one of them is empty or has a control character, or if the name has a colon.
    pub fn basic(user: &str, password: &str) -> Result<Self, AccessError> {
        let wrong = |text: &str| text.is_empty() || text.chars().any(char::is_control);
        if wrong(user) || wrong(password) || user.contains(':') {
            return Err(AccessError::NameOrPassword);
        }
        Ok(Self::of(Way::basic(user, password)))
    }

    /// Accepts the requests for which a closure returns `true`. If it panics, the request is refused. The closure receives
    /// the head of a request, with the extensions of the layers further out.
    ///
    /// The closure is called for every request without other valid credentials, with no limit on refusals. If it compares
    /// secrets, it has to limit guesses itself. A refusal does not count as a failed login.
    #[must_use]
    pub fn from_fn(allowed: impl Fn(&Parts) -> bool + Send + Sync + 'static) -> Self {
        Self::from_async_fn(move |parts| ready(allowed(parts)))
    }

    /// Accepts the requests for which the future of a closure returns `true`; otherwise like [`from_fn`](Self::from_fn).
    ///
    /// The closure can read the request, for example the session that a layer of the application has put into the
    /// extensions. The [guide](crate::guide#with-the-applications-own-session) shows this with `tower-sessions`. A request
    /// waits for the future without a timeout.
    ///
    /// ```
    /// use counter_admin::Access;
    ///
    /// #[derive(Clone)]
    /// struct Account(u64);
    ///
    /// async fn is_admin(account: Account) -> bool {
    ///     account.0 == 1 // a query to the database
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
        Self::of(Way::from_fn(move |parts| allowed(parts).boxed()))
    }

    /// Accepts every request.
    #[must_use]
    pub fn open() -> Self {
        Self::of(Way::open())
    }

    /// Grants the right to [forget](counter_core::Stats::forget) counters.
    #[must_use]
    pub fn may_forget(mut self) -> Self {
        for way in &mut self.ways {
            way.rights.forget = true;
        }
        self
    }

    /// Grants the right to send hits to `/api/hits`, which `Options::hits` (feature `hits`) opens.
    ///
    /// ```
    /// use counter_admin::Access;
    ///
    /// // The programs of the shop can send hits; the office can only read.
    /// let shop = Access::bearer("a-long-random-token-of-the-shop")?.may_record();
    /// let access = Access::basic("office", "correct horse battery staple")?.or(shop);
    /// # drop(access);
    /// # Ok::<(), counter_admin::AccessError>(())
    /// ```
    #[must_use]
    pub fn may_record(mut self) -> Self {
        for way in &mut self.ways {
            way.rights.record = true;
        }
        self
    }

    /// Grants the right to audit an archive with a `POST` to `/api/audit`, and to repair one of its stores from the other.
    /// [`Options::archive`](crate::Options::archive) opens this path; all clients with access can read the last audit.
    ///
    /// ```
    /// use counter_admin::Access;
    ///
    /// // The office can read; the owner of the token decides which store is right.
    /// let owner = Access::bearer("a-long-random-token")?.may_repair();
    /// let access = Access::basic("office", "correct horse battery staple")?.or(owner);
    /// # drop(access);
    /// # Ok::<(), counter_admin::AccessError>(())
    /// ```
    #[must_use]
    pub fn may_repair(mut self) -> Self {
        for way in &mut self.ways {
            way.rights.repair = true;
        }
        self
    }

    /// Grants the right to add and remove notes, at `/api/notes` and on the pages.
    /// [`Options::notes`](crate::Options::notes) opens them; all clients with access can read notes.
    ///
    /// ```
    /// use counter_admin::Access;
    ///
    /// // The deployment script can add notes; the office can only read.
    /// let deploy = Access::bearer("a-long-random-token-of-the-script")?.may_note();
    /// let access = Access::basic("office", "correct horse battery staple")?.or(deploy);
    /// # drop(access);
    /// # Ok::<(), counter_admin::AccessError>(())
    /// ```
    #[must_use]
    pub fn may_note(mut self) -> Self {
        for way in &mut self.ways {
            way.rights.note = true;
        }
        self
    }

    /// Grants the right to silence rules and to send a test, at `/api/alerts/silence` and `/api/alerts/test` and on the
    /// dashboard. [`Options::alerts`](crate::Options::alerts) opens these paths; all clients with access can read the alerts.
    ///
    /// ```
    /// use counter_admin::Access;
    ///
    /// // The office can read alerts; the token of the on-call engineer can silence them.
    /// let on_call = Access::bearer("a-long-random-token")?.may_silence();
    /// let access = Access::basic("office", "correct horse battery staple")?.or(on_call);
    /// # drop(access);
    /// # Ok::<(), counter_admin::AccessError>(())
    /// ```
    #[must_use]
    pub fn may_silence(mut self) -> Self {
        for way in &mut self.ways {
            way.rights.silence = true;
        }
        self
    }

    /// Marks the session cookie `Secure` for every request, so that browsers send it over TLS only.
    ///
    /// By default, the cookie is `Secure` if the request uses HTTP/2 with the scheme `https`, or if its last
    /// `X-Forwarded-Proto` is `https` and it comes from a proxy that [`clients`](Self::clients) trusts. Use this setting if
    /// the site is available by `https` only, and either the proxy does not send this header or the server speaks HTTP/1.1
    /// over TLS. A link with the token then does not log in over plain HTTP, except to `http://localhost` and
    /// `http://127.0.0.1` in most browsers; a bearer header does.
    ///
    /// ```
    /// use counter_admin::Access;
    ///
    /// let behind_a_proxy = Access::bearer("a-long-random-token")?.secure_cookie();
    /// # drop(behind_a_proxy);
    /// # Ok::<(), counter_admin::AccessError>(())
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

    /// Sets the address that identifies a peer for the limits on guesses. Default: the address of the connection, which
    /// behind a proxy is always that of the proxy.
    ///
    /// ```
    /// use counter_admin::Access;
    /// use counter_layer::{Forwarded, Identity};
    ///
    /// let client = Identity::forwarded(Forwarded::X_FORWARDED_FOR).trusted_hops(1);
    /// let behind_a_proxy = Access::bearer("a-long-random-token")?.clients(client);
    /// # drop(behind_a_proxy);
    /// # Ok::<(), counter_admin::AccessError>(())
    /// ```
    #[must_use]
    pub fn clients(mut self, address: Address) -> Self {
        self.clients = Some(address);
        self
    }

    /// Reads `X-Forwarded-Prefix`, which says which part of the path a proxy has removed. Default: the header is ignored.
    ///
    /// Links, redirects and the path of the session cookie then begin with it. Only the proxies that
    /// [`clients`](Self::clients) trusts are believed: those of its networks, or, where it counts hops, any
    /// request with as many entries as there are hops. They have to set the header on every request or to remove
    /// it, or clients could send their own. A value that is no [path](crate::Options::public_path) is
    /// ignored, and so are several values.
    ///
    /// ```
    /// use counter_admin::Access;
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
    /// A cookie is [secure](Self::secure_cookie) if one of them requires it, sessions have the shorter
    /// [lifetime](Self::session_lifetime), and [clients](Self::clients) are those of the first that sets them.
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

    /// Returns the number of failed logins, counted by this value and all its clones. An expired or invalid session does not
    /// count.
    #[must_use]
    pub fn failed_logins(&self) -> u64 {
        self.attempts.failed()
    }

    fn of(way: Way) -> Self {
        Self {
            ways: vec![way],
            attempts: Arc::default(),
            secure_cookie: false,
            session_lifetime: SESSION,
            clients: None,
            forwarded_prefix: false,
        }
    }

    /// The peer that the guesses of a request are charged to.
    pub(crate) fn peer(&self, parts: &Parts) -> Option<u128> {
        client(self.clients.as_ref().unwrap_or(&Identity::peer()), parts)
    }

    /// The place of the router, as the client of a request sees it.
    pub(crate) fn mount(&self, parts: &Parts, public: Option<&PublicPath>) -> Mount {
        let clients = self.clients.as_ref().filter(|_| self.forwarded_prefix);
        Mount::of(parts, public, clients.is_some_and(|clients| is_forwarded(clients, parts)))
    }

    /// Returns `true` if the cookie of a session is for TLS only. A request can only add to what the owner has set.
    pub(crate) fn is_cookie_secure(&self, parts: &Parts) -> bool {
        self.secure_cookie
            || original(parts).scheme() == Some(&Scheme::HTTPS)
            || self.is_forwarded_https(parts)
    }

    /// Returns `true` if a trusted proxy says that the client has sent the request by `https`.
    fn is_forwarded_https(&self, parts: &Parts) -> bool {
        let last = parts.headers.get_all(FORWARDED_PROTO).iter().next_back();
        let last = last.and_then(|value| value.to_str().ok());
        let last = last.and_then(|value| value.rsplit(',').next()).map(str::trim);
        last.is_some_and(|proto| proto.eq_ignore_ascii_case("https"))
            && self.clients.as_ref().is_some_and(|clients| is_forwarded(clients, parts))
    }

    /// Returns this access with revocations that all instances over a store share.
    pub(crate) fn stored_in(mut self, documents: &Arc<dyn DocumentStore>) -> Self {
        for way in &mut self.ways {
            way.store_in(documents);
        }
        self
    }

    /// Compares the credentials of a request, if its peer may guess.
    pub(crate) fn judge(&self, parts: &Parts, shown: Shown<'_>) -> Judged<'_> {
        let mut ways = Vec::new();
        let judgement = self.attempts.judge(self.peer(parts), shown, || {
            ways.extend(self.ways.iter().filter(|way| way.accepts(shown)));
            !ways.is_empty()
        });
        match judgement {
            Judgement::Right => Judged::Valid(ways),
            Judgement::Wrong => Judged::Wrong,
            Judgement::NotYet(wait) => Judged::NotYet(wait.as_secs().max(1)),
        }
    }

    /// Returns the ways that accept a session.
    pub(crate) async fn ways_of(&self, session: &Claim<'_>) -> Vec<&Way> {
        let mut ways = Vec::new();
        for way in &self.ways {
            if let Some(secrets) = way.secrets()
                && secrets.accepts(session).await
            {
                ways.push(way);
            }
        }
        ways
    }

    /// Returns `true` if the store could not be read the last time, so that what other instances have revoked since is not
    /// known.
    pub(crate) fn is_failing(&self) -> bool {
        self.ways.iter().filter_map(Way::secrets).any(|secrets| secrets.is_failing())
    }

    /// Returns `true` if a request follows a link that is signed and not over.
    pub(crate) async fn is_linked(&self, parts: &Parts) -> bool {
        let link = Link::read(parts, Timestamp::now()).filter(|_| link::reads(parts));
        let Some(link) = link else { return false };
        for secrets in self.ways.iter().filter_map(Way::secrets) {
            if secrets.opens(&link).await {
                return true;
            }
        }
        false
    }

    pub(crate) fn has_sessions(&self) -> bool {
        self.ways.iter().any(|way| way.secrets().is_some())
    }

    /// Returns `true` if there is a secret that can be guessed.
    pub(crate) fn has_secrets(&self) -> bool {
        self.ways.iter().any(|way| way.challenge().is_some())
    }
}

/// Returns 128 random bits as a token.
fn random_token() -> Option<String> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).ok()?;
    Some(format!("{:032x}", u128::from_le_bytes(bytes)))
}

impl fmt::Debug for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, way) in self.ways.iter().enumerate() {
            f.write_str(if place == 0 { "" } else { " or " })?;
            way.fmt(f)?;
        }
        Ok(())
    }
}
