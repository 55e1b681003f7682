use std::fmt;
use std::sync::Arc;

use counter_core::Recorder;
use counter_core::visitor::{Salt, SaltError, VisitorKey};
use http::{HeaderName, HeaderValue};

use super::address::{Address, ForwardedAddress};
use super::cookie::IssuedCookie;
use super::forwarded::Forwarded;
use super::head::RequestHead;
use super::{ExpiringRegister, ExpiringVisitor, cookie};
use crate::classify::Digest;
use crate::closure::Closure;

/// Defines when two requests belong to the same visitor.
///
/// An identity reads part of the request and applies a keyed hash to get a
/// [`VisitorId`](counter_core::VisitorId); the data read is not kept. By default this is the peer address
/// (the first 64 bits of an IPv6 address) and the user agent.
///
/// An identity is *stable* if it stays the same for years: this applies to cookies, headers, and closures
/// declared as [stable](ClosureIdentity::stable). Other identities are valid for a salt epoch, which is a day
/// by default (see [`Builder::salt_epoch`](counter_core::Builder::salt_epoch)). In the next epoch the same
/// address will be a different visitor, and the two visitors can't be linked.
///
/// ```
/// use counter_core::{Counters, MemoryStore};
/// use counter_layer::{AccessCounterLayer, Forwarded, Identity};
///
/// let counters = Counters::builder(MemoryStore::new()).build()?;
/// let behind_a_proxy = Identity::forwarded(Forwarded::RFC7239)
///     .trusted_networks(["10.0.0.0/8".parse()?])
///     .ipv6_prefix(56);
/// let layer = AccessCounterLayer::new(counters.recorder()).identity(behind_a_proxy)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct Identity {
    pub(super) source: Source,
    pub(super) key: Option<VisitorKey>,
}

/// An identity returned by a closure. It is valid for a salt epoch, or for years if declared as
/// [stable](Self::stable).
#[derive(Clone, Debug)]
#[must_use]
pub struct ClosureIdentity {
    identify: Identify,
    stable: bool,
}

/// Error returned if an [`Identity`] can't be used.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum IdentityError {
    /// The identity is not stable, but a visitor precision is coarser than the salt epoch or not aligned with
    /// it.
    Salt(SaltError),
    /// The cookie name is invalid.
    CookieName(String),
}

#[derive(Clone, Debug)]
pub(super) enum Source {
    Disabled,
    Address(Address),
    Cookie(Arc<str>),
    Issued(IssuedCookie),
    Header(HeaderName),
    Closure(ClosureIdentity),
}

type IdentifyFn = dyn Fn(&RequestHead<'_>, &Salt) -> Option<ExpiringVisitor> + Send + Sync;

#[derive(Clone)]
struct Identify(Arc<Closure<IdentifyFn>>);

/// The part of a request that identifies the visitor.
pub(crate) enum Reads<'a> {
    None,
    Address(&'a Address),
    IssuedCookie,
    Other,
}

/// An identity with the salt or key for its hash; `None` if visitors are disabled.
#[derive(Clone, Debug, Default)]
pub(crate) struct Visitors(pub(super) Option<(Source, Salt)>);

impl Identity {
    /// Identifies visitors by peer address and user agent. This is the default.
    ///
    /// The server must store the address in the request, see [`RequestHead::peer`].
    pub const fn peer() -> Address {
        Address::peer()
    }

    /// Identifies visitors by user agent and an address that proxies write into a header.
    ///
    /// You need to choose the trusted proxies on the returned value.
    pub const fn forwarded(header: Forwarded) -> ForwardedAddress {
        ForwardedAddress::new(header)
    }

    /// Identifies visitors by a cookie with this name, to be set by your service. This identity is stable.
    ///
    /// If a request does not send the cookie, it does not have a visitor.
    pub fn cookie(name: &str) -> Self {
        Self::of(Source::Cookie(name.into()))
    }

    /// Identifies visitors by a cookie with this name, to be set by the layer if it is missing. This identity
    /// is stable.
    pub fn issued_cookie(name: &str) -> IssuedCookie {
        IssuedCookie::new(name)
    }

    /// Identifies visitors by a header, which only a trusted proxy should be able to set. This identity is
    /// stable.
    ///
    /// If the header is missing or empty, the request does not have a visitor.
    pub const fn header(name: HeaderName) -> Self {
        Self::of(Source::Header(name))
    }

    /// Identifies visitors by a closure that reads an extension inserted by an outer layer, e.g. the account
    /// of a logged-in user.
    ///
    /// ```
    /// # use counter_layer::Identity;
    /// # #[derive(Clone)]
    /// struct Account(u64);
    /// let identity = Identity::extension(|account: &Account| Some(account.0.to_be_bytes())).stable();
    /// ```
    pub fn extension<T, V>(identify: impl Fn(&T) -> Option<V> + Send + Sync + 'static) -> ClosureIdentity
    where
        T: Send + Sync + 'static,
        V: AsRef<[u8]>,
    {
        Self::from_fn(move |head| identify(head.extensions.get()?))
    }

    /// Identifies visitors by a closure that is passed the request head.
    ///
    /// If the closure returns `None` or panics, the request does not have a visitor.
    pub fn from_fn<V: AsRef<[u8]>>(
        identify: impl Fn(&RequestHead<'_>) -> Option<V> + Send + Sync + 'static,
    ) -> ClosureIdentity {
        let identify = move |head: &RequestHead<'_>, salt: &Salt| {
            identify(head).map(|identity| salt.visitor_until(&[identity.as_ref()]))
        };
        ClosureIdentity { identify: Identify(Arc::new(Closure::new("identity", identify))), stable: false }
    }

    /// Disables visitors.
    pub const fn none() -> Self {
        Self::of(Source::Disabled)
    }

    /// Sets the key of the hash, instead of the salts shared via the store.
    ///
    /// Instances with the same key agree, independent of the store. As long as the key is in use, the key
    /// holder can link visitors, for any identity.
    pub const fn key(mut self, key: VisitorKey) -> Self {
        self.key = Some(key);
        self
    }

    /// Returns `true` if the salt changes with the epoch.
    pub(crate) const fn rotates(&self) -> bool {
        let stable = match &self.source {
            Source::Closure(closure) => closure.stable,
            Source::Disabled | Source::Address(_) => false,
            Source::Cookie(_) | Source::Issued(_) | Source::Header(_) => true,
        };
        self.key.is_none() && !stable
    }

    const fn of(source: Source) -> Self {
        Self { source, key: None }
    }

    /// Binds the identity to its key, or otherwise to the salt of the counters.
    pub(crate) fn bind(&self, recorder: &Recorder) -> Result<Visitors, IdentityError> {
        self.source.check()?;
        let stable = match &self.source {
            Source::Disabled => return Ok(Visitors(None)),
            Source::Cookie(_) | Source::Issued(_) | Source::Header(_) => true,
            Source::Closure(closure) => closure.stable,
            Source::Address(_) => false,
        };
        let salt = match self.key {
            Some(key) => Salt::from(key),
            None if stable => recorder.stable_salt(),
            None => recorder.salt().map_err(IdentityError::Salt)?,
        };
        let source = match self.source.clone() {
            // If a signature can't be verified by another process, visitors would change with every restart.
            Source::Issued(cookie) if !recorder.secret().is_process_local() => {
                Source::Issued(cookie.signed(recorder.secret()))
            }
            source => source,
        };
        Ok(Visitors(Some((source, salt))))
    }
}

impl Source {
    pub(super) fn check(&self) -> Result<(), IdentityError> {
        match self {
            Self::Cookie(name) if !cookie::is_name(name) => {
                Err(IdentityError::CookieName((**name).to_owned()))
            }
            Self::Issued(cookie) if !cookie.has_valid_name() => {
                Err(IdentityError::CookieName(cookie.name().to_owned()))
            }
            _ => Ok(()),
        }
    }
}

impl Default for Identity {
    fn default() -> Self {
        Self::peer().into()
    }
}

impl From<Address> for Identity {
    fn from(address: Address) -> Self {
        Self::of(Source::Address(address))
    }
}

impl From<IssuedCookie> for Identity {
    fn from(cookie: IssuedCookie) -> Self {
        Self::of(Source::Issued(cookie))
    }
}

impl From<ClosureIdentity> for Identity {
    fn from(closure: ClosureIdentity) -> Self {
        Self::of(Source::Closure(closure))
    }
}

impl ClosureIdentity {
    /// Declares that the identity stays the same for years, so visits on different days can be linked.
    pub const fn stable(mut self) -> Self {
        self.stable = true;
        self
    }
}

impl Visitors {
    pub(crate) const fn reads(&self) -> Reads<'_> {
        match &self.0 {
            None | Some((Source::Disabled, _)) => Reads::None,
            Some((Source::Address(address), _)) => Reads::Address(address),
            Some((Source::Issued(_), _)) => Reads::IssuedCookie,
            Some((Source::Cookie(_) | Source::Header(_) | Source::Closure(_), _)) => Reads::Other,
        }
    }

    /// Returns the visitor of a request. If the response needs to set a cookie, this is written to `cookie`,
    /// and the address used to identify the visitor to `client`.
    pub(crate) fn visitor(
        &self,
        head: &RequestHead<'_>,
        user_agent: Digest,
        cookie: &mut Option<HeaderValue>,
        client: &mut Option<u128>,
    ) -> Option<ExpiringVisitor> {
        match self.0.as_ref()? {
            (Source::Address(address), salt) => {
                // The user agent is not sufficient to identify a visitor.
                *client = address.client(head);
                client.map(|client| address.visitor(client, user_agent, salt))
            }
            (source, salt) => source.visitor(head, salt, cookie),
        }
    }

    /// Returns the register of the [visitor](Self::visitor), to avoid computing an id.
    #[inline(always)]
    pub(crate) fn register_until(
        &self,
        head: &RequestHead<'_>,
        user_agent: Digest,
        cookie: &mut Option<HeaderValue>,
        client: &mut Option<u128>,
    ) -> Option<ExpiringRegister> {
        match self.0.as_ref()? {
            (Source::Address(address), salt) => {
                *client = address.client(head);
                client.map(|client| address.register_until(client, user_agent, salt))
            }
            (source, salt) => source.visitor(head, salt, cookie).map(|(id, until)| (id.into(), until)),
        }
    }
}

impl Source {
    // Not inlined, because the address path needs the CPU registers.
    #[inline(never)]
    fn visitor(
        &self,
        head: &RequestHead<'_>,
        salt: &Salt,
        cookie: &mut Option<HeaderValue>,
    ) -> Option<ExpiringVisitor> {
        let named = |value: &[u8]| salt.visitor_until(&[value]);
        match self {
            Self::Disabled | Self::Address(_) => None,
            Self::Cookie(name) => cookie::value(head.headers, name).map(named),
            Self::Issued(issued) => {
                let visit = issued.visit(head, salt);
                *cookie = visit.cookie;
                visit.visitor
            }
            Self::Header(name) => {
                let value = head.headers.get(name).map(HeaderValue::as_bytes);
                value.filter(|value| !value.is_empty()).map(named)
            }
            Self::Closure(closure) => {
                let Identify(identify) = &closure.identify;
                identify.call(|identify| identify(head, salt)).flatten()
            }
        }
    }
}

impl fmt::Debug for Identify {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Identify(..)")
    }
}

impl fmt::Display for IdentityError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Salt(error) => error.fmt(f),
            Self::CookieName(name) => write!(f, "{name:?} is not a valid cookie name"),
        }
    }
}

impl std::error::Error for IdentityError {}

counter_core::internal::debug_in_full!(IdentityError);

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use counter_core::{Counters, MemoryStore, Precision, Precisions, VisitorId};
    use http::Request;

    use super::*;
    use crate::classify::UserAgents;

    fn request(address: &str, headers: &[(&str, &str)]) -> Request<()> {
        let mut request = Request::get("/a?b");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let mut request = request.body(()).expect("a request");
        if !address.is_empty() {
            let address = address.parse().expect("an address");
            request.extensions_mut().insert(SocketAddr::new(address, 1000));
        }
        request
    }

    fn visitors(identity: impl Into<Identity>) -> Visitors {
        let counters = Counters::builder(MemoryStore::new()).build().expect("the defaults are fine");
        identity.into().bind(&counters.recorder()).expect("it can be bound")
    }

    fn visitor(visitors: &Visitors, address: &str, headers: &[(&str, &str)]) -> Option<VisitorId> {
        let request = request(address, headers);
        let user_agent = UserAgents::default().of(request.headers()).digest;
        visitors.visitor(&RequestHead::of(&request), user_agent, &mut None, &mut None).map(|(id, _)| id)
    }

    #[test]
    fn a_visitor_is_an_address_prefix_with_a_user_agent() {
        let visitors = visitors(Identity::default().key(VisitorKey::new([1; 16])));
        let visitor = |address, agent| visitor(&visitors, address, &[("user-agent", agent)]);
        assert_eq!(visitor("2001:db8::1", "a"), visitor("2001:db8::2", "a"));
        assert_eq!(visitor("::ffff:192.0.2.1", "a"), visitor("192.0.2.1", "a"));
        assert_ne!(visitor("2001:db8::1", "a"), visitor("2001:db8:0:1::1", "a"));
        assert_ne!(visitor("192.0.2.1", "a"), visitor("192.0.2.2", "a"));
        assert_ne!(visitor("192.0.2.1", "a"), visitor("192.0.2.1", "b"));
        assert_eq!(visitor("", "a"), None);
    }

    #[test]
    fn prefix_length_and_user_agent_are_configurable() {
        for (bits, same, other) in [
            (48, "2001:db8:0:ffff::1", "2001:db8:1::1"),
            (56, "2001:db8:0:ff::1", "2001:db8:0:100::1"),
            (128, "2001:db8::1", "2001:db8::2"),
            (255, "2001:db8::1", "2001:db8::2"),
        ] {
            let visitors = visitors(Identity::peer().ipv6_prefix(bits).without_user_agent());
            let one = visitor(&visitors, "2001:db8::1", &[("user-agent", "a")]);
            assert_eq!(visitor(&visitors, same, &[("user-agent", "b")]), one, "{bits}");
            assert_ne!(visitor(&visitors, other, &[("user-agent", "a")]), one, "{bits}");
        }
        let all = visitors(Identity::peer().ipv6_prefix(0));
        assert_eq!(visitor(&all, "::", &[]), visitor(&all, "ff::", &[]));
    }

    #[test]
    fn cookies_headers_extensions_and_closures_identify_visitors() {
        let cookie = visitors(Identity::cookie("visitor"));
        let with = |value| visitor(&cookie, "192.0.2.1", &[("cookie", value)]);
        assert!(with("visitor=a").is_some() && with("visitor=a") == with("x=y; visitor=a"));
        assert_ne!(with("visitor=a"), with("visitor=b"));
        assert_eq!(with("x=y"), None);

        let header = visitors(Identity::header(HeaderName::from_static("x-account")));
        let with = |value| visitor(&header, "192.0.2.1", &[("x-account", value)]);
        assert!(with("ann").is_some() && with("ann") != with("bob"));
        assert_eq!(with(""), None);

        let port = visitors(Identity::extension(|peer: &SocketAddr| Some(peer.port().to_be_bytes())));
        assert!(visitor(&port, "192.0.2.1", &[]).is_some());
        assert_eq!(visitor(&port, "", &[]), None);

        let closure = visitors(Identity::from_fn(|head| Some(head.uri.query()?.to_owned())));
        assert!(visitor(&closure, "", &[]).is_some());

        assert_eq!(visitor(&visitors(Identity::none()), "192.0.2.1", &[("cookie", "visitor=a")]), None);
    }

    #[test]
    fn weekly_visitors_need_a_stable_identity() {
        let week = Precision::try_from(604_800).expect("not 0");
        let weekly = Precisions::new([week]).expect("a set");
        let builder = Counters::builder(MemoryStore::new()).visitor_precisions(weekly).stable_visitors();
        let recorder = builder.build().expect("said to be stable").recorder();
        let bound = |identity: Identity| identity.bind(&recorder).map(|_| ());
        let by = || Identity::from_fn(|_| Some("ann"));
        for stable in [
            Identity::cookie("visitor"),
            Identity::header(http::header::AUTHORIZATION),
            by().stable().into(),
            Identity::none(),
            Identity::default().key(VisitorKey::new([1; 16])),
        ] {
            assert_eq!(bound(stable), Ok(()));
        }
        for unstable in
            [Identity::default(), Identity::forwarded(Forwarded::RFC7239).trusted_hops(1).into(), by().into()]
        {
            let error = bound(unstable).expect_err("a week has seven epochs");
            assert!(error.to_string().contains("choose a stable identity"), "{error}");
        }
    }

    #[test]
    fn an_invalid_cookie_name_is_rejected() {
        let counters = Counters::builder(MemoryStore::new()).build().expect("the defaults are fine");
        let error = Identity::cookie("a=b").bind(&counters.recorder()).expect_err("not a token");
        assert_eq!(error, IdentityError::CookieName("a=b".to_owned()));
    }
}
