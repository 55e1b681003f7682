use counter_core::visits::{Agent, Hit};
use counter_core::{Counter, Timestamp};

use super::facet::FACETS;
use super::settings::Settings;
use crate::Outcome;
use crate::label::{LABELS, Noted};

/// The facts of a request that are known before it is answered.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    /// The hit of everything and that of the page; the second has a meaning only with `has_page`.
    pub(super) hits: [Hit; OWN_HITS],
    pub(super) has_page: bool,
    pub(super) agent: Agent,
    /// The place of the method in its facet, where that is chosen.
    pub(super) method: u8,
    /// The end of the epoch in which the visitor was told apart: the request has to be counted by then.
    pub(super) until: Timestamp,
}

/// Hits of a request beside those of its facets and labels: under `hits`, and on its page.
const OWN_HITS: usize = 2;

/// All hits of a request at most, without those of labels.
pub(super) const WITH_FACETS: usize = OWN_HITS + FACETS;

/// All hits of a request at most.
pub(super) const MOST_HITS: usize = WITH_FACETS + LABELS;
impl Seen {
    pub(super) fn hits(&self) -> &[Hit] {
        &self.hits[..if self.has_page { OWN_HITS } else { 1 }]
    }

    /// Moves the hit of the page to this counter.
    pub(super) fn move_to(&mut self, counter: Counter) {
        self.hits[1] = self.hits[0].on(counter);
        self.has_page = true;
    }

    /// Puts the hits with those of the facets and the labels into a place, and returns them.
    #[inline(never)]
    pub(super) fn hits_with<'a>(
        &self,
        settings: &Settings,
        outcome: Outcome,
        noted: Option<&Noted>,
        place: &'a mut [Hit],
    ) -> &'a [Hit] {
        let mut count = self.hits().len();
        place[..OWN_HITS].copy_from_slice(&self.hits);
        let of_nobody = self.hits[0].visitor(None);
        let mut push = |counter: Counter| {
            place[count] = of_nobody.on(counter);
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
