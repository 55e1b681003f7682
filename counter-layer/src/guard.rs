use std::fmt;
use std::sync::Arc;

use counter_core::{Counter, Recorder, Skip, VisitorId};
use http::Request;

use crate::Outcome;
use crate::facet::{Facets, Traits};
use crate::identity::Identity;
use crate::request;

/// What one layer and its services share.
pub(crate) struct Counting {
    pub(crate) recorder: Recorder,
    pub(crate) identity: Identity,
    pub(crate) facets: Facets,
    pub(crate) wanted: Option<Arc<Wanted>>,
    /// The counter of everything.
    pub(crate) hits: Counter,
}

/// Which outcomes count.
pub(crate) type Wanted = dyn Fn(Outcome) -> bool + Send + Sync;

/// A request that is under way. It is counted once: when its outcome is known, and at the latest when
/// this is dropped.
#[derive(Debug)]
pub(crate) struct Guard {
    counting: Arc<Counting>,
    open: Option<Seen>,
}

/// What there is to know of a request before it is answered.
#[derive(Clone, Copy, Debug)]
struct Seen {
    page: Option<Counter>,
    visitor: Option<VisitorId>,
    traits: Traits,
}

impl Guard {
    /// Reads what there is to know while the request is still here.
    pub(crate) fn of<B>(counting: &Arc<Counting>, request: &Request<B>) -> Self {
        let extensions = request.extensions();
        let seen = Seen {
            page: request::route(extensions).map(|route| counting.recorder.counter(route)),
            visitor: counting.identity.visitor(request::peer(extensions), request.headers()),
            traits: counting.facets.traits(request.method(), request.headers()),
        };
        Self { counting: Arc::clone(counting), open: Some(seen) }
    }

    /// Counts the request, unless it is counted already.
    pub(crate) fn settle(&mut self, outcome: Outcome) {
        if let Some(seen) = self.open.take() {
            self.counting.count(seen, outcome);
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        // Who unwinds past the request panicked in it: nothing else can panic while it is polled.
        self.settle(if std::thread::panicking() { Outcome::Panicked } else { Outcome::Aborted });
    }
}

impl Counting {
    fn count(&self, seen: Seen, outcome: Outcome) {
        if self.wanted.as_ref().is_some_and(|wanted| !wanted(outcome)) {
            return self.recorder.skip(Skip::Ignored);
        }
        // No more than five: nothing is allocated for them.
        let all = self.hits.hit().visitor(seen.visitor);
        let mut hits = [all; 5];
        let page = seen.page.map(|page| page.hit().visitor(seen.visitor));
        let facets = self.facets.counters(seen.traits, outcome).map(|facet| facet.map(Counter::hit));
        let mut count = 1;
        for hit in [page].into_iter().chain(facets).flatten() {
            hits[count] = hit;
            count += 1;
        }
        self.recorder.request(&hits[..count]);
    }
}

impl fmt::Debug for Counting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Counting").field("facets", &self.facets).finish_non_exhaustive()
    }
}
