use std::sync::OnceLock;

use counter_core::{Counter, Recorder};

use crate::request::{Route, is_private};

/// The first route requested from a service, and its counter. A router creates a service per route, so this
/// is usually the only route.
#[derive(Debug, Default)]
pub(crate) struct KnownRoute(OnceLock<(Route, Counter)>);

impl KnownRoute {
    /// Returns the counter if this is the cached route. This compares pointers, which is safe because the
    /// cached text is still allocated.
    #[inline]
    pub(crate) fn known(&self, route: &Route) -> Option<Counter> {
        let (known, counter) = self.0.get()?;
        std::ptr::eq(known.as_str(), route.as_str()).then_some(*counter)
    }

    /// Returns the counter of a route by name, unless this is an axum fallback. For nested services the text
    /// is allocated per request, so the pointer never matches.
    #[cold]
    pub(crate) fn by_name(&self, recorder: &Recorder, route: &Route) -> Option<Counter> {
        let name = route.as_str();
        if is_private(name) {
            return None;
        }
        let counter = recorder.counter(name);
        self.0.get_or_init(|| (route.clone(), counter));
        Some(counter)
    }
}
