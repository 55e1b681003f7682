use std::num::NonZeroU32;
use std::sync::Arc;

use counter_core::{Counter, Recorder};
use http::Method;

use crate::recent::Recent;
use crate::rules::{Match, Rules};

/// A counter for a request, in addition to `hits`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Page {
    pub(crate) counter: Counter,
    pub(crate) weight: NonZeroU32,
    pub(crate) visitors: bool,
}

/// Rules and their counters. We resolve counters in advance, because a lookup by name takes as long as
/// counting a hit.
#[derive(Clone, Debug)]
pub(crate) struct Pages {
    rules: Arc<Rules>,
    /// Cached decisions for recent paths, since most requests are for the same few paths.
    recent: Arc<Recent>,
    /// The pages of the rules, by pattern number.
    included: Box<[Page]>,
    default: Option<Page>,
}

/// Maximum length of a cached path in bytes. Longer paths take too long to hash.
const MAX_CACHED_PATH_BYTES: usize = 256;

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
        Self { rules, recent: Arc::default(), included, default }
    }

    pub(crate) fn exclude_prefetch(&self) -> bool {
        self.rules.excludes_prefetch()
    }

    /// Matches a request. Only calls `route` if the route template can affect the result.
    #[inline]
    pub(crate) fn find<'a>(
        &self,
        method: &Method,
        path: &str,
        route: impl FnOnce() -> Option<&'a str>,
    ) -> Match<'a> {
        let lookup = || self.rules.by_path(method, path);
        let by_path = if path.len() > MAX_CACHED_PATH_BYTES {
            lookup()
        } else {
            let table = self.rules.table_of(method);
            Match::from_number(self.recent.number(path.as_bytes(), table, || Match::number(lookup())))
        };
        by_path.unwrap_or_else(|| self.rules.by_default(route))
    }

    /// Returns the page for this pattern number.
    pub(crate) fn included(&self, number: usize) -> Page {
        self.included[number]
    }

    /// Returns the page for requests without a match.
    pub(crate) const fn default_page(&self) -> Option<Page> {
        self.default
    }
}

#[cfg(test)]
mod tests {
    use counter_core::{Counters, MemoryStore};

    use super::*;
    use crate::Rule;

    #[test]
    fn cached_paths_are_decided_by_method() {
        let rules = Rules::builder()
            .rule(Rule::counter("pages").pattern("/pages/{id}").method(Method::GET))
            .rule(Rule::counter("posts").pattern("/pages/{id}").method(Method::POST))
            .rule(Rule::counter("all").pattern("/files/*"))
            .exclude("/files/secret")
            .build()
            .expect("rules");
        let recorder =
            Counters::builder(MemoryStore::new()).build().expect("the defaults are fine").recorder();
        let pages = Pages::new(Arc::new(rules.clone()), &recorder);
        let long = format!("/files/{}", "a".repeat(MAX_CACHED_PATH_BYTES));
        let paths = ["/pages/1", "/pages/2;x", "/files/secret", "/files/a", "/", "*", &long];
        for _ in 0..2 {
            for path in paths {
                for method in [Method::GET, Method::HEAD, Method::POST, Method::PUT] {
                    let found = pages.find(&method, path, || None);
                    let decided = rules.by_path(&method, path).unwrap_or(Match::Unmatched);
                    assert_eq!(format!("{found:?}"), format!("{decided:?}"), "{method} {path}");
                }
            }
        }
    }
}
