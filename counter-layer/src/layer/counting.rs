use std::fmt;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use counter_core::visits::{Agent, Bin, PageHit, Skip};
use counter_core::{Counter, CounterName, Recorder, Timestamp, VisitorId};
use http::header::USER_AGENT;
use http::{HeaderValue, Method};

use super::extra::{Confirmation, Extra, ExtraPool};
use super::measures::Bins;
use super::outcome::Outcome;
use super::route::KnownRoute;
use super::seen::Classified;
use super::settings::delivery::Delivery;
use super::settings::facet::{FACETS, NO_METHOD};
use super::settings::page::{Page, Pages};
use super::settings::setup::Setup;
use super::settings::{Fallback, Settings};
use super::visit::{OnCount, Visit};
use crate::classify::{Digest, UserAgent, is_call, is_prefetch};
use crate::closure::catch_panic;
use crate::identity::{ExpiringRegister, RequestHead, Visitors};
use crate::label::{Labels, When};
use crate::request::logged::Logged;
use crate::request::{self, Route, is_private};
use crate::reserved::is_reserved;
use crate::rules::Match;

/// State shared by all services of a layer.
pub(crate) struct Counting {
    pub(crate) recorder: Recorder,
    /// The counter of all requests.
    pub(crate) hits: Counter,
    pub(crate) visitors: Visitors,
    pub(crate) route: KnownRoute,
    pub(crate) settings: Settings,
    pub(super) pool: ExtraPool,
    /// True if pages are resolved via rules or a closure.
    pub(super) has_page_resolver: bool,
    /// True if requests must be checked before the visitor can be identified.
    pub(super) needs_precheck: bool,
    /// True if [`Extra`] data must be kept until a request ends.
    pub(super) needs_extra: bool,
    /// True if more than a page hit must be recorded at the end of a request.
    pub(super) needs_completion: bool,
}

/// An identified visitor.
struct Identified {
    /// Only set if the application needs the id.
    visitor: Option<VisitorId>,
    register_until: ExpiringRegister,
}

impl Counting {
    /// Classifies a request that is read from a log, or made now if `None`. Adds the cookie to set, the action to run,
    /// and the label values to `extra`.
    pub(super) fn inspect(
        &self,
        head: &RequestHead<'_>,
        logged: Option<&Logged<'_>>,
        extra: &mut Option<Box<Extra>>,
    ) -> Result<Classified, Skip> {
        // Assign the fields separately, so that the common path does not need to build a `Page`.
        let route = if self.has_page_resolver { None } else { request::route(head.extensions) };
        let mut is_unmatched = false;
        let (page, weight, visitors) = match self.known_page(route) {
            page @ Some(_) => (page, NonZeroU32::MIN, true),
            None => match self.page(head, route) {
                Ok(Some(Page { counter, weight, visitors })) => (Some(counter), weight, visitors),
                Ok(None) => (None, NonZeroU32::MIN, true),
                Err(Skip::Unmatched) if self.counts_missing() => {
                    is_unmatched = true;
                    (None, NonZeroU32::MIN, true)
                }
                Err(skip) => return Err(skip),
            },
        };
        let user_agent = match logged {
            Some(logged) if !(logged.has_header)(&USER_AGENT) => UserAgent::UNKNOWN,
            _ => self.settings.user_agents.of(head.headers),
        };
        let agent =
            if self.needs_precheck { self.precheck(head, user_agent.agent)? } else { user_agent.agent };
        let identified = if visitors && (agent != Agent::Bot || self.settings.bots_are_visitors) {
            self.identified(head, user_agent.digest, extra)
        } else {
            // If a client is not identified, we must not issue a cookie either.
            None
        };
        let (visitor, mut register, until) = match identified {
            Some(Identified { visitor, register_until: (register, until) }) => {
                (visitor, Some(register), until)
            }
            None => (None, None, Timestamp::MAX),
        };
        let mut asks_for_view = false;
        if self.needs_extra {
            asks_for_view = self.settings.views && self.asks_for_view(head, agent, logged);
            if let Some(on_count) = &self.settings.on_count {
                note_action(on_count, &Visit { head: *head, agent, visitor }, extra);
            }
            if let Some(labels) = &self.settings.labels {
                self.note_labels(labels, head, (agent, asks_for_view), logged, weight, extra);
            }
        }
        if is_unmatched && let Some(extra) = extra {
            extra.is_unmatched = true;
            // Most unmatched requests do not count, so they must not get a cookie.
            register = register.filter(|_| extra.cookie.take().is_none());
        }
        let method = match logged {
            Some(Logged { has_method: false, .. }) => NO_METHOD,
            _ => self.settings.facets.as_ref().map_or(0, |facets| facets.method_index(head.method)),
        };
        Ok(Classified { page, register, weight, agent, method, asks_for_view, until })
    }

    /// Returns `true` if a person who makes this request wants to see the page.
    // Not inlined, because most layers do not count views.
    #[inline(never)]
    fn asks_for_view(&self, head: &RequestHead<'_>, agent: Agent, logged: Option<&Logged<'_>>) -> bool {
        let is_get = *head.method == Method::GET && logged.is_none_or(|logged| logged.has_method);
        let may_prefetch = || !self.settings.excludes_prefetch();
        is_get && agent != Agent::Bot && !(may_prefetch() && is_prefetch(head.headers))
    }

    /// Returns `true` if missing pages count even if no rule matches.
    fn counts_missing(&self) -> bool {
        self.settings.labels.as_ref().is_some_and(|labels| labels.count_missing())
    }

    /// Runs the checks that are needed before a visitor is identified, and returns the kind of client.
    #[inline(never)]
    fn precheck(&self, head: &RequestHead<'_>, agent: Agent) -> Result<Agent, Skip> {
        if self.settings.excludes_prefetch() && is_prefetch(head.headers) {
            return Err(Skip::Prefetch);
        }
        if self.settings.ignore.iter().flat_map(|all| all.iter()).any(|ignore| ignore.matches(head)) {
            return Err(Skip::Own);
        }
        let classify = self.settings.classify_agent.as_ref();
        Ok(classify.and_then(|classify| classify.call(|classify| classify(head))).unwrap_or(agent))
    }

    #[inline(always)]
    fn identified(
        &self,
        head: &RequestHead<'_>,
        user_agent: Digest,
        extra: &mut Option<Box<Extra>>,
    ) -> Option<Identified> {
        let (mut cookie, mut client) = (None, None);
        let identified = if self.settings.on_count.is_none() {
            let register_until = self.visitors.register_until(head, user_agent, &mut cookie, &mut client);
            register_until.map(|register_until| Identified { visitor: None, register_until })
        } else {
            self.identified_with_id(head, user_agent, &mut cookie, &mut client)
        };
        if self.settings.setup.watches_visitors(client) {
            let (is_known, is_issued) = (identified.is_some(), cookie.is_some());
            self.settings.setup.visitor(&self.recorder, &self.visitors, head, client, is_known, is_issued);
        }
        if cookie.is_some() {
            extra.get_or_insert_default().cookie = cookie;
        }
        identified
    }

    #[inline(never)]
    fn identified_with_id(
        &self,
        head: &RequestHead<'_>,
        user_agent: Digest,
        cookie: &mut Option<HeaderValue>,
        client: &mut Option<u128>,
    ) -> Option<Identified> {
        let visitor = self.visitors.visitor(head, user_agent, cookie, client);
        visitor.map(|(id, until)| Identified { visitor: Some(id), register_until: (id.into(), until) })
    }

    /// Notes the label values to be counted when the request ends.
    #[inline(never)]
    fn note_labels(
        &self,
        labels: &Labels,
        head: &RequestHead<'_>,
        (agent, asks_for_view): (Agent, bool),
        logged: Option<&Logged<'_>>,
        weight: NonZeroU32,
        extra: &mut Option<Box<Extra>>,
    ) {
        let extra = extra.get_or_insert_with(|| self.pool.take());
        labels.note(head, agent, logged, weight, &mut extra.labels);
        let is_known = asks_for_view && labels.note_known_view(head, logged, weight, &mut extra.of_view);
        if let Some(late) = labels.late_head(head, asks_for_view && !is_known) {
            extra.late = Some(late);
        }
    }

    /// Returns the route counter if this is the cached route of the service, which is the common case.
    #[inline]
    fn known_page(&self, route: Option<&Route>) -> Option<Counter> {
        let counter = self.route.known(route?)?;
        (!self.settings.setup.watches_paths(true)).then_some(counter)
    }

    // Not inlined, because we want to keep the common path short.
    #[inline(never)]
    fn page(&self, head: &RequestHead<'_>, route: Option<&Route>) -> Result<Option<Page>, Skip> {
        match &self.settings.pages {
            Some(pages) => self.by_rules(pages, head),
            None => {
                let page = self.of_route(head, route);
                self.watch_path(head, page.is_some());
                Ok(if page.is_some() { page } else { self.fallback(head).flatten() })
            }
        }
    }

    fn by_rules(&self, pages: &Pages, head: &RequestHead<'_>) -> Result<Option<Page>, Skip> {
        let matched_path = || {
            let matched = self.matched_path(head);
            self.watch_path(head, matched.is_some());
            matched
        };
        let page = match pages.find(head.method, head.uri.path(), matched_path) {
            Match::Excluded(_) => return Err(Skip::Excluded),
            Match::MatchedPath(template) => Some(Page::of(self.of_template(template))),
            Match::Included(number) => Some(pages.included(number)),
            Match::DefaultCounter => pages.default_page(),
            Match::Unmatched | Match::PathTooLong(_) => match self.fallback(head) {
                Some(page) => return Ok(page),
                None => None,
            },
        };
        match page {
            // We don't know whether this is unmatched until the response arrives.
            None if self.counts_by_method(head) => Ok(None),
            page => page.map(Some).ok_or(Skip::Unmatched),
        }
    }

    /// Returns `true` for a gRPC call that counts by method, like other requests count by route.
    #[inline(never)]
    pub(super) fn counts_by_method(&self, head: &RequestHead<'_>) -> bool {
        let method = head.uri.path();
        let by_route = |pages: &Arc<Pages>| {
            matches!(pages.find(head.method, method, || Some(method)), Match::MatchedPath(_))
        };
        is_call(head.method, head.headers) && self.settings.pages.as_ref().is_none_or(by_route)
    }

    /// Returns `true` if there is no counter from rules or the fallback.
    pub(super) fn is_unmatched(&self, head: &RequestHead<'_>) -> bool {
        let route = || self.matched_path(head);
        let by_rules =
            |pages: &Arc<Pages>| matches!(pages.find(head.method, head.uri.path(), route), Match::Unmatched);
        self.settings.pages.as_ref().is_some_and(by_rules) && self.fallback(head).is_none()
    }

    fn matched_path<'a>(&self, head: &RequestHead<'a>) -> Option<&'a str> {
        match &self.settings.matched_path {
            None => request::route(head.extensions).map(Route::as_str),
            Some(closure) => closure.call(|matched_path| matched_path(head)).flatten(),
        }
    }

    fn of_route(&self, head: &RequestHead<'_>, route: Option<&Route>) -> Option<Page> {
        if self.settings.matched_path.is_none() {
            return self.route.by_name(&self.recorder, route?).map(Page::of);
        }
        let template = self.matched_path(head)?;
        (!is_private(template)).then(|| Page::of(self.of_template(template)))
    }

    fn of_template(&self, template: &str) -> Counter {
        if is_reserved(template) { self.reserved() } else { self.recorder.counter(template) }
    }

    /// Returns the result of the fallback closure, if it returned a counter: a page, or `None` to count in
    /// `hits` only.
    #[inline]
    fn fallback(&self, head: &RequestHead<'_>) -> Option<Option<Page>> {
        self.call_fallback(self.settings.fallback.as_ref()?, head)
    }

    #[inline(never)]
    fn call_fallback(&self, fallback: &Fallback, head: &RequestHead<'_>) -> Option<Option<Page>> {
        let counter = fallback.call(|fallback| fallback(head)).flatten()?;
        if counter == self.hits {
            return Some(None);
        }
        let is_reserved_name = self.recorder.name(counter).is_some_and(|name| is_reserved(&name));
        Some(Some(Page::of(if is_reserved_name { self.reserved() } else { counter })))
    }

    /// Returns the counter `(other)`, for a closure that returned a reserved name. Logs a warning the first
    /// time.
    #[cold]
    fn reserved(&self) -> Counter {
        if !self.settings.logged_reserved.swap(true, Ordering::Relaxed) {
            catch_panic(|| {
                tracing::warn!(
                    "a closure returned a reserved counter name such as `hits` or `status:2xx`: these \
                     requests count under {}",
                    CounterName::OTHER
                );
            });
        }
        self.recorder.counter(CounterName::OTHER)
    }

    #[inline]
    fn watch_path(&self, head: &RequestHead<'_>, is_matched: bool) {
        if self.settings.setup.watches_paths(is_matched) {
            self.check_path(head, is_matched);
        }
    }

    #[inline(never)]
    fn check_path(&self, head: &RequestHead<'_>, is_matched: bool) {
        // The fallback may be the only source of pages by design, and gRPC calls count by method.
        if is_matched || (self.settings.fallback.is_none() && !is_call(head.method, head.headers)) {
            self.settings.setup.path(&self.recorder, is_matched);
        }
    }

    pub(super) fn finish(
        &self,
        seen: &Result<Classified, Skip>,
        outcome: Outcome,
        extra: &mut Option<Box<Extra>>,
    ) {
        if self.needs_completion || extra.is_some() {
            return self.finish_with_extras(seen, outcome, extra);
        }
        match seen {
            Ok(seen) if seen.asks_for_view => self.finish_view(seen, outcome),
            Ok(seen) => self.recorder.page_hit(seen.page_hit(self.hits)),
            Err(skip) => self.recorder.skip(*skip),
        }
    }

    // Not inlined, because most layers do not count views.
    #[inline(never)]
    fn finish_view(&self, seen: &Classified, outcome: Outcome) {
        self.recorder.page_hit(PageHit { is_view: seen.is_view(outcome), ..seen.page_hit(self.hits) });
    }

    // Not inlined, because we want to keep the common path short.
    #[inline(never)]
    fn finish_with_extras(
        &self,
        seen: &Result<Classified, Skip>,
        outcome: Outcome,
        extra: &mut Option<Box<Extra>>,
    ) {
        let bins = self.settings.measures.map(|measures| measures.ended(outcome));
        self.finish_measured(seen, outcome, bins.as_ref().map_or(&[], Bins::as_slice), extra);
    }

    /// Counts a request with this outcome and these distribution bins, and runs the action. Returns `false`
    /// if the request does not count.
    #[inline(always)]
    pub(super) fn finish_measured(
        &self,
        seen: &Result<Classified, Skip>,
        outcome: Outcome,
        bins: &[Bin],
        extra: &mut Option<Box<Extra>>,
    ) -> bool {
        let is_counted = self.count(seen, outcome, bins, extra);
        // With labels, nearly all requests need a box.
        if self.settings.labels.is_some() {
            self.pool.recycle(extra);
        }
        is_counted
    }

    #[inline(always)]
    fn count(
        &self,
        seen: &Result<Classified, Skip>,
        outcome: Outcome,
        bins: &[Bin],
        extra: &mut Option<Box<Extra>>,
    ) -> bool {
        let decided = seen.as_ref().map_err(|skip| *skip);
        let seen = match decided.and_then(|seen| self.check(outcome, extra.as_deref()).map(|()| seen)) {
            Ok(seen) => seen,
            Err(skip) => {
                self.recorder.skip(skip);
                return false;
            }
        };
        let mut facet_counters;
        let others = if self.settings.facets.is_some() {
            facet_counters = [self.hits; FACETS];
            seen.others(&self.settings, outcome, &mut facet_counters)
        } else {
            &[]
        };
        self.note_late(seen, None, outcome, extra.as_deref_mut());
        let labels = extra.as_deref().map_or(&[][..], |extra| &extra.labels);
        let is_view = seen.is_view(outcome);
        self.recorder.page_hit(PageHit { others, labels, bins, is_view, ..seen.page_hit(self.hits) });
        if let Delivery::BeforeResponse { timeout } = self.settings.delivery
            && outcome != Outcome::Aborted
        {
            self.confirm(seen, others, timeout, extra);
        }
        if let Some(extra) = extra
            && let Some(then) = extra.then.take()
        {
            then.counted(outcome);
        }
        true
    }

    /// Notes the label values that depend on the response.
    #[inline]
    pub(super) fn note_late(
        &self,
        seen: &Classified,
        logged: Option<&Logged<'_>>,
        outcome: Outcome,
        extra: Option<&mut Extra>,
    ) {
        if let (Some(labels), Some(extra)) = (&self.settings.labels, extra)
            && extra.has_late()
        {
            note_late(labels, seen, logged, outcome, extra);
        }
    }

    /// Disables actions and hints, which must not be triggered for requests served elsewhere.
    pub(super) fn without_side_effects(mut self) -> Self {
        self.settings.on_count = None;
        self.needs_extra = self.settings.needs_extra();
        self.settings.setup = Arc::new(Setup::disabled());
        self
    }

    /// Checks if a request with this outcome counts. If the `count_if` closure panics, the outcome counts as if the
    /// closure had not been set.
    pub(super) fn check(&self, outcome: Outcome, extra: Option<&Extra>) -> Result<(), Skip> {
        if !outcome.is_missing() && extra.is_some_and(|extra| extra.is_unmatched) {
            return Err(Skip::Unmatched);
        }
        let accepted =
            self.settings.count_if.as_ref().and_then(|count_if| count_if.call(|count_if| count_if(outcome)));
        if accepted.unwrap_or(true) { Ok(()) } else { Err(Skip::Outcome) }
    }

    // Not inlined, because this future is very large.
    #[inline(never)]
    fn confirm(
        &self,
        seen: &Classified,
        others: &[Counter],
        timeout: Duration,
        extra: &mut Option<Box<Extra>>,
    ) {
        let counters = [self.hits].into_iter().chain(seen.page).chain(others.iter().copied());
        let labels = self.settings.labels.as_deref().zip(extra.as_deref());
        // The pairs of a page have the same shard as the page.
        let labels = labels.into_iter().flat_map(|(labels, extra)| labels.counters(&extra.labels));
        let hits: Vec<_> = counters.chain(labels).map(Counter::hit).collect();
        let confirmed = Box::pin(self.recorder.confirmed(&hits, timeout));
        extra.get_or_insert_default().confirmation = Some(Confirmation(confirmed));
    }
}

#[inline(never)]
fn note_late(
    labels: &Labels,
    seen: &Classified,
    logged: Option<&Logged<'_>>,
    outcome: Outcome,
    Extra { labels: noted, of_view, late, .. }: &mut Extra,
) {
    match late {
        Some(head) if outcome.is_missing() => {
            labels.note_late(When::Missing, head, logged, seen.weight, noted);
        }
        _ if !seen.is_view(outcome) => {}
        _ if !of_view.is_empty() => noted.extend_from_slice(of_view),
        Some(head) => labels.note_late(When::View, head, logged, seen.weight, noted),
        None => {}
    }
}

/// Prepares the action to run when the request is counted.
#[inline(never)]
fn note_action(on_count: &OnCount, visit: &Visit<'_>, extra: &mut Option<Box<Extra>>) {
    if let Some(then) = on_count.call(|inspect| inspect(visit)).flatten() {
        extra.get_or_insert_default().then = Some(then);
    }
}

impl fmt::Debug for Counting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Counting").field("facets", &self.settings.facets).finish_non_exhaustive()
    }
}
