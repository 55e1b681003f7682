use std::sync::OnceLock;

use counter_core::{Counter, Recorder};

use crate::request::{Route, is_private};

/// The first route that a service was asked for, and its counter. A router makes a service of each of its
/// routes, so that nearly always it is the only one.
#[derive(Debug, Default)]
pub(crate) struct KnownRoute(OnceLock<(Route, Counter)>);

impl KnownRoute {
    /// The counter of a route, unless that is a fallback of axum: found by where its text lies if it is the known
    /// one, since nothing else can lie there while that is kept here. A nested service has its text written anew for
    /// each request, and is found by name.
    pub(crate) fn counter(&self, recorder: &Recorder, route: &Route) -> Option<Counter> {
        let name = route.as_str();
        match self.0.get() {
            Some((known, counter)) if std::ptr::eq(known.as_str(), name) => Some(*counter),
            _ => self.by_name(recorder, route),
        }
    }

    #[cold]
    fn by_name(&self, recorder: &Recorder, route: &Route) -> Option<Counter> {
        let name = route.as_str();
        if is_private(name) {
            return None;
        }
        let counter = recorder.counter(name);
        self.0.get_or_init(|| (route.clone(), counter));
        Some(counter)
    }
}
