use std::fmt;
use std::future::ready;
use std::sync::Arc;
use std::time::Duration;

use counter_core::Timestamp;
use counter_core::document::DocumentStore;
use counter_core::internal::Errands;
use counter_layer::internal::{client, is_forwarded};
use counter_layer::{Address, Identity};
use futures_util::FutureExt;
use http::header::HeaderName;
use http::request::Parts;
use http::uri::Scheme;

use super::auth_method::AuthMethod;
use super::error::AccessError;
use super::signed::link::{self, Link};
use super::signed::secrets::MIN_TOKEN_CHARS;
use super::signed::session::Claim;
use super::throttle::{Attempts, Comparison, Credentials};
use crate::mount::{Mount, PublicPath, original};

/// The credentials that the admin router accepts, with the rights of each. There is no default.
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
/// Failed logins are counted, and the rate is limited in each process. A peer can fail ten times, and then
/// once per ten seconds. Peers that have never logged in share an additional budget of 1,000 failures, and
/// then 50 per second. If a budget is used up, credentials will not be compared, and the response is a 429.
/// Valid credentials don't use up the budget, nor do repeated wrong credentials. Guesses by unknown peers
/// don't affect peers that have logged in before, credentials that were valid before, sessions, or links. The
/// limit slows guessing down but can't prevent it: you need a long random token.
///
/// A peer is the address of the connection (the first 64 bits of IPv6). The server must insert the address
/// into the request extensions; axum does this with `into_make_service_with_connect_info::<SocketAddr>()`.
/// Without the address, and behind a proxy unless [`clients`](Self::clients) is set, all clients are a single
/// peer. In this case, a client that guesses can prevent other clients from logging in, but sessions stay
/// valid.
///
/// The body of a login can have up to 16 KiB, and must arrive within 10 s. It will be rejected if 64 newer
/// logins start in the meantime.
///
/// Requests that change something are rejected if a browser sends them for a page of another origin.
#[derive(Clone)]
pub struct Access {
    pub(crate) auth_methods: Vec<AuthMethod>,
    pub(crate) attempts: Arc<Attempts>,
    /// True if the cookie always requires TLS, even if the request does not seem to use it.
    secure_cookie: bool,
    pub(crate) session_lifetime: Duration,
    clients: Option<Address>,
    forwarded_prefix: bool,
}

/// The result of checking credentials.
pub(crate) enum LoginResult<'a> {
    /// The authentication methods that accept these credentials; not empty.
    Valid(Vec<&'a AuthMethod>),
    Wrong,
    /// Not compared, because the budget is used up. Contains the seconds to wait.
    Throttled(u64),
}

/// The scheme of the client request, as reported by a proxy.
const FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");

/// The default session lifetime: a long working day.
const DEFAULT_SESSION_LIFETIME: Duration = Duration::from_secs(12 * 3600);

impl Access {
    /// The minimum number of characters in a token.
    pub const MIN_TOKEN_CHARS: usize = MIN_TOKEN_CHARS;

    /// Accepts this token as `Authorization: Bearer …`, or as `?token=…` in a link, which starts a session
    /// and redirects to the same address without the token. Browsers without a token receive a login form,
    /// which also starts a session.
    ///
    /// A session is an `HttpOnly`, `SameSite=Lax` cookie that is signed with a key derived from the token.
    /// All instances with the same token accept it, even across restarts, until it
    /// [expires](Self::session_lifetime), is [revoked](crate::guide#sessions), or the token changes. The
    /// cookie is `Secure` if we know that the request uses `https`; behind a proxy that terminates TLS, see
    /// [`secure_cookie`](Self::secure_cookie).
    ///
    /// A session can create [links](crate::guide#a-link-to-one-view) to a view for clients without the token.
    /// These are signed with the same key.
    ///
    /// The key is derived by Argon2id with 19 MiB of memory, so this call takes about 50 ms in a release
    /// build.
    ///
    /// ```
    /// use counter_admin::Access;
    ///
    /// let error = Access::bearer("letmein").unwrap_err();
    /// assert!(error.to_string().starts_with("a token must have at least 16 characters"));
    /// ```
    ///
    /// # Errors
    /// Fails if the token has less than [16 characters](Self::MIN_TOKEN_CHARS), or contains characters other
    /// than letters, digits and `-._~+/=` (RFC 6750, section 2.1). The error suggests a random token.
    pub fn bearer(token: impl Into<String>) -> Result<Self, AccessError> {
        let token = token.into();
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~+/=".contains(&byte);
        if !token.bytes().all(allowed) {
            return Err(AccessError::TokenCharacters);
        }
        if token.len() < Self::MIN_TOKEN_CHARS {
            return Err(AccessError::ShortToken { suggestion: random_token().unwrap_or_default() });
        }
        Ok(Self::of(AuthMethod::bearer(token)))
    }

    /// Accepts this name and password, for which browsers will prompt (RFC 7617). Browsers send both in clear
    /// text with every request, so you should only use this over TLS.
    ///
    /// # Errors
    /// Fails if the name or the password is empty or contains a control character, or if the name contains a
    /// colon.
    pub fn basic(user: &str, password: &str) -> Result<Self, AccessError> {
        let is_invalid = |text: &str| text.is_empty() || text.chars().any(char::is_control);
        if is_invalid(user) || is_invalid(password) || user.contains(':') {
            return Err(AccessError::NameOrPassword);
        }
        Ok(Self::of(AuthMethod::basic(user, password)))
    }

    /// Accepts requests for which a closure returns `true`. If it panics, the request is rejected. The
    /// closure receives the head of the request, including extensions from outer layers.
    ///
    /// This will be called for every request without other valid credentials, and rejections are not limited.
    /// If the closure compares secrets, it must limit guesses. A rejection does not count as a failed login.
    #[must_use]
    pub fn from_fn(allowed: impl Fn(&Parts) -> bool + Send + Sync + 'static) -> Self {
        Self::from_async_fn(move |parts| ready(allowed(parts)))
    }

    /// Accepts requests for which the future of a closure returns `true`. Otherwise, this is the same as
    /// [`from_fn`](Self::from_fn).
    ///
    /// The closure can read the request, e.g. the session that an application layer put into the extensions.
    /// The [guide](crate::guide#with-the-applications-own-session) shows this with `tower-sessions`. Requests
    /// wait for the future without a timeout.
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
        Self::of(AuthMethod::from_fn(move |parts| allowed(parts).boxed()))
    }

    /// Accepts every request.
    #[must_use]
    pub fn open() -> Self {
        Self::of(AuthMethod::open())
    }

    /// Grants the right to [forget](counter_core::Stats::forget) counters.
    #[must_use]
    pub fn may_forget(mut self) -> Self {
        for auth_method in &mut self.auth_methods {
            auth_method.rights.forget = true;
        }
        self
    }

    /// Grants the right to send hits to `/api/hits`. You must also enable `Options::hits` (feature `hits`).
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
        for auth_method in &mut self.auth_methods {
            auth_method.rights.record = true;
        }
        self
    }

    /// Grants the right to audit an archive with a `POST` to `/api/audit`, and to repair either store from
    /// the other. You must also set [`Options::archive`](crate::Options::archive). All clients with access
    /// can read the latest audit.
    ///
    /// ```
    /// use counter_admin::Access;
    ///
    /// // The office can read; the owner of the token can also run audits and choose which store to trust.
    /// let owner = Access::bearer("a-long-random-token")?.may_repair();
    /// let access = Access::basic("office", "correct horse battery staple")?.or(owner);
    /// # drop(access);
    /// # Ok::<(), counter_admin::AccessError>(())
    /// ```
    #[must_use]
    pub fn may_repair(mut self) -> Self {
        for auth_method in &mut self.auth_methods {
            auth_method.rights.repair = true;
        }
        self
    }

    /// Grants the right to add and remove notes, via `/api/notes` and on the pages, and goals, via `/api/goals`. You must
    /// also set [`Options::notes`](crate::Options::notes) or [`Options::goals`](crate::Options::goals). All clients with
    /// access can read both.
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
        for auth_method in &mut self.auth_methods {
            auth_method.rights.note = true;
        }
        self
    }

    /// Grants the right to silence rules, to add and remove those in the store, and to send a test, via
    /// `/api/alerts/silence`, `/api/alerts/rules` and `/api/alerts/test`, and on the dashboard. You must also set
    /// [`Options::alerts`](crate::Options::alerts). All clients with access can read the alerts.
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
        for auth_method in &mut self.auth_methods {
            auth_method.rights.silence = true;
        }
        self
    }

    /// Always marks the session cookie `Secure`, so that browsers only send it over TLS.
    ///
    /// By default, the cookie is `Secure` if the request uses HTTP/2 with the scheme `https`, or if the last
    /// `X-Forwarded-Proto` is `https` and the request comes from a proxy that [`clients`](Self::clients)
    /// trusts. You should use this setting if the site is only available via `https`, and either the proxy
    /// does not send this header or the server speaks HTTP/1.1 over TLS. With this setting, a link with the
    /// token does not log in over plain HTTP, except to `http://localhost` and `http://127.0.0.1` in most
    /// browsers. A bearer header still works.
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

    /// Sets the session lifetime, in whole seconds from the login. Default: twelve hours.
    ///
    /// The session cookie contains the expiry, so a change does not affect sessions that already exist.
    #[must_use]
    pub const fn session_lifetime(mut self, lifetime: Duration) -> Self {
        self.session_lifetime = lifetime;
        self
    }

    /// Sets how to determine the client address, which is used to limit guesses. Default: the address of the
    /// connection. Behind a proxy, this is always the proxy.
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

    /// Reads `X-Forwarded-Prefix`, i.e. the part of the path that a proxy has removed. Default: the header is
    /// ignored.
    ///
    /// The prefix will be added to links, redirects and the path of the session cookie. The header is only
    /// read if the request comes from a proxy that [`clients`](Self::clients) trusts: with trusted networks,
    /// from an address in these networks; with trusted hops, from any address if there are enough entries.
    /// These proxies must set or remove the header in every request, because otherwise clients could send it.
    /// The header is ignored if it occurs more than once or is not a valid
    /// [path](crate::Options::public_path).
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

    /// Accepts the credentials of `self` or `other`, with the rights of the access that accepts them. If both
    /// accept a request, it has the rights of both.
    ///
    /// The cookie is [secure](Self::secure_cookie) if either requires it, the shorter
    /// [lifetime](Self::session_lifetime) applies to all sessions, and the [clients](Self::clients) of `self`
    /// take precedence.
    #[must_use]
    pub fn or(mut self, other: Self) -> Self {
        self.secure_cookie |= other.secure_cookie;
        self.session_lifetime = self.session_lifetime.min(other.session_lifetime);
        self.clients = self.clients.or(other.clients);
        self.forwarded_prefix |= other.forwarded_prefix;
        self.auth_methods.extend(other.auth_methods);
        // Credentials that were wrong may be valid now.
        self.attempts = Arc::default();
        self
    }

    /// Returns the number of failed logins, counted by this value and all clones. Expired or invalid sessions
    /// don't count.
    #[must_use]
    pub fn failed_logins(&self) -> u64 {
        self.attempts.failed()
    }

    fn of(auth_method: AuthMethod) -> Self {
        Self {
            auth_methods: vec![auth_method],
            attempts: Arc::default(),
            secure_cookie: false,
            session_lifetime: DEFAULT_SESSION_LIFETIME,
            clients: None,
            forwarded_prefix: false,
        }
    }

    /// Returns the peer whose guess budget is charged for a request.
    pub(crate) fn peer(&self, parts: &Parts) -> Option<u128> {
        client(self.clients.as_ref().unwrap_or(&Identity::peer()), parts)
    }

    /// Returns the path of the router, as seen by the client.
    pub(crate) fn mount(&self, parts: &Parts, public: Option<&PublicPath>) -> Mount {
        let clients = self.clients.as_ref().filter(|_| self.forwarded_prefix);
        Mount::of(parts, public, clients.is_some_and(|clients| is_forwarded(clients, parts)))
    }

    /// Returns `true` if the session cookie should be `Secure`. A request can only enable this, not disable
    /// it.
    pub(crate) fn is_cookie_secure(&self, parts: &Parts) -> bool {
        self.secure_cookie
            || original(parts).scheme() == Some(&Scheme::HTTPS)
            || self.is_forwarded_https(parts)
    }

    /// Returns `true` if the client used `https`, according to a trusted proxy.
    fn is_forwarded_https(&self, parts: &Parts) -> bool {
        let last = parts.headers.get_all(FORWARDED_PROTO).iter().next_back();
        let last = last.and_then(|value| value.to_str().ok());
        let last = last.and_then(|value| value.rsplit(',').next()).map(str::trim);
        last.is_some_and(|proto| proto.eq_ignore_ascii_case("https"))
            && self.clients.as_ref().is_some_and(|clients| is_forwarded(clients, parts))
    }

    /// Stores revocations in the given documents, so that all instances share them. If this fails, `errands` does it later.
    pub(crate) fn stored_in(mut self, documents: &Arc<dyn DocumentStore>, errands: &Errands) -> Self {
        for auth_method in &mut self.auth_methods {
            auth_method.store_in(documents, errands);
        }
        self
    }

    /// Checks the credentials of a request, unless the guess budget is used up.
    pub(crate) fn check_login(&self, parts: &Parts, credentials: Credentials<'_>) -> LoginResult<'_> {
        let mut auth_methods = Vec::new();
        let comparison = self.attempts.check_login(self.peer(parts), credentials, || {
            auth_methods
                .extend(self.auth_methods.iter().filter(|auth_method| auth_method.accepts(credentials)));
            !auth_methods.is_empty()
        });
        match comparison {
            Comparison::Valid => LoginResult::Valid(auth_methods),
            Comparison::Wrong => LoginResult::Wrong,
            Comparison::Throttled(wait) => LoginResult::Throttled(wait.as_secs().max(1)),
        }
    }

    /// Returns the authentication methods that accept this session.
    pub(crate) async fn accepting_ways(&self, session: &Claim<'_>) -> Vec<&AuthMethod> {
        let mut auth_methods = Vec::new();
        for auth_method in &self.auth_methods {
            if let Some(secrets) = auth_method.secrets()
                && secrets.accepts(session).await
            {
                auth_methods.push(auth_method);
            }
        }
        auth_methods
    }

    /// Returns `true` if the latest read of the store failed, i.e. if revocations by other instances are
    /// unknown.
    pub(crate) fn is_failing(&self) -> bool {
        self.auth_methods.iter().filter_map(AuthMethod::secrets).any(|secrets| secrets.is_failing())
    }

    /// Returns `true` if the request follows a link that is signed and has not expired.
    pub(crate) async fn is_linked(&self, parts: &Parts) -> bool {
        let link = Link::read(parts, Timestamp::now()).filter(|_| link::is_read_only(parts));
        let Some(link) = link else { return false };
        for secrets in self.auth_methods.iter().filter_map(AuthMethod::secrets) {
            if secrets.opens(&link).await {
                return true;
            }
        }
        false
    }

    pub(crate) fn has_sessions(&self) -> bool {
        self.auth_methods.iter().any(|auth_method| auth_method.secrets().is_some())
    }

    /// Returns `true` if a client could guess a secret.
    pub(crate) fn has_secrets(&self) -> bool {
        self.auth_methods.iter().any(|auth_method| auth_method.challenge().is_some())
    }
}

/// Returns a token with 128 random bits.
fn random_token() -> Option<String> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).ok()?;
    Some(format!("{:032x}", u128::from_le_bytes(bytes)))
}

impl fmt::Debug for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, auth_method) in self.auth_methods.iter().enumerate() {
            f.write_str(if index == 0 { "" } else { " or " })?;
            auth_method.fmt(f)?;
        }
        Ok(())
    }
}
