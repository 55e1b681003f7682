use std::fmt;

use counter_core::VisitorId;
use counter_core::visits::Agent;

use super::outcome::Outcome;
use crate::closure::{Closure, catch_panic};
use crate::identity::RequestHead;

/// A request to be counted, as passed to the closure of [`AccessCounterLayer::on_count`].
///
/// [`AccessCounterLayer::on_count`]: crate::AccessCounterLayer::on_count
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Visit<'a> {
    /// The request without its body.
    pub head: RequestHead<'a>,
    /// The kind of client.
    pub agent: Agent,
    /// The visitor, if identified. By default bots are not identified, and the id is hashed with the daily
    /// salt.
    pub visitor: Option<VisitorId>,
}

/// A closure that is called for a visit and can return an action.
pub(crate) type OnCount = Closure<dyn Fn(&Visit<'_>) -> Option<CountAction> + Send + Sync>;

/// An action to run when a request is counted; `None` after it ran.
pub(crate) struct CountAction(Option<Box<dyn FnOnce(Outcome) + Send>>);

impl CountAction {
    pub(crate) fn new(then: impl FnOnce(Outcome) + Send + 'static) -> Self {
        Self(Some(Box::new(then)))
    }

    pub(crate) fn counted(mut self, outcome: Outcome) {
        // The panic hook has already been called.
        if let Some(then) = self.0.take() {
            catch_panic(|| then(outcome));
        }
    }
}

impl Drop for CountAction {
    fn drop(&mut self) {
        // The request may not count because the handler is panicking, and dropping the captured values could
        // panic again.
        if let Some(then) = self.0.take() {
            catch_panic(|| drop(then));
        }
    }
}

impl fmt::Debug for CountAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Then")
    }
}
