use std::num::NonZeroU32;
use std::sync::Arc;

use counter_core::{Counter, Recorder};
use http::Method;

use crate::Rules;
use crate::rules::Found;

/// Where a request counts besides `hits`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Page {
    pub(crate) counter: Counter,
    pub(crate) weight: NonZeroU32,
    pub(crate) visitors: bool,
}

/// Rules, and the counters that a recorder has for what they name: found once, since to find one by its
/// name takes as long as counting a hit.
#[derive(Clone, Debug)]
pub(crate) struct Pages {
    rules: Arc<Rules>,
    /// By the number of the pattern.
    included: Box<[Page]>,
    default: Option<Page>,
}

/// What rules say of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Verdict {
    Excluded,
    Unmatched,
    /// It counts on the page of its route.
    Route,
    Counts(Page),
}

impl Page {
    pub(crate) const fn of(counter: Counter) -> Self {
        Self { counter, weight: NonZeroU32::MIN, visitors: true }
    }
}

impl Pages {
    pub(crate) fn new(rules: Arc<Rules>, recorder: &Recorder) -> Self {
        let page = |(name, weight, visitors)| Page { counter: recorder.counter(name), weight, visitors };
        let included = rules.included().map(page).collect();
        let default = rules.default_counter().map(|name| Page::of(recorder.counter(name)));
        Self { rules, included, default }
    }

    pub(crate) fn exclude_prefetch(&self) -> bool {
        self.rules.excludes_prefetch()
    }

    /// What the rules say of a request; the template of its route is asked for where it may decide.
    pub(crate) fn decide<'a>(
        &self,
        method: &Method,
        path: &str,
        route: impl FnOnce() -> Option<&'a str>,
    ) -> Verdict {
        match self.rules.find(method, path, route) {
            Found::Excluded(_) => Verdict::Excluded,
            Found::Included(number) => Verdict::Counts(self.included[number]),
            Found::MatchedPath(_) => Verdict::Route,
            Found::Otherwise => self.default.map_or(Verdict::Unmatched, Verdict::Counts),
            Found::Unmatched | Found::PathTooLong(_) => Verdict::Unmatched,
        }
    }
}
