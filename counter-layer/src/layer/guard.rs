use std::fmt;
use std::num::NonZeroU32;
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, ready};
use std::time::Duration;

#[cfg(feature = "log")]
use counter_core::visitor::VisitorKey;
use counter_core::visits::{Agent, Bin, Hit, Measured, Skip};
use counter_core::{Counter, CounterName, Recorder, Timestamp};
#[cfg(feature = "body")]
use http::HeaderMap;
use http::header::SET_COOKIE;
use http::{HeaderValue, Method, Request, Response};

use super::facet::FACETS;
#[cfg(feature = "log")]
use super::measures::Measures;
use super::measures::Measuring;
#[cfg(feature = "body")]
use super::measures::content_length;
use super::page::{Page, Pages};
use super::route::KnownRoute;
use super::settings::{Fallback, Settings};
#[cfg(feature = "log")]
use super::setup::Setup;
use super::visit::Then;
use crate::classify::{is_call, is_prefetch, is_served};
use crate::closure::caught;
#[cfg(feature = "log")]
use crate::identity::Reads;
use crate::identity::{RequestHead, Visitors};
use crate::label::{LABELS, Noted};
use crate::request::{self, Route, is_private};
use crate::reserved::is_reserved;
use crate::rules::Match;
use crate::{Delivery, Outcome, Visit};

/// The state that all services of one layer share.
pub(crate) struct Counting {
    pub(crate) recorder: Recorder,
    /// The counter of everything.
    pub(crate) hits: Counter,
    pub(crate) visitors: Visitors,
    pub(crate) route: KnownRoute,
    pub(crate) settings: Settings,
    pub(crate) spare: Spare,
}

/// A request that is under way. It is counted once: when its outcome is known, and at the latest when
/// this is dropped.
#[derive(Debug)]
pub(crate) struct Guard {
    counting: Arc<Counting>,
    seen: Result<Seen, Skip>,
    /// The request is still to be counted.
    open: bool,
    /// The beginning of the request, where it is measured.
    measuring: Option<Measuring>,
    /// Few requests have any of it, and all others are moved without the room.
    extra: Option<Box<Extra>>,
}

#[derive(Debug, Default)]
pub(crate) struct Extra {
    /// The cookie to set in the response.
    cookie: Option<HeaderValue>,
    /// The action to run when the request has counted.
    then: Option<Then>,
    call: Option<NewCall>,
    confirmation: Option<Confirmation>,
    /// The values of labels, where some are chosen.
    labels: Noted,
}

/// The room of requests that are over, for those to come: with labels, each needs it.
#[derive(Debug, Default)]
pub(crate) struct Spare(Mutex<Boxes>);

#[allow(clippy::vec_box, reason = "the boxes are what is kept")]
type Boxes = Vec<Box<Extra>>;

/// The number of requests whose room is kept.
const MOST_SPARE: usize = 1024;

/// A call of gRPC by a method that has no counter yet. It gets one if the method turns out to exist: clients can
/// ask for any number of methods.
#[derive(Debug)]
struct NewCall {
    method: Box<str>,
    /// The decision about the request.
    seen: Seen,
}

/// A response whose body is under way. Nothing is measured of one that is dropped before its end.
#[cfg(feature = "body")]
#[derive(Debug)]
pub(crate) struct OpenBody {
    counting: Arc<Counting>,
    seen: Seen,
    measuring: Measuring,
    /// The bytes so far.
    pub(crate) bytes: u64,
    /// The bytes at the end, where they are known before.
    pub(crate) expected: Option<u64>,
    /// The head had the status of gRPC, which counts once.
    has_grpc: bool,
}

/// Completes when the store has the hits of a request, or there was no time for it.
struct Confirmation(Pin<Box<dyn Future<Output = bool> + Send>>);

/// Dropped only when what is watched panics. A closure that is run would be shorter to write, but requests
/// and responses are long, and would be moved through it.
#[must_use = "without an end it has panicked"]
pub(crate) struct Watch<'a>(&'a mut Guard);

/// The facts of a request that are known before it is answered.
#[derive(Clone, Copy, Debug)]
struct Seen {
    /// The hit of everything and that of the page; the second has a meaning only with `has_page`.
    hits: [Hit; OWN_HITS],
    has_page: bool,
    agent: Agent,
    /// The place of the method in its facet, where that is chosen.
    method: u8,
    /// The end of the epoch in which the visitor was told apart: the request has to be counted by then.
    until: Timestamp,
}

/// Hits of a request beside those of its facets and labels: under `hits`, and on its page.
const OWN_HITS: usize = 2;

const MOST_HITS: usize = OWN_HITS + FACETS + LABELS;

impl Spare {
    fn take(&self) -> Box<Extra> {
        self.lock().pop().unwrap_or_default()
    }

    fn put(&self, mut extra: Box<Extra>) {
        // What the closure of somebody holds may take its time when it is dropped.
        *extra = Extra::default();
        let mut spare = self.lock();
        if spare.len() < MOST_SPARE {
            spare.push(extra);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Boxes> {
        self.0.lock().expect("nothing panics under this lock")
    }
}

impl Seen {
    fn hits(&self) -> &[Hit] {
        &self.hits[..if self.has_page { OWN_HITS } else { 1 }]
    }

    /// Moves the hit of the page to this counter.
    fn move_to(&mut self, counter: Counter) {
        self.hits[1] = self.hits[0].on(counter);
        self.has_page = true;
    }

    /// Puts the hits with those of the facets and the labels into a place, and returns how many there are.
    #[inline(never)]
    fn hits_with(
        &self,
        settings: &Settings,
        outcome: Outcome,
        extra: Option<&Extra>,
        hits: &mut [Hit; MOST_HITS],
    ) -> usize {
        let mut count = self.hits().len();
        hits[..OWN_HITS].copy_from_slice(&self.hits);
        let mut push = |counter: Counter| {
            hits[count] = self.hits[0].on(counter).visitor(None);
            count += 1;
        };
        if let Some(facets) = &settings.facets {
            facets.counters(outcome, self.method, self.agent).into_iter().flatten().for_each(&mut push);
        }
        if let (Some(labels), Some(extra)) = (&settings.labels, extra) {
            labels.counters(&extra.labels).for_each(push);
        }
        count
    }
}

impl Guard {
    /// Reads what there is to know while the request is still here.
    pub(crate) fn of<B>(counting: &Arc<Counting>, request: &Request<B>) -> Self {
        let measuring = counting.settings.measures.map(|measures| measures.begin(request.method()));
        let mut extra = None;
        let seen = counting.look(&RequestHead::of(request), None, &mut extra);
        Self { counting: Arc::clone(counting), seen, open: true, measuring, extra }
    }

    /// Moves a call of gRPC to the counter of its method, or to where it gets one.
    #[inline]
    pub(crate) fn call<B>(&mut self, request: &Request<B>) {
        // As a pattern it is a comparison of one byte.
        if matches!(*request.method(), Method::POST) {
            self.move_call(&RequestHead::of(request));
        }
    }

    #[cold]
    fn move_call(&mut self, head: &RequestHead<'_>) {
        let method = head.uri.path();
        let (Ok(seen), true) = (&mut self.seen, self.counting.counts_by_method(head)) else { return };
        if let Some(known) = self.counting.recorder.find_counter(method) {
            return seen.move_to(known);
        }
        let call = NewCall { method: method.into(), seen: *seen };
        self.extra.get_or_insert_default().call = Some(call);
        if self.counting.is_unmatched(head) {
            self.seen = Err(Skip::Unmatched);
        }
    }

    /// Counts the request now, where that is wanted.
    #[inline]
    pub(crate) fn arrived(&mut self) {
        if self.counting.settings.count_on_request {
            self.settle(Outcome::Arrived);
        }
    }

    /// Watches a part of the inner service until [`Watch::end`]; the request is counted as panicked when
    /// that panics.
    ///
    /// Not when the guard is dropped: the one that catches the panic drops the future after it, and a future
    /// may be dropped because something else panicked.
    pub(crate) const fn watch(&mut self) -> Watch<'_> {
        Watch(self)
    }

    /// Counts the request as one that was answered.
    #[inline]
    pub(crate) fn answered<B>(&mut self, response: &mut Response<B>) {
        if self.extra.is_some() {
            self.look_at_answer(response);
        }
        match self.measuring {
            None => self.settle(Outcome::Answered(response.status())),
            Some(measuring) => self.measured(measuring, response),
        }
    }

    // Beside what is done where nothing is measured.
    #[inline(never)]
    fn measured<B>(&mut self, measuring: Measuring, response: &Response<B>) {
        let mut has_counted = false;
        if let Some(measures) = self.counting.settings.measures
            && std::mem::take(&mut self.open)
        {
            let bins = measures.answered(measuring, response);
            let outcome = Outcome::Answered(response.status());
            has_counted =
                self.counting.settle_measured(&self.seen, outcome, bins.as_slice(), &mut self.extra);
        }
        if !has_counted {
            self.measuring = None;
        }
    }

    /// Returns what measures the body of a response whose request has counted, if that is wanted.
    #[cfg(feature = "body")]
    pub(crate) fn open_body<B: http_body::Body>(&self, response: &Response<B>) -> Option<OpenBody> {
        let (measures, measuring) = self.counting.settings.measures.zip(self.measuring)?;
        let seen = self.seen.as_ref().ok()?;
        let has_body = measures.watches_body(measuring, response)? && !response.body().is_end_stream();
        let open = OpenBody {
            counting: Arc::clone(&self.counting),
            seen: *seen,
            measuring,
            bytes: 0,
            expected: None,
            has_grpc: measures.has_grpc(response.headers()),
        };
        if !has_body {
            open.end(None);
            return None;
        }
        let expected = response.body().size_hint().exact().or_else(|| content_length(response.headers()));
        Some(OpenBody { expected, ..open })
    }

    /// Sets the cookie in the response, and gives a method of gRPC its counter if it turns out to exist.
    #[cold]
    fn look_at_answer<B>(&mut self, response: &mut Response<B>) {
        let Some(extra) = &mut self.extra else { return };
        if let Some(cookie) = extra.cookie.take() {
            response.headers_mut().append(SET_COOKIE, cookie);
        }
        if let Some(NewCall { method, mut seen }) = extra.call.take_if(|_| is_served(response)) {
            seen.move_to(self.counting.recorder.counter(&method));
            self.seen = Ok(seen);
        }
    }

    /// Leaves its room to another request, where nearly every request needs it.
    #[cold]
    fn put_back(&mut self) {
        if self.counting.settings.labels.is_some() {
            self.extra.take().into_iter().for_each(|extra| self.counting.spare.put(extra));
        }
    }

    /// Counts the request, unless it is counted already.
    pub(crate) fn settle(&mut self, outcome: Outcome) {
        if std::mem::take(&mut self.open) {
            self.counting.settle(&self.seen, outcome, &mut self.extra);
        }
    }

    /// Completes when the response may go out.
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

#[cfg(feature = "body")]
impl OpenBody {
    /// Measures the body, which has ended now.
    pub(crate) fn end(self, trailers: Option<&HeaderMap>) {
        let Self { counting, seen, measuring, bytes, has_grpc, .. } = self;
        if let Some(measures) = counting.settings.measures {
            let bins = measures.body_ended(measuring, bytes, trailers.filter(|_| !has_grpc));
            let measured = Measured { hits: seen.hits(), bins: bins.as_slice() };
            counting.recorder.measure_at(measured, Timestamp::now());
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        // Nearly always it is counted already.
        if self.open {
            self.settle(Outcome::Aborted);
        }
        if self.extra.is_some() {
            self.put_back();
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
    /// Reads the facts of a request that is made at this instant or now, and puts into `extra` the cookie to set, the
    /// action to run when it has counted, and the values of labels.
    fn look(
        &self,
        head: &RequestHead<'_>,
        at: Option<Timestamp>,
        extra: &mut Option<Box<Extra>>,
    ) -> Result<Seen, Skip> {
        let page = self.page(head)?;
        let excludes_prefetch = self.settings.pages.as_ref().is_some_and(|pages| pages.exclude_prefetch());
        if excludes_prefetch && is_prefetch(head.headers) {
            return Err(Skip::Prefetch);
        }
        let user_agent = self.settings.user_agents.of(head.headers);
        let asked = self
            .settings
            .classify_agent
            .as_ref()
            .and_then(|classify| classify.ask(|classify| classify(head)));
        let agent = asked.unwrap_or(user_agent.agent);
        let told_apart =
            page.is_none_or(|page| page.visitors) && (agent != Agent::Bot || self.settings.bots_are_visitors);
        // A client that is not told apart is given no cookie either.
        let visitor = if told_apart {
            let mut cookie = None;
            let visitor = self.visitors.visitor(head, user_agent.digest, &mut cookie);
            if self.settings.setup.watches_visitors() {
                let (is_known, is_issued) = (visitor.is_some(), cookie.is_some());
                self.settings.setup.visitor(&self.recorder, &self.visitors, head, is_known, is_issued);
            }
            if cookie.is_some() {
                extra.get_or_insert_default().cookie = cookie;
            }
            visitor
        } else {
            None
        };
        let (visitor, until) = visitor.map_or((None, Timestamp::MAX), |(id, until)| (Some(id), until));
        if let Some(on_count) = &self.settings.on_count
            && let Some(then) = on_count.ask(|look| look(&Visit { head: *head, agent, visitor })).flatten()
        {
            extra.get_or_insert_default().then = Some(then);
        }
        let method = self.settings.facets.as_ref().map_or(0, |facets| facets.method_place(head.method));
        let (counter, weight) = page.map_or((self.hits, NonZeroU32::MIN), |page| (page.counter, page.weight));
        let all = self.hits.hit().visitor(visitor).weight(weight);
        let hits = [all, all.on(counter)];
        if let Some(labels) = &self.settings.labels {
            let noted = labels.note(head, agent, at.unwrap_or_else(Timestamp::now), weight);
            extra.get_or_insert_with(|| self.spare.take()).labels = noted;
        }
        Ok(Seen { hits, has_page: page.is_some(), agent, method, until })
    }

    fn page(&self, head: &RequestHead<'_>) -> Result<Option<Page>, Skip> {
        match &self.settings.pages {
            Some(pages) => self.by_rules(pages, head),
            None => {
                let page = self.of_route(head);
                self.watch_path(head, page.is_some());
                Ok(if page.is_some() { page } else { self.fallback(head).flatten() })
            }
        }
    }

    // Beside what is done without rules.
    #[inline(never)]
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
            // Whether it is unmatched shows when it is answered.
            None if self.counts_by_method(head) => Ok(None),
            page => page.map(Some).ok_or(Skip::Unmatched),
        }
    }

    /// Returns `true` for a call of gRPC that counts under its method, as other requests do under their route.
    #[inline(never)]
    fn counts_by_method(&self, head: &RequestHead<'_>) -> bool {
        let method = head.uri.path();
        let by_route = |pages: &Arc<Pages>| {
            matches!(pages.find(head.method, method, || Some(method)), Match::MatchedPath(_))
        };
        is_call(head.method, head.headers) && self.settings.pages.as_ref().is_none_or(by_route)
    }

    /// Returns `true` if neither rules nor the fallback have a counter for the request.
    fn is_unmatched(&self, head: &RequestHead<'_>) -> bool {
        let route = || self.matched_path(head);
        let by_rules =
            |pages: &Arc<Pages>| matches!(pages.find(head.method, head.uri.path(), route), Match::Unmatched);
        self.settings.pages.as_ref().is_some_and(by_rules) && self.fallback(head).is_none()
    }

    fn matched_path<'a>(&self, head: &RequestHead<'a>) -> Option<&'a str> {
        match &self.settings.matched_path {
            None => request::route(head.extensions).map(Route::as_str),
            Some(closure) => closure.ask(|matched_path| matched_path(head)).flatten(),
        }
    }

    #[inline]
    fn of_route(&self, head: &RequestHead<'_>) -> Option<Page> {
        match &self.settings.matched_path {
            None => self.route.counter(&self.recorder, request::route(head.extensions)?).map(Page::of),
            Some(_) => self.of_matched_path(head),
        }
    }

    // Beside what is done for a route of axum.
    #[inline(never)]
    fn of_matched_path(&self, head: &RequestHead<'_>) -> Option<Page> {
        let template = self.matched_path(head)?;
        (!is_private(template)).then(|| Page::of(self.of_template(template)))
    }

    fn of_template(&self, template: &str) -> Counter {
        if is_reserved(template) { self.reserved() } else { self.recorder.counter(template) }
    }

    /// Returns what the closure decides, if it does: a page, or none beside `hits`.
    #[inline]
    fn fallback(&self, head: &RequestHead<'_>) -> Option<Option<Page>> {
        self.ask_fallback(self.settings.fallback.as_ref()?, head)
    }

    #[inline(never)]
    fn ask_fallback(&self, fallback: &Fallback, head: &RequestHead<'_>) -> Option<Option<Page>> {
        let counter = fallback.ask(|fallback| fallback(head)).flatten()?;
        if counter == self.hits {
            return Some(None);
        }
        let is_mixed_up = self.recorder.name(counter).is_some_and(|name| is_reserved(&name));
        Some(Some(Page::of(if is_mixed_up { self.reserved() } else { counter })))
    }

    /// Returns the counter for what a closure put under a name that the layer keeps for itself.
    #[cold]
    fn reserved(&self) -> Counter {
        if !self.settings.told_reserved.swap(true, Ordering::Relaxed) {
            caught(|| {
                tracing::warn!(
                    "a closure named a counter that the layer feeds itself, such as `hits` or `status:2xx`: its \
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
            self.look_at_path(head, is_matched);
        }
    }

    #[inline(never)]
    fn look_at_path(&self, head: &RequestHead<'_>, is_matched: bool) {
        // A fallback may be the only source of pages, by intention, and calls of gRPC count under their methods.
        if is_matched || (self.settings.fallback.is_none() && !is_call(head.method, head.headers)) {
            self.settings.setup.path(&self.recorder, is_matched);
        }
    }

    fn settle(&self, seen: &Result<Seen, Skip>, outcome: Outcome, extra: &mut Option<Box<Extra>>) {
        if let Some(measures) = self.settings.measures {
            self.settle_measured(seen, outcome, measures.ended(outcome).as_slice(), extra);
            return;
        }
        self.settle_by(seen, outcome, extra, |hits, seen| {
            self.recorder.request_until(hits, seen.agent, seen.until);
        });
    }

    #[inline(never)]
    fn settle_measured(
        &self,
        seen: &Result<Seen, Skip>,
        outcome: Outcome,
        bins: &[Bin],
        extra: &mut Option<Box<Extra>>,
    ) -> bool {
        self.settle_by(seen, outcome, extra, |hits, seen| {
            self.recorder.request_measured(
                hits,
                seen.agent,
                seen.until,
                Measured { hits: seen.hits(), bins },
            );
        })
    }

    /// Returns whether the request counts.
    #[inline(always)]
    fn settle_by(
        &self,
        seen: &Result<Seen, Skip>,
        outcome: Outcome,
        extra: &mut Option<Box<Extra>>,
        record: impl FnOnce(&[Hit], &Seen),
    ) -> bool {
        let decided = seen.as_ref().map_err(|skip| *skip);
        let seen = match decided.and_then(|seen| self.wants(outcome).then_some(seen).ok_or(Skip::Outcome)) {
            Ok(seen) => seen,
            Err(skip) => {
                self.recorder.skip(skip);
                return false;
            }
        };
        let mut more;
        let hits = if self.settings.has_views() {
            more = [seen.hits[0]; MOST_HITS];
            let count = seen.hits_with(&self.settings, outcome, extra.as_deref(), &mut more);
            &more[..count]
        } else {
            seen.hits()
        };
        record(hits, seen);
        if let Delivery::BeforeResponse { timeout } = self.settings.delivery
            && outcome != Outcome::Aborted
        {
            self.confirm(hits, timeout, extra);
        }
        if let Some(extra) = extra
            && let Some(then) = extra.then.take()
        {
            then.counted(outcome);
        }
        true
    }

    /// Leaves out what the service of a layer does and a log does not.
    #[cfg(feature = "log")]
    pub(crate) fn of_a_log(mut self) -> Self {
        // What it does would be done once more whenever a log is read.
        self.settings.on_count = None;
        // What a log does not tell is no sign of how the layer is set up.
        self.settings.setup = Arc::new(Setup::over());
        self
    }

    /// Decides about a request without recording it: its hits are put into `hits`. Returns how many of them, from the
    /// first on, are those that are measured.
    ///
    /// A cookie that would be issued is one that the client never got, and so no visitor.
    #[cfg(feature = "log")]
    pub(crate) fn decide(
        &self,
        head: &RequestHead<'_>,
        at: Timestamp,
        outcome: Outcome,
        hits: &mut Vec<Hit>,
    ) -> Result<(Agent, usize), Skip> {
        let mut extra = None;
        let mut seen = self.look(head, Some(at), &mut extra)?;
        if extra.as_ref().is_some_and(|extra| extra.cookie.is_some()) {
            seen.hits = seen.hits.map(|hit| hit.visitor(None));
        }
        // What the answer to a call of gRPC was is not known, and so not whether there is a method that is new.
        if *head.method == Method::POST && self.counts_by_method(head) {
            match self.recorder.find_counter(head.uri.path()) {
                Some(known) => seen.move_to(known),
                None if self.is_unmatched(head) => return Err(Skip::Unmatched),
                None => {}
            }
        }
        let outcome = if self.settings.count_on_request { Outcome::Arrived } else { outcome };
        if !self.wants(outcome) {
            return Err(Skip::Outcome);
        }
        hits.clear();
        if self.settings.has_views() {
            let mut all = [seen.hits[0]; MOST_HITS];
            let count = seen.hits_with(&self.settings, outcome, extra.as_deref(), &mut all);
            hits.extend_from_slice(&all[..count]);
            extra.into_iter().for_each(|extra| self.spare.put(extra));
        } else {
            hits.extend_from_slice(seen.hits());
        }
        Ok((seen.agent, seen.hits().len()))
    }

    /// Returns the measures of a request of which a log tells how it ended.
    #[cfg(feature = "log")]
    pub(crate) fn logged(&self) -> Option<Measures> {
        self.settings.measures.filter(|_| !self.settings.count_on_request)
    }

    /// Returns whether visitors are told apart under the salt of an epoch.
    #[cfg(feature = "log")]
    pub(crate) const fn needs_key(&self) -> bool {
        self.settings.identity.rotates() && !matches!(self.visitors.reads(), Reads::Nothing)
    }

    /// Tells visitors apart by this key from now on.
    #[cfg(feature = "log")]
    pub(crate) fn use_key(&mut self, key: VisitorKey) {
        let identity = self.settings.identity.clone().key(key);
        self.visitors = identity.bind(&self.recorder).unwrap_or_default();
    }

    /// Without an answer of the closure it is as if there was none.
    fn wants(&self, outcome: Outcome) -> bool {
        let asked =
            self.settings.count_if.as_ref().and_then(|count_if| count_if.ask(|count_if| count_if(outcome)));
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
        f.debug_struct("Counting").field("facets", &self.settings.facets).finish_non_exhaustive()
    }
}
