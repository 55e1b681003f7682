use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use counter_core::{Agent, Counter, Hit, Recorder, Skip, Timestamp};
use http::{HeaderValue, Request};

use super::facet::Facets;
use super::page::{Page, Pages};
use super::route::KnownRoute;
use super::visit::{OnCounted, Then};
use crate::classify::UserAgents;
use crate::classify::is_prefetch;
use crate::closure::Closure;
use crate::identity::{RequestHead, Visitors};
use crate::request::{self, Route};
use crate::rules::Match;
use crate::{Delivery, Outcome, Visit};

/// What one layer and its services share.
pub(crate) struct Counting {
    pub(crate) recorder: Recorder,
    pub(crate) visitors: Visitors,
    pub(crate) user_agents: Arc<UserAgents>,
    /// Instead of what the user agent says.
    pub(crate) agents: Option<Arc<AgentFn>>,
    pub(crate) bots_are_visitors: bool,
    pub(crate) pages: Option<Arc<Pages>>,
    pub(crate) rest: Option<Arc<Rest>>,
    pub(crate) facets: Option<Arc<Facets>>,
    pub(crate) wanted: Option<Arc<Wanted>>,
    pub(crate) on_count: Option<Arc<OnCounted>>,
    pub(crate) count_on_request: bool,
    pub(crate) delivery: Delivery,
    /// The counter of everything.
    pub(crate) hits: Counter,
    pub(crate) route: KnownRoute,
}

/// Who makes a request.
pub(crate) type AgentFn = Closure<dyn Fn(&RequestHead<'_>) -> Agent + Send + Sync>;

/// The counter of what the rules leave.
pub(crate) type Rest = Closure<dyn Fn(&RequestHead<'_>) -> Option<Counter> + Send + Sync>;

/// Which outcomes count.
pub(crate) type Wanted = Closure<dyn Fn(Outcome) -> bool + Send + Sync>;

/// A request that is under way. It is counted once: when its outcome is known, and at the latest when
/// this is dropped.
#[derive(Debug)]
pub(crate) struct Guard {
    counting: Arc<Counting>,
    seen: Result<Seen, Skip>,
    /// Whether it is to be counted yet.
    open: bool,
    /// Few requests have any of it, and all others are moved without the room.
    extra: Option<Box<Extra>>,
}

#[derive(Debug, Default)]
struct Extra {
    /// What is to be set in the response.
    cookie: Option<HeaderValue>,
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
    /// That of everything and that of its page, which is another unless it says so.
    hits: [Hit; 2],
    has_page: bool,
    agent: Agent,
    /// Its place in the facet, where that is wanted.
    method: u8,
    /// When the epoch ends in which its visitor was told apart: by then it has to be counted.
    until: Timestamp,
}

impl Seen {
    fn hits(&self) -> &[Hit] {
        &self.hits[..if self.has_page { 2 } else { 1 }]
    }

    /// Those and the hits of the facets, and how many they are.
    #[inline(never)]
    fn hits_with(&self, facets: &Facets, outcome: Outcome) -> ([Hit; 5], usize) {
        let others = [facets.status(outcome), facets.method(self.method), facets.agent(self.agent)];
        let all = self.hits().iter().copied().chain(others.into_iter().flatten().map(Counter::hit));
        let mut hits = [self.hits[0]; 5];
        let count = hits.iter_mut().zip(all).map(|(place, hit)| *place = hit).count();
        (hits, count)
    }
}

impl Guard {
    /// Reads what there is to know while the request is still here.
    pub(crate) fn of<B>(counting: &Arc<Counting>, request: &Request<B>) -> Self {
        let mut extra = None;
        let seen = counting.look(&RequestHead::of(request), &mut extra);
        Self { counting: Arc::clone(counting), seen, open: true, extra }
    }

    /// Counts the request now, where that is wanted.
    #[inline]
    pub(crate) fn arrived(&mut self) {
        if self.counting.count_on_request {
            self.settle(Outcome::Arrived);
        }
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
        self.extra.as_mut()?.cookie.take()
    }

    /// Counts the request, unless it is counted already.
    pub(crate) fn settle(&mut self, outcome: Outcome) {
        if std::mem::take(&mut self.open) {
            self.counting.settle(&self.seen, outcome, &mut self.extra);
        }
    }

    /// Whether the response may go out.
    #[inline]
    pub(crate) fn poll_confirmed(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if let Some(extra) = &mut self.extra
            && let Some(Confirmation(confirmed)) = &mut extra.confirmation
        {
            ready!(confirmed.as_mut().poll(cx));
            extra.confirmation = None;
        }
        Poll::Ready(())
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        // Nearly always it is counted already.
        if self.open {
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
    /// What there is to know of a request, and in `extra` what to set in its response and what to do when it
    /// has counted.
    fn look(&self, head: &RequestHead<'_>, extra: &mut Option<Box<Extra>>) -> Result<Seen, Skip> {
        let page = self.page(head)?;
        let excludes_prefetch = self.pages.as_ref().is_some_and(|pages| pages.exclude_prefetch());
        if excludes_prefetch && is_prefetch(head.headers) {
            return Err(Skip::Prefetch);
        }
        let user_agent = self.user_agents.of(head.headers);
        let asked = self.agents.as_ref().and_then(|agents| agents.ask(|agents| agents(head)));
        let agent = asked.unwrap_or(user_agent.agent);
        let told_apart =
            page.is_none_or(|page| page.visitors) && (agent != Agent::Bot || self.bots_are_visitors);
        // Who is not to be told apart is not, and is given no cookie.
        let visitor = if told_apart {
            let mut cookie = None;
            let visitor = self.visitors.visitor(head, user_agent.digest, &mut cookie);
            if cookie.is_some() {
                extra.get_or_insert_default().cookie = cookie;
            }
            visitor
        } else {
            None
        };
        let (visitor, until) = visitor.map_or((None, Timestamp::MAX), |(id, until)| (Some(id), until));
        if let Some(on_count) = &self.on_count
            && let Some(then) = on_count.ask(|look| look(&Visit { head: *head, agent, visitor })).flatten()
        {
            extra.get_or_insert_default().then = Some(then);
        }
        let method = self.facets.as_ref().map_or(0, |facets| facets.method_place(head.method));
        let all = self.hits.hit().visitor(visitor);
        // A rule may well be named `hits`, where the request counts anyway: then with the rule's weight.
        let (all, page) = match page {
            Some(page) if page.counter == self.hits => (all.weight(page.weight), None),
            page => (all, page),
        };
        let of_page = page.map_or(all, |page| all.on(page.counter).weight(page.weight));
        Ok(Seen { hits: [all, of_page], has_page: page.is_some(), agent, method, until })
    }

    fn page(&self, head: &RequestHead<'_>) -> Result<Option<Page>, Skip> {
        match &self.pages {
            Some(pages) => self.by_rules(pages, head),
            None => Ok(self.of_route(request::route(head.extensions)).or_else(|| self.rest(head))),
        }
    }

    // Beside what is done without rules.
    #[inline(never)]
    fn by_rules(&self, pages: &Pages, head: &RequestHead<'_>) -> Result<Option<Page>, Skip> {
        let route = || request::route(head.extensions);
        let page = match pages.find(head.method, head.uri.path(), || route().map(Route::as_str)) {
            Match::Excluded(_) => return Err(Skip::Excluded),
            Match::MatchedPath(_) => return Ok(self.of_route(route())),
            Match::Included(number) => Some(pages.included(number)),
            Match::DefaultCounter => pages.default_page(),
            Match::Unmatched | Match::PathTooLong(_) => self.rest(head),
        };
        page.map(Some).ok_or(Skip::Unmatched)
    }

    fn of_route(&self, route: Option<&Route>) -> Option<Page> {
        route.map(|route| Page::of(self.route.counter(&self.recorder, route)))
    }

    fn rest(&self, head: &RequestHead<'_>) -> Option<Page> {
        let asked = self.rest.as_ref().and_then(|rest| rest.ask(|rest| rest(head)));
        asked.flatten().map(Page::of)
    }

    fn settle(&self, seen: &Result<Seen, Skip>, outcome: Outcome, extra: &mut Option<Box<Extra>>) {
        let seen = match seen {
            Err(skip) => return self.recorder.skip(*skip),
            Ok(_) if !self.wants(outcome) => return self.recorder.skip(Skip::Outcome),
            Ok(seen) => seen,
        };
        let more;
        let hits = if let Some(facets) = &self.facets {
            more = seen.hits_with(facets, outcome);
            &more.0[..more.1]
        } else {
            seen.hits()
        };
        self.recorder.request_until(hits, seen.agent, seen.until);
        if let Delivery::BeforeResponse { timeout } = self.delivery
            && outcome != Outcome::Aborted
        {
            self.confirm(hits, timeout, extra);
        }
        if let Some(extra) = extra
            && let Some(then) = extra.then.take()
        {
            then.counted(outcome);
        }
    }

    /// Without an answer of the closure it is as if there was none.
    fn wants(&self, outcome: Outcome) -> bool {
        let asked = self.wanted.as_ref().and_then(|wanted| wanted.ask(|wanted| wanted(outcome)));
        asked.unwrap_or(true)
    }

    // Beside what every request does: its future is long.
    #[inline(never)]
    fn confirm(&self, hits: &[Hit], timeout: Duration, extra: &mut Option<Box<Extra>>) {
        let confirmed = Box::pin(self.recorder.confirmed(hits, timeout));
        extra.get_or_insert_default().confirmation = Some(Confirmation(confirmed));
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
