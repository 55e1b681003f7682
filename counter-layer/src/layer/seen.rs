use std::num::NonZeroU32;

use counter_core::sketch::Register;
use counter_core::visits::Hit;
use counter_core::visits::{Agent, PageHit};
use counter_core::{Counter, Timestamp};

use super::outcome::Outcome;
use super::settings::Settings;

/// Classification of a request, before the response is known.
#[derive(Clone, Copy, Debug)]
pub(super) struct Classified {
    /// The page counter, in addition to `hits`.
    pub(super) page: Option<Counter>,
    /// The register raised by the visitor.
    pub(super) register: Option<Register>,
    pub(super) weight: NonZeroU32,
    pub(super) agent: Agent,
    /// Index of the method counter, if this facet is enabled.
    pub(super) method: u8,
    /// True if this is a view if the response shows the page.
    pub(super) asks_for_view: bool,
    /// End of the epoch in which the visitor was identified. The request must be counted before this.
    pub(super) until: Timestamp,
}

impl Classified {
    /// Returns the page hit to be recorded, with `everything` as the counter of all requests.
    #[inline]
    pub(super) const fn page_hit(&self, everything: Counter) -> PageHit<'static> {
        let hit = everything.hit().register(self.register).weight(self.weight);
        PageHit { page: self.page, until: self.until, ..PageHit::new(hit, self.agent) }
    }

    /// Returns `true` if a person saw the page.
    #[inline]
    pub(super) fn is_view(&self, outcome: Outcome) -> bool {
        self.asks_for_view && outcome.shows_page()
    }

    /// Returns the hits for all requests and for the page, and the number of hits.
    pub(super) fn hits(&self, everything: Counter) -> ([Hit; 2], usize) {
        let hit = self.page_hit(everything).hit;
        (self.page.map_or([hit; 2], |page| [hit, hit.on(page)]), 1 + usize::from(self.page.is_some()))
    }

    /// Moves the page hit to this counter.
    pub(super) const fn move_to(&mut self, counter: Counter) {
        self.page = Some(counter);
    }

    /// Writes the facet counters into `buffer`, and returns them.
    #[inline(never)]
    pub(super) fn others<'a>(
        &self,
        settings: &Settings,
        outcome: Outcome,
        buffer: &'a mut [Counter],
    ) -> &'a [Counter] {
        let mut count = 0;
        if let Some(facets) = &settings.facets {
            facets.counters(outcome, self.method, self.agent, |counter: Counter| {
                buffer[count] = counter;
                count += 1;
            });
        }
        &buffer[..count]
    }
}
