use std::fmt;
use std::num::NonZeroU32;
use std::sync::Arc;

use counter_core::{Counter, Recorder, Skip, VisitorId};
use http::Request;

use crate::facet::{Facets, Traits};
use crate::identity::{RequestHead, Visitors};
use crate::request;
use crate::{Decision, Outcome, Rules};

/// What one layer and its services share.
pub(crate) struct Counting {
    pub(crate) recorder: Recorder,
    pub(crate) visitors: Visitors,
    pub(crate) rules: Option<Arc<Rules>>,
    pub(crate) facets: Facets,
    pub(crate) wanted: Option<Arc<Wanted>>,
    pub(crate) at_arrival: bool,
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
    page: Result<Option<Page>, Skip>,
    visitor: Option<VisitorId>,
    traits: Traits,
}

/// Where a request counts besides `hits`.
#[derive(Clone, Copy, Debug)]
struct Page {
    counter: Counter,
    weight: NonZeroU32,
    visitors: bool,
}

impl Guard {
    /// Reads what there is to know while the request is still here.
    pub(crate) fn of<B>(counting: &Arc<Counting>, request: &Request<B>) -> Self {
        let seen = Seen {
            page: counting.page(request),
            visitor: counting.visitors.visitor(&RequestHead::of(request)),
            traits: counting.facets.traits(request.method(), request.headers()),
        };
        let mut guard = Self { counting: Arc::clone(counting), open: Some(seen) };
        if counting.at_arrival {
            guard.settle(Outcome::Arrived);
        }
        guard
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
    fn page<B>(&self, request: &Request<B>) -> Result<Option<Page>, Skip> {
        let route = request::route(request.extensions());
        let page = |name, weight, visitors| Page { counter: self.recorder.counter(name), weight, visitors };
        let Some(rules) = &self.rules else {
            return Ok(route.map(|route| page(route, NonZeroU32::MIN, true)));
        };
        match rules.decide(request.method(), request.uri().path(), route) {
            Decision::Excluded => Err(Skip::Excluded),
            Decision::Unmatched => Err(Skip::Unmatched),
            Decision::Count { counter, weight, visitors } => Ok(Some(page(counter, weight, visitors))),
        }
    }

    fn count(&self, seen: Seen, outcome: Outcome) {
        let page = match seen.page {
            Err(skip) => return self.recorder.skip(skip),
            Ok(_) if self.wanted.as_ref().is_some_and(|wanted| !wanted(outcome)) => {
                return self.recorder.skip(Skip::Ignored);
            }
            // A rule may well be named `hits`, where the request counts anyway.
            Ok(page) => page.filter(|page| page.counter != self.hits),
        };
        let page = page.map(|Page { counter, weight, visitors }| {
            counter.hit().weight(weight).visitor(seen.visitor.filter(|_| visitors))
        });
        let facets = self.facets.counters(seen.traits, outcome).map(|facet| facet.map(Counter::hit));
        // No more than five: nothing is allocated for them.
        let mut hits = [self.hits.hit().visitor(seen.visitor); 5];
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
