//! Counts the requests of a stripe by outcome.

use super::Stripe;
use crate::visits::ledger::{Agent, Ignored, Requests, Skip};

/// The outcome of a request, used as an index into the request counts of a stripe.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Visitor,
    Unidentified,
    Bot,
    Excluded,
    Unmatched,
    Outcome,
    Prefetch,
    Own,
    Unconfirmed,
}

pub(super) const REQUEST_KINDS: usize = Kind::Unconfirmed as usize + 1;

impl Stripe {
    #[inline]
    pub(crate) fn record_request(&self, agent: Agent, has_visitor: bool) {
        self.count(match (agent, has_visitor) {
            (Agent::Bot, _) => Kind::Bot,
            (Agent::Human | Agent::Unknown, true) => Kind::Visitor,
            (Agent::Human | Agent::Unknown, false) => Kind::Unidentified,
        });
    }

    pub(crate) fn skip_request(&self, skip: Skip) {
        self.count(match skip {
            Skip::Excluded => Kind::Excluded,
            Skip::Unmatched => Kind::Unmatched,
            Skip::Outcome => Kind::Outcome,
            Skip::Prefetch => Kind::Prefetch,
            Skip::Own => Kind::Own,
        });
    }

    pub(crate) fn unconfirmed(&self) {
        self.count(Kind::Unconfirmed);
    }

    #[inline]
    fn count(&self, kind: Kind) {
        self.requests[kind as usize].add(1);
    }

    /// Returns the requests of this thread.
    pub(crate) fn requests(&self) -> Requests {
        let of = |kind: Kind| self.requests[kind as usize].get();
        let (bots, unidentified) = (of(Kind::Bot), of(Kind::Unidentified));
        let recorded = of(Kind::Visitor) + unidentified + bots;
        let (excluded, unmatched) = (of(Kind::Excluded), of(Kind::Unmatched));
        let ignored =
            Ignored { outcome: of(Kind::Outcome), prefetch: of(Kind::Prefetch), own: of(Kind::Own) };
        Requests {
            observed: recorded + excluded + unmatched + ignored.total(),
            recorded,
            excluded,
            unmatched,
            ignored,
            bots,
            unidentified,
            unconfirmed: of(Kind::Unconfirmed),
        }
    }
}
