use std::fmt;
use std::sync::Arc;

use counter_core::Secret;
use counter_core::window::Dimensions;

use crate::classify::Digest;
use crate::closure::Closure;
use crate::identity::{Identity, IdentityError, RequestHead};

/// The key that requests are limited by: requests with the same key share a limit.
#[derive(Clone)]
pub struct LimitKey(Arc<Closure<KeyFn>>);

type KeyFn = dyn Fn(&RequestHead<'_>) -> Option<Dimensions> + Send + Sync;

impl LimitKey {
    /// Limits by the result of a closure over the request head; a request for which it returns `None` is not
    /// limited. Requests on which it panics share one limit.
    ///
    /// An address must not go in as text: see [`Dimensions`].
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

    /// Limits by visitor, identified as for the counter but without the user agent, under ids that only the secret can
    /// make. A client chooses its user agent, and would have a limit for each.
    ///
    /// The store holds the counts of a limit under these ids. So they are made with a [`Secret`] that is not
    /// in the store, or with [`Identity::key`]: the owner's secret where several instances limit together, or
    /// [`Secret::of_this_process`], with which each instance limits for itself and begins anew at each
    /// restart. A [`Recorder`](counter_core::Recorder) stands for the [secret](counter_core::Builder::secret)
    /// of its counters, which is that of the process unless another one was set.
    ///
    /// 56 bits of an IPv6 address count, unless [`Address::ipv6_prefix`](crate::Address::ipv6_prefix) sets
    /// another number.
    ///
    /// All requests without a visitor share one limit, and so do those that would be issued a cookie, so the
    /// limit cannot be avoided by leaving out what identifies the client. No cookie is issued here. Of the
    /// cookies that a counting layer issues only signed ones count, so its counters need the same secret; but
    /// a client that asks for a new cookie is given one.
    ///
    /// # Errors
    /// When the identity is a cookie whose name is not valid.
    pub fn identity(identity: impl Into<Identity>, secret: impl Into<Secret>) -> Result<Self, IdentityError> {
        let (identity, secret) = (identity.into(), secret.into());
        if secret.is_of_this_process() && !identity.has_a_key() {
            tracing::info!("a limit by identity is one of this process alone: no secret is shared");
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
        // A request that makes the closure panic does not avoid the limit.
        self.0.ask(|key| key(head)).unwrap_or_else(|| Some(Dimensions::new().text("panicked", "")))
    }
}

impl fmt::Debug for LimitKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LimitKey(..)")
    }
}
