use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use counter_core::{Agent, VisitorId};

use crate::{Outcome, RequestHead};

/// A request that is to count, as it arrives: what [`AccessCounterLayer::on_counted`] is told.
///
/// [`AccessCounterLayer::on_counted`]: crate::AccessCounterLayer::on_counted
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Visit<'a> {
    /// All of the request but its body.
    pub head: RequestHead<'a>,
    /// Who makes it.
    pub agent: Agent,
    /// Who visits, if that is told apart: as a rule not of a bot, and by the salt of the day.
    pub visitor: Option<VisitorId>,
}

/// What looks at each visit, and says what is to be done once it has counted.
pub(crate) type OnCounted = dyn Fn(&Visit<'_>) -> Option<Then> + Send + Sync;

/// What is to be done when a request has counted.
pub(crate) struct Then(Box<dyn FnOnce(Outcome) + Send>);

/// A panic of the user's closures is theirs and not the request's: what they were to do is left undone.
pub(crate) fn on_counted<F: FnOnce(Outcome) + Send + 'static>(
    look: impl Fn(&Visit<'_>) -> Option<F> + Send + Sync + 'static,
) -> impl Fn(&Visit<'_>) -> Option<Then> + Send + Sync + 'static {
    move |visit| {
        let then = catch_unwind(AssertUnwindSafe(|| look(visit))).ok().flatten()?;
        Some(Then(Box::new(then)))
    }
}

impl Then {
    pub(crate) fn counted(self, outcome: Outcome) {
        // The panic hook has said what happened.
        drop(catch_unwind(AssertUnwindSafe(|| (self.0)(outcome))));
    }
}

impl fmt::Debug for Then {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Then")
    }
}
