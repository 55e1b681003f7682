use std::fmt;
use std::sync::Arc;

use counter_core::{Dimensions, Recorder};

use crate::agent::Digest;
use crate::closure::Closure;
use crate::{Identity, IdentityError, RequestHead};

/// What requests are limited by: those of the same key share a limit.
#[derive(Clone)]
pub struct LimitKey(Arc<Closure<KeyFn>>);

type KeyFn = dyn Fn(&RequestHead<'_>) -> Option<Dimensions> + Send + Sync;

impl LimitKey {
    /// What a closure makes of the request; `None` is not limited. Requests about which it panics share
    /// one limit.
    ///
    /// An address must not go in as a text: see [`Dimensions`].
    ///
    /// ```
    /// # use counter_layer::LimitKey;
    /// use counter_core::Dimensions;
    ///
    /// let by_token = LimitKey::by(|head| {
    ///     let token = head.headers.get("x-app")?.to_str().unwrap_or_default();
    ///     Some(Dimensions::new().text("app", token))
    /// });
    /// ```
    #[must_use]
    pub fn by(key: impl Fn(&RequestHead<'_>) -> Option<Dimensions> + Send + Sync + 'static) -> Self {
        Self(Arc::new(Closure::new("limit key", key)))
    }

    /// The visitor, told apart as the counter does, under the salts of this recorder's store or the key of
    /// the identity.
    ///
    /// All requests without a visitor share one limit, and so do those that would be issued a cookie: nobody
    /// gets around it by leaving out what tells him apart. No cookie is issued here.
    ///
    /// # Errors
    /// When the identity cannot be used with these counters: see
    /// [`AccessCounterLayer::identity`](crate::AccessCounterLayer::identity).
    pub fn identity(identity: impl Into<Identity>, recorder: &Recorder) -> Result<Self, IdentityError> {
        let visitors = identity.into().bind(recorder)?;
        Ok(Self::by(move |head| {
            let mut cookie = None;
            let visitor = visitors.visitor(head, Digest::of_request(head.headers), &mut cookie);
            let known = visitor.filter(|_| cookie.is_none());
            let dimensions = Dimensions::new();
            Some(match known {
                Some((visitor, _)) => dimensions.visitor("visitor", visitor),
                None => dimensions.text("visitor", ""),
            })
        }))
    }

    pub(super) fn of(&self, head: &RequestHead<'_>) -> Option<Dimensions> {
        // Nobody gets around a limit by what its closure cannot bear.
        self.0.ask(|key| key(head)).unwrap_or_else(|| Some(Dimensions::new().text("panicked", "")))
    }
}

impl fmt::Debug for LimitKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LimitKey(..)")
    }
}
