use std::sync::OnceLock;

use counter_core::{Counter, Recorder};

use crate::request::{Route, is_private};

/// The first route that a service was asked for, and its counter. A router makes a service of each of its
/// routes, so that nearly always it is the only one.
#[derive(Debug, Default)]
pub(crate) struct KnownRoute(OnceLock<(Route, Counter)>);

impl KnownRoute {
    /// The counter of a route if it is this one: found by where its text lies, since nothing else can lie there while
    /// that is kept here.
    #[inline]
    pub(crate) fn known(&self, route: &Route) -> Option<Counter> {
        let (known, counter) = self.0.get()?;
        std::ptr::eq(known.as_str(), route.as_str()).then_some(*counter)
    }

    /// The counter of a route by its name, unless that is a fallback of axum. A nested service has its text written
    /// anew for each request, so that it is never the known one.
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
