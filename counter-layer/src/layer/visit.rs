use std::fmt;

use counter_core::VisitorId;
use counter_core::visits::Agent;

use super::outcome::Outcome;
use crate::closure::{Closure, caught};
use crate::identity::RequestHead;

/// A request that is to count, as it arrives, for the closure of [`AccessCounterLayer::on_count`].
///
/// [`AccessCounterLayer::on_count`]: crate::AccessCounterLayer::on_count
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Visit<'a> {
    /// The request without its body.
    pub head: RequestHead<'a>,
    /// The kind of client.
    pub agent: Agent,
    /// The visitor, if it is told apart: as a rule not for a bot, and under the salt of the day.
    pub visitor: Option<VisitorId>,
}

/// A closure that looks at each visit and may return an action.
pub(crate) type OnCount = Closure<dyn Fn(&Visit<'_>) -> Option<Then> + Send + Sync>;

/// An action that runs when a request has counted; `None` once it has run.
pub(crate) struct Then(Option<Box<dyn FnOnce(Outcome) + Send>>);

impl Then {
    pub(crate) fn new(then: impl FnOnce(Outcome) + Send + 'static) -> Self {
        Self(Some(Box::new(then)))
    }

    pub(crate) fn counted(mut self, outcome: Outcome) {
        // The panic hook has said what happened.
        if let Some(then) = self.0.take() {
            caught(|| then(outcome));
        }
    }
}

impl Drop for Then {
    fn drop(&mut self) {
        // A request that does not count may be one whose handler panics, and what the closure holds may panic
        // as well.
        if let Some(then) = self.0.take() {
            caught(|| drop(then));
        }
    }
}

impl fmt::Debug for Then {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Then")
    }
}
