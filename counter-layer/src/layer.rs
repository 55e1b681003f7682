use std::fmt;
use std::sync::Arc;

use counter_core::{Recorder, VisitorKey};
use tower_layer::Layer;

use crate::facet::Facets;
use crate::guard::{Counting, Wanted};
use crate::identity::Identity;
use crate::{AccessCounter, Facet, Outcome};

/// Counts every request once: under `hits`, and under the template of the route that matched.
///
/// On a `Router` it counts what the router's own routes and its fallback serve; a request that no
/// route matched counts under `hits` only. Around other services there are no routes, and only `hits`.
/// A response is counted when its head is there, a failure when the inner service fails, and an
/// abandoned request when its future is dropped. Nothing of the request or the response is changed.
///
/// A visitor is a keyed hash of the client's address (of IPv6 the first 64 bits) and the user agent.
/// The address is that of the connection, which the server must leave in the request: axum does with
/// `into_make_service_with_connect_info::<SocketAddr>()`, others insert a
/// [`SocketAddr`](std::net::SocketAddr) extension. Without one a request counts without a visitor.
///
/// See the [crate](crate) for an example.
#[derive(Clone)]
pub struct AccessCounterLayer {
    recorder: Recorder,
    identity: Identity,
    facets: Facets,
    wanted: Option<Arc<Wanted>>,
}

impl AccessCounterLayer {
    /// Counts with this recorder, and tells visitors apart by a random key: they are others after a
    /// restart, and to another instance, unless [`visitor_key`](Self::visitor_key) is set.
    #[must_use]
    pub fn new(recorder: Recorder) -> Self {
        Self {
            recorder,
            identity: Identity { key: VisitorKey::random(), trusted_hops: 0 },
            facets: Facets::default(),
            wanted: None,
        }
    }

    /// Tells visitors apart by this key, which several instances may share.
    #[must_use]
    pub const fn visitor_key(mut self, key: VisitorKey) -> Self {
        self.identity.key = key;
        self
    }

    /// Takes the client's address from `X-Forwarded-For`, of which the last `hops` entries were written
    /// by proxies of one's own; 0, the default, takes that of the connection.
    ///
    /// What stands further left in the header came from the client and is not looked at.
    #[must_use]
    pub const fn trusted_hops(mut self, hops: usize) -> Self {
        self.identity.trusted_hops = hops;
        self
    }

    /// Keeps these views of all requests beside `hits`: see [`Facet`] for their names. None by default.
    #[must_use]
    pub fn facets(mut self, facets: impl IntoIterator<Item = Facet>) -> Self {
        let chosen: Vec<_> = facets.into_iter().collect();
        self.facets = Facets::of(&self.recorder, &chosen);
        self
    }

    /// Counts only requests that end in a way this closure wants; the others are `ignored` in the
    /// ledger. Without it every one counts.
    ///
    /// ```
    /// # use counter_core::{Counters, MemoryStore};
    /// # use counter_layer::{AccessCounterLayer, Outcome};
    /// # let recorder = Counters::builder(MemoryStore::new()).build()?.recorder();
    /// let successes = AccessCounterLayer::new(recorder).count_if(|outcome| outcome.is_success());
    /// # Ok::<(), counter_core::BuildError>(())
    /// ```
    #[must_use]
    pub fn count_if(mut self, wanted: impl Fn(Outcome) -> bool + Send + Sync + 'static) -> Self {
        self.wanted = Some(Arc::new(wanted));
        self
    }
}

impl fmt::Debug for AccessCounterLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AccessCounterLayer").field("facets", &self.facets).finish_non_exhaustive()
    }
}

impl<S> Layer<S> for AccessCounterLayer {
    type Service = AccessCounter<S>;

    fn layer(&self, inner: S) -> AccessCounter<S> {
        let recorder = self.recorder.clone();
        let hits = recorder.counter("hits");
        let (facets, wanted) = (self.facets.clone(), self.wanted.clone());
        AccessCounter::new(
            inner,
            Arc::new(Counting { recorder, identity: self.identity, facets, wanted, hits }),
        )
    }
}
