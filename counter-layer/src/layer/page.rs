use std::num::NonZeroU32;
use std::sync::Arc;

use counter_core::{Counter, Recorder};
use http::Method;

use crate::Rules;
use crate::rules::Match;

/// A counter that a request feeds besides `hits`.
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
    /// The pages by the numbers of their patterns.
    included: Box<[Page]>,
    default: Option<Page>,
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

    /// Matches a request; the template of its route is asked for where it may decide.
    #[inline]
    pub(crate) fn find<'a>(
        &self,
        method: &Method,
        path: &str,
        route: impl FnOnce() -> Option<&'a str>,
    ) -> Match<'a> {
        self.rules.find(method, path, route)
    }

    /// Returns the page of the pattern with this number.
    pub(crate) fn included(&self, number: usize) -> Page {
        self.included[number]
    }

    /// Returns the page of requests that nothing else matches.
    pub(crate) const fn default_page(&self) -> Option<Page> {
        self.default
    }
}
