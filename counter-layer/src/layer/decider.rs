use counter_core::Recorder;
use counter_core::visitor::VisitorKey;
use counter_core::visits::{Agent, Hit, Measured, Skip};
use http::{Method, Request, StatusCode};

use super::counting::Counting;
use super::layer::AccessCounterLayer;
use super::measures::Bins;
use super::outcome::Outcome;
use super::settings::facet::FACETS;
use crate::classify::asks_for_first_part;
use crate::identity::{Reads, RequestHead};
use crate::request::logged::Logged;

/// Classifies requests served by another server like the layer would, but does not record anything.
#[derive(Debug)]
pub struct Decider {
    counting: Counting,
    hits: Vec<Hit>,
    bins: Bins,
}

/// A request to be counted.
#[derive(Clone, Copy, Debug)]
pub struct Counted<'a> {
    /// All hits of the request.
    pub hits: &'a [Hit],
    /// The kind of client.
    pub agent: Agent,
    /// The distribution bins, and the hits to add them to.
    pub measured: Measured<'a>,
}

impl Decider {
    /// Creates a decider with the layer settings.
    #[must_use]
    pub fn new(layer: &AccessCounterLayer) -> Self {
        Self { counting: layer.counting().without_side_effects(), hits: Vec::new(), bins: Bins::none() }
    }

    /// Returns the recorder of the layer.
    #[must_use]
    pub const fn recorder(&self) -> &Recorder {
        &self.counting.recorder
    }

    /// Returns `true` if visitors are identified with the salt of an epoch.
    #[must_use]
    pub const fn needs_key(&self) -> bool {
        self.counting.settings.identity.rotates() && !matches!(self.counting.visitors.reads(), Reads::None)
    }

    /// Sets the key to identify visitors from now on.
    pub fn use_key(&mut self, key: VisitorKey) {
        let identity = self.counting.settings.identity.clone().key(key);
        self.counting.visitors = identity.bind(&self.counting.recorder).unwrap_or_default();
    }

    /// Classifies a request.
    ///
    /// # Errors
    /// Returns the reason if the request does not count.
    pub fn decide(
        &mut self,
        request: &Request<()>,
        logged: &Logged<'_>,
        outcome: Outcome,
    ) -> Result<Counted<'_>, Skip> {
        let Self { counting, hits, bins } = self;
        let head = RequestHead::of(request);
        let mut extra = None;
        let mut seen = counting.inspect(&head, Some(logged), &mut extra)?;
        // A cookie issued now would never reach the client, so it must not identify a visitor.
        if extra.as_ref().is_some_and(|extra| extra.cookie.is_some()) {
            seen.register = None;
        }
        // Logs don't include the gRPC status, so we don't know whether a new method exists.
        if *head.method == Method::POST && counting.counts_by_method(&head) {
            match counting.recorder.find_counter(head.uri.path()) {
                Some(known) => seen.move_to(known),
                None if counting.is_unmatched(&head) => return Err(Skip::Unmatched),
                None => {}
            }
        }
        let settings = &counting.settings;
        let outcome = if settings.count_on_request { Outcome::Unknown } else { outcome };
        counting.check(outcome, extra.as_deref())?;
        hits.clear();
        let (page_hits, count) = seen.hits(counting.hits);
        hits.extend_from_slice(&page_hits[..count]);
        let hit = page_hits[0].register(None);
        let is_partial = outcome == Outcome::Responded(StatusCode::PARTIAL_CONTENT);
        seen.asks_for_view &= !is_partial || asks_for_first_part(head.headers);
        if seen.is_view(outcome) {
            let views = page_hits[..count].iter().map(|of| hit.on(counting.recorder.views(of.counter())));
            hits.extend(views);
        }
        let mut others = [counting.hits; FACETS];
        let others = seen.others(settings, outcome, &mut others);
        hits.extend(others.iter().map(|counter| hit.on(*counter)));
        counting.note_late(&seen, Some(logged), outcome, extra.as_deref_mut());
        if let (Some(labels), Some(extra)) = (&settings.labels, extra.as_deref()) {
            let counters = labels.counters_with_page(&extra.labels, seen.page, logged.at, seen.weight);
            // A label may count people.
            hits.extend(counters.map(|counter| page_hits[0].on(counter)));
        }
        counting.pool.recycle(&mut extra);
        let measures = settings.measures.filter(|_| !settings.count_on_request);
        *bins = measures.map_or_else(Bins::none, |measures| measures.logged(head.method, logged, outcome));
        let measured = Measured { hits: &hits[..count], bins: bins.as_slice() };
        Ok(Counted { hits, agent: seen.agent, measured })
    }
}
