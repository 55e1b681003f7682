#[cfg(feature = "body")]
pub(super) mod open_body;

use std::sync::Arc;
use std::task::{Context, Poll, ready};

use counter_core::visits::Skip;
use http::header::SET_COOKIE;
use http::{HeaderMap, Method, Request, Response, StatusCode};

use super::counting::Counting;
use super::extra::{Confirmation, Extra, NewCall};
use super::measures::{Bins, Measuring};
use super::outcome::Outcome;
use super::seen::Classified;
use crate::classify::{is_first_part, is_served};
use crate::identity::RequestHead;

/// A request in progress. It is counted exactly once: when the outcome is known, or when this is dropped.
#[derive(Debug)]
pub(crate) struct Guard {
    counting: Arc<Counting>,
    seen: Result<Classified, Skip>,
    /// True if the request still needs to be counted.
    open: bool,
    /// Start of the request, if it is measured.
    measuring: Option<Measuring>,
    /// The cookie, action and labels of the request. Boxed, since most requests don't need them and would be
    /// more expensive to move.
    extra: Option<Box<Extra>>,
}

/// Detects a panic of the watched code when dropped. A closure would be simpler, but we would have to move
/// large requests and responses through it.
#[must_use = "dropping it without `end` counts as a panic"]
pub(crate) struct Watch<'a>(&'a mut Guard);

impl Guard {
    /// Classifies the request while it is still available.
    pub(crate) fn of<B>(counting: &Arc<Counting>, request: &Request<B>) -> Self {
        let measuring = counting.settings.measures.as_ref().map(|measures| measures.start(request.method()));
        let mut extra = None;
        let seen = counting.inspect(&RequestHead::of(request), None, &mut extra);
        Self { counting: Arc::clone(counting), seen, open: true, measuring, extra }
    }

    /// Moves a gRPC call to the counter of the method, or remembers a new method.
    #[inline]
    pub(crate) fn call<B>(&mut self, request: &Request<B>) {
        // As a pattern, this only compares a single byte.
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

    /// Counts the request now, if it should be counted on arrival.
    #[inline]
    pub(crate) fn received(&mut self) {
        if self.counting.settings.count_on_request {
            self.finish(Outcome::Unknown);
        }
    }

    /// Watches a part of the inner service until [`Watch::end`]. If this part panics, the outcome is a panic.
    ///
    /// We can't check for a panic when the guard is dropped: the future may be dropped after the panic was
    /// caught, or because of an unrelated panic.
    pub(crate) const fn watch(&mut self) -> Watch<'_> {
        Watch(self)
    }

    /// Counts the request with the response.
    #[inline]
    pub(crate) fn responded<B>(&mut self, response: &mut Response<B>) {
        if let Some(extra) = &self.extra
            && extra.has_response_part()
        {
            self.handle_response(response);
        }
        if response.status() == StatusCode::PARTIAL_CONTENT {
            self.partial(response.headers());
        }
        match self.measuring {
            None => self.finish(Outcome::Responded(response.status())),
            Some(measuring) => self.measured(measuring, response.status(), response.headers()),
        }
    }

    // Not inlined, since most layers don't measure.
    #[inline(never)]
    fn measured(&mut self, measuring: Measuring, status: StatusCode, headers: &HeaderMap) {
        let mut is_counted = false;
        if let Some(measures) = &self.counting.settings.measures
            && std::mem::take(&mut self.open)
        {
            let mut bins = Bins::none();
            measures.responded(measuring, status, headers, &mut bins);
            let outcome = Outcome::Responded(status);
            is_counted = self.counting.finish_measured(&self.seen, outcome, bins.as_slice(), &mut self.extra);
        }
        if !is_counted {
            self.measuring = None;
        }
    }

    /// Notes that this response is not a view if it continues a download.
    #[cold]
    fn partial(&mut self, headers: &HeaderMap) {
        if let Ok(seen) = &mut self.seen {
            seen.asks_for_view &= is_first_part(headers);
        }
    }

    /// Sets the cookie in the response, and registers a new gRPC method if the response proves that it
    /// exists.
    #[cold]
    fn handle_response<B>(&mut self, response: &mut Response<B>) {
        let Some(extra) = &mut self.extra else { return };
        if let Some(cookie) = extra.cookie.take() {
            response.headers_mut().append(SET_COOKIE, cookie);
        }
        if let Some(NewCall { method, mut seen }) = extra.call.take_if(|_| is_served(response)) {
            seen.move_to(self.counting.recorder.counter(&method));
            self.seen = Ok(seen);
        }
    }

    /// Counts the request, unless it is already counted.
    pub(crate) fn finish(&mut self, outcome: Outcome) {
        if std::mem::take(&mut self.open) {
            self.counting.finish(&self.seen, outcome, &mut self.extra);
        }
    }

    /// Completes when the response can be sent, i.e. when the hits are stored or the delivery timeout has
    /// passed.
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
    #[inline]
    fn drop(&mut self) {
        // Usually the request is already counted.
        if self.open {
            self.finish(Outcome::Aborted);
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
        self.0.finish(Outcome::Panicked);
    }
}
