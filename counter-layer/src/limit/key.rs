use std::fmt;
use std::sync::Arc;

use counter_core::Secret;
use counter_core::window::Dimensions;

use crate::classify::Digest;
use crate::closure::Closure;
use crate::identity::{Identity, IdentityError, RequestHead};

/// The key to limit requests by. Requests with the same key share a limit.
#[derive(Clone)]
pub struct LimitKey(Arc<Closure<KeyFn>>);

type KeyFn = dyn Fn(&RequestHead<'_>) -> Option<Dimensions> + Send + Sync;

impl LimitKey {
    /// Limits by the result of a closure that is passed the request head. If it returns `None`, the request
    /// is not limited. If it panics, the request shares a limit with all such requests.
    ///
    /// You must not pass an address as text, see [`Dimensions`].
    ///
    /// ```
    /// # use counter_layer::LimitKey;
    /// use counter_core::window::Dimensions;
    ///
    /// let by_token = LimitKey::from_fn(|head| {
    ///     let token = head.headers.get("x-app")?.to_str().unwrap_or_default();
    ///     Some(Dimensions::new().text("app", token))
    /// });
    /// ```
    #[must_use]
    pub fn from_fn(key: impl Fn(&RequestHead<'_>) -> Option<Dimensions> + Send + Sync + 'static) -> Self {
        Self(Arc::new(Closure::new("limit key", key)))
    }

    /// Limits by visitor, using the same identity as for counting, but with the user agent ignored: it is
    /// chosen by the client, so clients could get a new limit at will. The secret is needed to compute the
    /// ids.
    ///
    /// The store contains the counts by id. So ids must be computed with a [`Secret`] that is not in the
    /// store, or with [`Identity::key`]. Use the same secret in all instances to share the limit, or
    /// [`Secret::process_local`] to limit per instance; in this case the limit is reset with a restart. You
    /// can also pass a [`Recorder`](counter_core::Recorder), to use the
    /// [secret](counter_core::Builder::secret) of these counters, which by default is a secret of this
    /// process.
    ///
    /// By default 56 bits of IPv6 addresses are used, see
    /// [`Address::ipv6_prefix`](crate::Address::ipv6_prefix).
    ///
    /// All requests that don't have a visitor share a limit, including requests that would be issued a
    /// cookie, so clients can't avoid the limit by omitting the identity. A limit does not issue cookies. For
    /// cookies issued by a counting layer, only signed cookies are accepted, so the counters must use the
    /// same secret; but note that a client can always request a new cookie.
    ///
    /// # Errors
    /// Returns an error if the identity is a cookie with an invalid name.
    pub fn identity(identity: impl Into<Identity>, secret: impl Into<Secret>) -> Result<Self, IdentityError> {
        let (identity, secret) = (identity.into(), secret.into());
        if secret.is_process_local() && !identity.has_key() {
            tracing::info!(
                "a limit by identity applies to this process only: set a shared secret to share it"
            );
        }
        let visitors = identity.limited_by(&secret)?;
        Ok(Self::from_fn(move |head| {
            let mut cookie = None;
            let visitor = visitors.visitor(head, Digest::default(), &mut cookie, &mut None);
            let known = visitor.filter(|_| cookie.is_none());
            let dimensions = Dimensions::new();
            Some(match known {
                Some((visitor, _)) => dimensions.visitor("visitor", visitor),
                None => dimensions.text("visitor", ""),
            })
        }))
    }

    pub(super) fn of(&self, head: &RequestHead<'_>) -> Option<Dimensions> {
        // It must not be possible to avoid the limit by causing a panic.
        self.0.call(|key| key(head)).unwrap_or_else(|| Some(Dimensions::new().text("panicked", "")))
    }
}

impl fmt::Debug for LimitKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LimitKey(..)")
    }
}
