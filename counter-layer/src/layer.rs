use std::sync::Arc;

use counter_core::{Recorder, VisitorKey};
use tower_layer::Layer;

use crate::AccessCounter;
use crate::hit::Counting;
use crate::identity::{Forwarded, Identity, IdentityError};

/// Counts every request once: under `hits`, and under the template of the route that matched.
///
/// On a `Router` it counts what the router's own routes and its fallback serve; a request that no
/// route matched counts under `hits` only. Around other services there are no routes, and only `hits`.
/// A response is counted when its head is there, a failure when the inner service fails, and an
/// abandoned request when its future is dropped. Nothing of the request or the response is changed.
///
/// A visitor is a keyed hash of the client's address (of IPv6 the first 64 bits) and the user agent,
/// unless [`identity`](Self::identity) says something else. The address is that of the connection,
/// which the server must leave in the request: axum does with
/// `into_make_service_with_connect_info::<SocketAddr>()`, others insert a
/// [`SocketAddr`](std::net::SocketAddr) extension. Without one a request counts without a visitor.
///
/// See the [crate](crate) for an example.
#[derive(Clone, Debug)]
pub struct AccessCounterLayer {
    recorder: Recorder,
    identity: Identity,
}

impl AccessCounterLayer {
    /// Counts with this recorder, and tells visitors apart by their addresses under the salt of the
    /// day, which all instances over one store share.
    ///
    /// Where a visitor precision is coarser than the salt's epoch, addresses tell nobody apart, and
    /// there are no visitors until a stable [`identity`](Self::identity) is set.
    #[must_use]
    pub fn new(recorder: Recorder) -> Self {
        Self { recorder, identity: Identity::default() }
    }

    /// Tells visitors apart by something else.
    ///
    /// # Errors
    /// When the identity is not stable and a visitor precision is coarser than the salt's epoch, or it
    /// is a cookie that cannot have its name.
    pub fn identity(mut self, identity: impl Into<Identity>) -> Result<Self, IdentityError> {
        self.identity.replace(identity.into());
        self.identity.bind(&self.recorder)?;
        Ok(self)
    }

    /// Tells visitors apart under this key, which several instances may share, and for as long as it is
    /// used: see [`Identity::key`].
    #[must_use]
    pub fn visitor_key(mut self, key: VisitorKey) -> Self {
        self.identity = self.identity.key(key);
        self
    }

    /// Takes the client's address from `X-Forwarded-For`, of which the last `hops` entries were written
    /// by proxies of one's own; 0, the default, takes that of the connection.
    ///
    /// What stands further left in the header came from the client and is not looked at.
    #[must_use]
    pub fn trusted_hops(mut self, hops: usize) -> Self {
        self.identity.replace(Identity::forwarded(Forwarded::X_FORWARDED_FOR).trusted_hops(hops).into());
        self
    }
}

impl<S> Layer<S> for AccessCounterLayer {
    type Service = AccessCounter<S>;

    fn layer(&self, inner: S) -> AccessCounter<S> {
        let recorder = self.recorder.clone();
        let hits = recorder.counter("hits");
        // It fails only where there are no visitors: see `new`.
        let visitors = self.identity.bind(&recorder).unwrap_or_default();
        AccessCounter::new(inner, Arc::new(Counting { recorder, visitors, hits }))
    }
}
