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

/// The credentials that open the admin router, and the rights that come with them. There is no default.
///
/// ```
/// use counter_admin::Access;
///
/// // The office reads; the owner of the token forgets as well.
/// let office = Access::basic("office", "correct horse battery staple")?;
/// let owner = Access::bearer("a-long-random-token")?.may_forget();
/// let access = office.or(owner);
/// assert_eq!(access.failed_logins(), 0);
/// # Ok::<(), counter_admin::AccessError>(())
/// ```
///
/// # Guesses
///
/// Failed logins are counted, and their rate is bounded in each process. A peer may be wrong ten times, and then once in
/// ten seconds. All strangers together, which are peers that have never logged in, may be wrong 1,000 times, and then 50
/// times a second. Beyond that, credentials are not compared, and the answer is 429. Valid credentials and repeated wrong
/// ones cost nothing. What strangers guess affects neither peers that have logged in before nor credentials that were
/// valid before, from any address; sessions and links have no limit at all. This slows guessing down and does not prevent
/// it: a long random token does.
///
/// A peer is the address of the connection (the first 64 bits of IPv6), which the server must leave in the
/// request: axum does so with `into_make_service_with_connect_info::<SocketAddr>()`. Without it, and behind a
/// proxy until [`clients`](Self::clients) is set, all clients are one peer, and a client that guesses prevents
/// the others from logging in; their sessions stay valid.
///
/// The body of a login may have 16 KiB, and has to arrive within 10 s. If 64 newer logins have begun before it is complete,
/// it is refused.
///
/// Requests that change something are refused when a browser sends them for a page of another origin.
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

    /// Accepts this token: as `Authorization: Bearer …`, or once as `?token=…` in the address of a page,
    /// which begins a session and redirects to the address without it. A browser that comes without a token
    /// is asked for it by a form, which begins a session as well.
    ///
    /// A session is an `HttpOnly`, `SameSite=Lax` cookie that is signed with a key derived from the token. All instances with
    /// the same token accept it, also after a restart, until it [ends](Self::session_lifetime), is
    /// [revoked](crate::guide#sessions), or the token changes. The cookie is `Secure` when the request came by
    /// `https`, as far as that is known; behind a proxy that ends TLS, see [`secure_cookie`](Self::secure_cookie).
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

    /// Accepts this name and password, which browsers ask for (RFC 7617). They are sent with every request as
    /// they are, and are confidential over TLS only.
    ///
    /// # Errors
    /// When one of them is empty or has a control character, or the name has a colon.
    pub fn basic(user: &str, password: &str) -> Result<Self, AccessError> {
        let wrong = |text: &str| text.is_empty() || text.chars().any(char::is_control);
        if wrong(user) || wrong(password) || user.contains(':') {
            return Err(AccessError::NameOrPassword);
        }
        Ok(Self::of(Way::basic(user, password)))
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
    /// has left in its extensions: the [guide](crate::guide#with-the-applications-own-session) shows
    /// one of `tower-sessions`. A request waits for it as long as it takes.
    ///
    /// ```
    /// use counter_admin::Access;
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

    /// Grants the right to send hits to `api/hits`, which is there with
    /// [`Options::hits`](crate::Options::hits).
    ///
    /// ```
    /// use counter_admin::Access;
    ///
    /// // The programs of the shop record; people of the office only read.
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

    /// Grants the right to audit an archive by a `POST` to `api/audit`, and to repair one of its stores from the other. The
    /// path is there with [`Options::archive`](crate::Options::archive); who may read may read the last audit.
    ///
    /// ```
    /// use counter_admin::Access;
    ///
    /// // The office reads; the owner of the token decides which store is right.
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

    /// Grants the right to add notes and to remove them, by `api/notes` and by the pages, where
    /// [`Options::notes`](crate::Options::notes) has opened them; who may read may read them.
    ///
    /// ```
    /// use counter_admin::Access;
    ///
    /// // The script that deploys leaves notes; people of the office only read.
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

    /// Grants the right to silence rules and to send a test, at `api/alerts/silence` and `api/alerts/test` and on the
    /// dashboard. The paths are there with [`Options::alerts`](crate::Options::alerts); who may read may read the
    /// alerts.
    ///
    /// ```
    /// use counter_admin::Access;
    ///
    /// // The office sees what is raised; who is on call silences it.
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

    /// Marks the session cookie `Secure` whatever a request looks like, so that browsers send it over TLS
    /// only.
    ///
    /// Without this setting the cookie is `Secure` if the request came over HTTP/2 with the scheme `https`, or if its
    /// last `X-Forwarded-Proto` is `https` and it came from a proxy that [`clients`](Self::clients) trusts. Use it if the site
    /// is reached by `https` only, and its proxy does not send this header, or its server speaks HTTP/1.1 over TLS. A link with
    /// the token then does not log in over plain HTTP, except to `http://localhost` and `http://127.0.0.1` in most browsers; a
    /// bearer header does.
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

    /// Tells peers apart by this address where guesses are bounded. Default: the address of the connection,
    /// which behind a proxy is always the proxy's.
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

    /// Reads `X-Forwarded-Prefix`, in which a proxy tells which part of the path it has taken away. Default:
    /// the header is ignored.
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
    /// clones. A session that is over or not valid is not an attempt.
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
