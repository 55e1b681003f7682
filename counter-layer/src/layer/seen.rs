use std::num::NonZeroU32;

use counter_core::sketch::Register;
use counter_core::visits::Hit;
use counter_core::visits::{Agent, PageView};
use counter_core::{Counter, Timestamp};

use super::outcome::Outcome;
use super::settings::Settings;
use super::settings::facet::FACETS;
use crate::label::{LABELS, Noted};

/// The facts of a request that are known before it is answered.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    /// The counter of the page, if there is one beside that of everything.
    pub(super) page: Option<Counter>,
    /// The register that the visitor raises.
    pub(super) register: Option<Register>,
    pub(super) weight: NonZeroU32,
    pub(super) agent: Agent,
    /// The place of the method in its facet, where that is chosen.
    pub(super) method: u8,
    /// The end of the epoch in which the visitor was told apart: the request has to be counted by then.
    pub(super) until: Timestamp,
}

/// The counters of facets and labels that a request has at most.
pub(super) const MOST_OTHERS: usize = FACETS + LABELS;

impl Seen {
    /// Returns what counts of the request under the counter of everything, and on its page.
    #[inline]
    pub(super) const fn view(&self, everything: Counter) -> PageView<'static> {
        let hit = everything.hit().register(self.register).weight(self.weight);
        PageView { page: self.page, until: self.until, ..PageView::new(hit, self.agent) }
    }

    /// Returns the hits of everything and of the page, and how many of them there are.
    pub(super) fn hits(&self, everything: Counter) -> ([Hit; 2], usize) {
        let hit = self.view(everything).hit;
        (self.page.map_or([hit; 2], |page| [hit, hit.on(page)]), 1 + usize::from(self.page.is_some()))
    }

    /// Moves the hit of the page to this counter.
    pub(super) const fn move_to(&mut self, counter: Counter) {
        self.page = Some(counter);
    }

    /// Puts the counters of the facets and the labels into a place, and returns them.
    #[inline(never)]
    pub(super) fn others<'a>(
        &self,
        settings: &Settings,
        outcome: Outcome,
        noted: Option<&Noted>,
        place: &'a mut [Counter],
    ) -> &'a [Counter] {
        let mut count = 0;
        let mut push = |counter: Counter| {
            place[count] = counter;
            count += 1;
        };
        if let Some(facets) = &settings.facets {
            facets.counters(outcome, self.method, self.agent, &mut push);
        }
        if let (Some(labels), Some(noted)) = (&settings.labels, noted) {
            labels.counters(noted).for_each(push);
        }
        &place[..count]
    }
}
