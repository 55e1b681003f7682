use std::num::NonZeroU32;

use counter_core::sketch::Register;
use counter_core::visits::{Agent, Hit};
use counter_core::{Counter, Timestamp};

use super::facet::FACETS;
use super::settings::Settings;
use crate::Outcome;
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

/// Hits of a request beside those of its facets and labels: under `hits`, and on its page.
pub(super) const OWN_HITS: usize = 2;

/// All hits of a request at most, without those of labels.
pub(super) const WITH_FACETS: usize = OWN_HITS + FACETS;

/// All hits of a request at most.
pub(super) const MOST_HITS: usize = WITH_FACETS + LABELS;

impl Seen {
    /// Returns the hit on the counter of everything.
    #[inline]
    pub(super) const fn hit(&self, everything: Counter) -> Hit {
        everything.hit().register(self.register).weight(self.weight)
    }

    /// Moves the hit of the page to this counter.
    pub(super) const fn move_to(&mut self, counter: Counter) {
        self.page = Some(counter);
    }

    /// Returns the number of hits without those of facets and labels.
    pub(super) const fn own(&self) -> usize {
        if self.page.is_some() { OWN_HITS } else { 1 }
    }

    /// Puts the hits on the counter of everything and on that of the page into a place, and returns them.
    pub(super) fn hits<'a>(&self, everything: Counter, place: &'a mut [Hit; OWN_HITS]) -> &'a [Hit] {
        let hit = self.hit(everything);
        *place = [hit, self.page.map_or(hit, |page| hit.on(page))];
        &place[..self.own()]
    }

    /// Puts the hits with those of the facets and the labels into a place, and returns them.
    #[inline(never)]
    pub(super) fn hits_with<'a>(
        &self,
        everything: Counter,
        settings: &Settings,
        outcome: Outcome,
        noted: Option<&Noted>,
        place: &'a mut [Hit],
    ) -> &'a [Hit] {
        let mut count = 0;
        let hit = self.hit(everything);
        let mut push = |hit: Hit| {
            place[count] = hit;
            count += 1;
        };
        push(hit);
        self.page.into_iter().for_each(|page| push(hit.on(page)));
        let mut push = |counter: Counter| push(hit.register(None).on(counter));
        if let Some(facets) = &settings.facets {
            facets.counters(outcome, self.method, self.agent, &mut push);
        }
        if let (Some(labels), Some(noted)) = (&settings.labels, noted) {
            labels.counters(noted).for_each(push);
        }
        &place[..count]
    }
}
