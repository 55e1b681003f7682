use std::fmt;
use std::num::NonZeroU32;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use counter_core::{Agent, Counter, Hit, Recorder, Skip};
use http::{HeaderValue, Request};

use crate::agent::{Agents, user_agent};
use crate::facet::Facets;
use crate::identity::{RequestHead, Visitors};
use crate::page::{Page, Pages, Verdict};
use crate::prefetch::is_prefetch;
use crate::request;
use crate::visit::{OnCounted, Then};
use crate::{Delivery, Outcome, Visit};

/// What one layer and its services share.
pub(crate) struct Counting {
    pub(crate) recorder: Recorder,
    pub(crate) visitors: Visitors,
    pub(crate) agents: Arc<Agents>,
    pub(crate) bots_are_visitors: bool,
    pub(crate) pages: Option<Arc<Pages>>,
    pub(crate) rest: Option<Arc<Rest>>,
    pub(crate) facets: Facets,
    pub(crate) wanted: Option<Arc<Wanted>>,
    pub(crate) on_counted: Option<Arc<OnCounted>>,
    pub(crate) at_arrival: bool,
    pub(crate) delivery: Delivery,
    /// The counter of everything.
    pub(crate) hits: Counter,
}

/// The counter of what the rules leave.
pub(crate) type Rest = dyn Fn(&RequestHead<'_>) -> Option<Counter> + Send + Sync;

/// Which outcomes count.
pub(crate) type Wanted = dyn Fn(Outcome) -> bool + Send + Sync;

/// A request that is under way. It is counted once: when its outcome is known, and at the latest when
/// this is dropped.
#[derive(Debug)]
pub(crate) struct Guard {
    counting: Arc<Counting>,
    open: Option<Result<Seen, Skip>>,
    /// What is to be set in the response; few are given one, and all others are moved without the room.
    cookie: Option<Box<HeaderValue>>,
    /// What is to be done when it has counted.
    then: Option<Then>,
    confirmation: Option<Confirmation>,
}

/// Completes when the store has the hits of a request, or there was no time for it.
struct Confirmation(Pin<Box<dyn Future<Output = bool> + Send>>);

/// Dropped only when what is watched panics. A closure that is run would be shorter to write, but requests
/// and responses are long, and would be moved through it.
#[must_use = "without an end it has panicked"]
pub(crate) struct Watch<'a>(&'a mut Guard);

/// What there is to know of a request before it is answered.
#[derive(Clone, Copy, Debug)]
struct Seen {
    /// That on its page, or that under `hits` where it has none: one follows from the other.
    hit: Hit,
    has_page: bool,
    agent: Agent,
    /// That of the facet.
    method: Option<Counter>,
}

impl Guard {
    /// Reads what there is to know while the request is still here.
    pub(crate) fn of<B>(counting: &Arc<Counting>, request: &Request<B>) -> Self {
        let (mut cookie, mut then) = (None, None);
        let seen = counting.look(&RequestHead::of(request), &mut cookie, &mut then);
        let (open, cookie) = (Some(seen), cookie.map(Box::new));
        let mut guard = Self { counting: Arc::clone(counting), open, cookie, then, confirmation: None };
        if counting.at_arrival {
            guard.settle(Outcome::Arrived);
        }
        guard
    }

    /// Watches a part of the inner service until [`Watch::end`]; the request is counted as panicked when
    /// that panics.
    ///
    /// Not when the guard is dropped: who catches the panic drops the future after it, and a future
    /// may be dropped because something else panicked.
    pub(crate) const fn watch(&mut self) -> Watch<'_> {
        Watch(self)
    }

    /// What to set in the response, which only the first one asking is told.
    #[inline]
    pub(crate) fn cookie(&mut self) -> Option<HeaderValue> {
        self.cookie.take().map(|cookie| *cookie)
    }

    /// Counts the request, unless it is counted already.
    pub(crate) fn settle(&mut self, outcome: Outcome) {
        if let Some(seen) = self.open.take() {
            self.confirmation = self.counting.settle(seen, outcome, &mut self.then);
        }
    }

    /// Whether the response may go out.
    #[inline]
    pub(crate) fn poll_confirmed(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if let Some(Confirmation(confirmed)) = &mut self.confirmation {
            ready!(confirmed.as_mut().poll(cx));
            self.confirmation = None;
        }
        Poll::Ready(())
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        // Nearly always it is counted already.
        if self.open.is_some() {
            self.settle(Outcome::Aborted);
        }
    }
}

impl Watch<'_> {
    pub(crate) const fn end(self) {
        std::mem::forget(self);
    }
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        self.0.settle(Outcome::Panicked);
    }
}

impl Counting {
    /// What there is to know of a request, what to set in its response, and what to do when it has counted.
    fn look(
        &self,
        head: &RequestHead<'_>,
        cookie: &mut Option<HeaderValue>,
        then: &mut Option<Then>,
    ) -> Result<Seen, Skip> {
        let page = self.page(head)?;
        let excludes_prefetch = self.pages.as_ref().is_some_and(|pages| pages.exclude_prefetch());
        if excludes_prefetch && is_prefetch(head.headers) {
            return Err(Skip::Prefetch);
        }
        let user_agent = user_agent(head.headers);
        let agent = self.agents.of(head, user_agent);
        let told_apart =
            page.is_none_or(|page| page.visitors) && (agent != Agent::Bot || self.bots_are_visitors);
        // Who is not to be told apart is not, and is given no cookie.
        let visitor = if told_apart { self.visitors.visitor(head, user_agent, cookie) } else { None };
        if let Some(on_counted) = &self.on_counted {
            *then = on_counted(&Visit { head: *head, agent, visitor });
        }
        let method = self.facets.method(head.method);
        let all = self.hits.hit().visitor(visitor);
        // A rule may well be named `hits`, where the request counts anyway.
        let page = page.filter(|page| page.counter != self.hits);
        let hit = page.map_or(all, |page| all.on(page.counter).weight(page.weight));
        Ok(Seen { hit, has_page: page.is_some(), agent, method })
    }

    fn page(&self, head: &RequestHead<'_>) -> Result<Option<Page>, Skip> {
        let route = request::route(head.extensions);
        let rest = || self.rest.as_ref().and_then(|rest| rest(head)).map(Page::of);
        let Some(pages) = &self.pages else {
            return Ok(route.map(|route| Page::of(self.recorder.counter(route))).or_else(rest));
        };
        match pages.decide(&self.recorder, head.method, head.uri.path(), route) {
            Verdict::Excluded => Err(Skip::Excluded),
            Verdict::Unmatched => rest().map(Some).ok_or(Skip::Unmatched),
            Verdict::Counts(page) => Ok(Some(page)),
        }
    }

    fn settle(
        &self,
        seen: Result<Seen, Skip>,
        outcome: Outcome,
        then: &mut Option<Then>,
    ) -> Option<Confirmation> {
        match seen {
            Err(skip) => self.skip(skip),
            Ok(_) if self.wanted.as_ref().is_some_and(|wanted| !wanted(outcome)) => self.skip(Skip::Outcome),
            Ok(seen) => {
                let confirmation = self.count(seen, outcome);
                if let Some(then) = then.take() {
                    then.counted(outcome);
                }
                confirmation
            }
        }
    }

    fn count(&self, seen: Seen, outcome: Outcome) -> Option<Confirmation> {
        let all = seen.hit.on(self.hits).weight(NonZeroU32::MIN);
        let mut five;
        let two = [all, seen.hit];
        let mut hits = if seen.has_page { &two[..] } else { &two[..1] };
        if !self.facets.are_none() {
            // For two hits, which they are nearly always, no room for five is prepared.
            five = [all; 5];
            let count = self.with_facets(hits, &seen, outcome, &mut five);
            hits = &five[..count];
        }
        self.send(hits, seen.agent, outcome)
    }

    /// Puts these hits and those of the facets in the places, and tells how many they are.
    #[inline(never)]
    fn with_facets(&self, hits: &[Hit], seen: &Seen, outcome: Outcome, places: &mut [Hit; 5]) -> usize {
        let facets = [self.facets.status(outcome), seen.method, self.facets.agent(seen.agent)];
        let all = hits.iter().copied().chain(facets.into_iter().flatten().map(Counter::hit));
        places.iter_mut().zip(all).map(|(place, hit)| *place = hit).count()
    }

    fn send(&self, hits: &[Hit], agent: Agent, outcome: Outcome) -> Option<Confirmation> {
        self.recorder.request(hits, agent);
        match self.delivery {
            Delivery::BeforeResponse { timeout } if outcome != Outcome::Aborted => {
                Some(Confirmation(Box::pin(self.recorder.confirmed(hits, timeout))))
            }
            _ => None,
        }
    }

    fn skip(&self, skip: Skip) -> Option<Confirmation> {
        self.recorder.skip(skip);
        None
    }
}

impl fmt::Debug for Confirmation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Confirmation")
    }
}

impl fmt::Debug for Counting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Counting").field("facets", &self.facets).finish_non_exhaustive()
    }
}
