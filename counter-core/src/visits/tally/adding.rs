//! Adding hits of requests to the stripe of the current thread.

use std::num::NonZeroU32;

use super::Tally;
use super::bins::BinKey;
use super::label::NotedValue;
use super::page_hit::PageHit;
use super::presence::Minute;
use super::registry::{Counter, Hit, Measured, OTHER, PAGE_FLAG};
use super::stripe::{Buckets, Stripe};
use crate::sketch::Register;
use crate::time::Timestamp;
use crate::visits::distribution::Bin;
use crate::visits::ledger::Agent;
use crate::visits::pending::VIEW_FLAG;

impl Tally {
    /// Returns the number of counters that can still be added.
    pub(crate) fn free_counters(&self) -> usize {
        self.registry.free()
    }

    /// Adds hits at an instant, and a request if there is an agent. Returns `true` if the caller should
    /// [`fold`](Self::fold).
    #[inline]
    pub(crate) fn add(&self, hits: &[Hit], at: Timestamp, agent: Option<Agent>) -> bool {
        match self.stripes.local() {
            Some(stripe) => self.add_to(stripe, hits, at, agent),
            None => self.add_in_new_stripe(hits, at, agent),
        }
    }

    /// Adds a page hit at an instant. Returns `true` if the caller should [`fold`](Self::fold).
    #[inline(always)]
    pub(crate) fn page_hit(&self, page_hit: PageHit<'_>, at: Timestamp) -> bool {
        match self.stripes.local() {
            Some(stripe) => self.page_hit_to(stripe, page_hit, at),
            None => self.page_hit_in_new_stripe(page_hit, at),
        }
    }

    #[cold]
    fn page_hit_in_new_stripe(&self, page_hit: PageHit<'_>, at: Timestamp) -> bool {
        self.stripes.with(|stripe| self.page_hit_to(stripe, page_hit, at))
    }

    #[inline(always)]
    fn page_hit_to(&self, stripe: &Stripe, page_hit: PageHit<'_>, at: Timestamp) -> bool {
        let PageHit { hit, page, others, labels, bins, agent, is_view, .. } = page_hit;
        let is_simple = page.is_some() && others.is_empty() && bins.is_empty();
        let has_people = !labels.is_empty() && self.labels.have_people();
        if is_simple && !has_people && self.add_page_hit(stripe, hit, page, at, agent) {
            if is_view && let Some(page) = page {
                stripe.add_page_views(page.number, hit.weight.get().into());
            }
            return !labels.is_empty() && self.add_labels(stripe.start(), hit.weight, page, labels);
        }
        self.page_hit_slow(stripe, page_hit, at)
    }

    /// Adds a page hit via the fast path. Returns `false` if the page hit needs the slow path.
    #[inline(always)]
    fn add_page_hit(
        &self,
        stripe: &Stripe,
        hit: Hit,
        page: Option<Counter>,
        at: Timestamp,
        agent: Agent,
    ) -> bool {
        let (counter, weight) = (hit.counter, hit.weight.get().into());
        if !stripe.is_at(at) || !self.is_plain(counter) {
            return false;
        }
        let number = match page {
            None => {
                stripe.add(counter.number, weight);
                counter.number
            }
            Some(page) if stripe.is_everything(counter.number) && self.is_plain(page) => {
                stripe.add_page(page.number, weight);
                page.number | PAGE_FLAG
            }
            Some(_) => return false,
        };
        stripe.record_request(agent, hit.register.is_some());
        if let Some(register) = hit.register {
            self.visit(stripe, number, register);
        }
        true
    }

    /// Returns `true` if this is a counter of this tally, but not `(other)`, a label counter, or a counter of views.
    #[inline]
    fn is_plain(&self, counter: Counter) -> bool {
        self.owns(counter) && counter.number != OTHER
    }

    // The slow path.
    #[inline(never)]
    fn page_hit_slow(&self, stripe: &Stripe, page_hit: PageHit<'_>, at: Timestamp) -> bool {
        let PageHit { hit, page, others, labels, bins, agent, is_view, .. } = page_hit;
        let mut is_full = !stripe.is_at(at) && self.switch_to(stripe, at).unwrap_or_default();
        if !self.add_page_hit(stripe, hit, page, at, agent) {
            is_full |= self.add_separately(stripe, hit, page, at, agent);
        }
        if is_view {
            is_full |= self.add_view(stripe, hit, page, at);
        }
        is_full |= self.add_others(stripe, hit.weight, others, at);
        if !labels.is_empty() {
            let start = if stripe.is_at(at) { stripe.start() } else { self.buckets(at).start };
            is_full |= if self.labels.have_people() {
                self.add_labels_with_person(start, hit, page, labels, at)
            } else {
                self.add_labels(start, hit.weight, page, labels)
            };
        }
        is_full |= self.measure_to(stripe, at, (hit.counter, page), bins);
        is_full
    }

    /// Adds weighted hits to counters, without a visitor.
    fn add_others(&self, stripe: &Stripe, weight: NonZeroU32, others: &[Counter], at: Timestamp) -> bool {
        let mut is_full = false;
        for counter in others {
            // A reference to a hit would force it into memory.
            if stripe.is_at(at) && self.is_plain(*counter) {
                stripe.add(counter.number, weight.get().into());
            } else {
                is_full |= self.add_other(stripe, weight, *counter, at);
            }
        }
        is_full
    }

    /// Adds weighted hits to label values, and to their pairs with a page, in the bucket with this start.
    #[inline(never)]
    fn add_labels(
        &self,
        start: Timestamp,
        weight: NonZeroU32,
        page: Option<Counter>,
        labels: &[NotedValue],
    ) -> bool {
        let page = page.and_then(|page| self.page(page));
        self.labels.count_with_page(page, labels, weight.get().into(), start)
    }

    /// Adds weighted hits to label values like [`add_labels`](Self::add_labels), with the person.
    #[cold]
    fn add_labels_with_person(
        &self,
        start: Timestamp,
        hit: Hit,
        page: Option<Counter>,
        labels: &[NotedValue],
        at: Timestamp,
    ) -> bool {
        let Some(register) = hit.register else { return self.add_labels(start, hit.weight, page, labels) };
        let page = page.and_then(|page| self.page(page));
        self.labels.count_with_person(page, labels, (hit.weight.get().into(), start), (register, at))
    }

    #[cold]
    fn add_other(&self, stripe: &Stripe, weight: NonZeroU32, counter: Counter, at: Timestamp) -> bool {
        self.add_to(stripe, &[counter.hit().weight(weight)], at, None)
    }

    #[cold]
    fn add_separately(
        &self,
        stripe: &Stripe,
        hit: Hit,
        page: Option<Counter>,
        at: Timestamp,
        agent: Agent,
    ) -> bool {
        let number = self.number(hit.counter);
        if page.is_some()
            && number != OTHER
            && !stripe.is_everything(number)
            && *self.everything.get_or_init(|| number) == number
        {
            stripe.set_everything(number);
        }
        let local = [hit, page.map_or(hit, |page| hit.on(page))];
        self.add_to(stripe, &local[..1 + usize::from(page.is_some())], at, Some(agent))
    }

    /// Adds the view of a page hit, which may have needed the slow path.
    #[inline(never)]
    fn add_view(&self, stripe: &Stripe, hit: Hit, page: Option<Counter>, at: Timestamp) -> bool {
        let weight = hit.weight.get().into();
        match page {
            _ if !stripe.is_at(at) || !self.is_plain(hit.counter) => {}
            None => {
                stripe.add_views(hit.counter.number, weight);
                return false;
            }
            Some(page) if stripe.is_everything(hit.counter.number) && self.is_plain(page) => {
                stripe.add_page_views(page.number, weight);
                return false;
            }
            Some(_) => {}
        }
        let views = |counter| self.views(counter).hit().weight(hit.weight);
        let both = [views(hit.counter), views(page.unwrap_or(hit.counter))];
        self.add_to(stripe, &both[..1 + usize::from(page.is_some())], at, None)
    }

    #[cold]
    fn add_in_new_stripe(&self, hits: &[Hit], at: Timestamp, agent: Option<Agent>) -> bool {
        self.stripes.with(|stripe| self.add_to(stripe, hits, at, agent))
    }

    #[inline]
    fn add_to(&self, stripe: &Stripe, hits: &[Hit], at: Timestamp, agent: Option<Agent>) -> bool {
        if let Some(agent) = agent {
            stripe.record_request(agent, hits.first().is_some_and(|hit| hit.register.is_some()));
        }
        let mut is_full = false;
        if !stripe.is_at(at) {
            match self.switch_to(stripe, at) {
                Some(full) => is_full = full,
                None => return self.list(stripe, hits, at),
            }
        }
        for hit in hits {
            let number = self.number(hit.counter);
            let weight = u64::from(hit.weight.get());
            if number == OTHER
                && let Some(full) =
                    self.count_label(hit.counter, (weight, stripe.start()), hit.register, stripe.at())
            {
                is_full |= full;
                continue;
            }
            if number == OTHER
                && let Some(of) = self.viewed(hit.counter)
            {
                stripe.add_views(of.number, weight);
                continue;
            }
            stripe.add(number, weight);
            if let Some(register) = hit.register {
                self.visit(stripe, number, register);
            }
        }
        is_full
    }

    /// Adds the visitor of a hit in the current bucket, unless the visitor was counted in this minute.
    #[inline(always)]
    fn visit(&self, stripe: &Stripe, number: u32, register: Register) {
        if !self.recent.is_known(number, stripe.stamp(), register) {
            self.visit_again(stripe, number, register);
        }
    }

    /// Adds a visitor who is here now, and who may be new in the current bucket.
    #[inline(never)]
    fn visit_again(&self, stripe: &Stripe, number: u32, register: Register) {
        self.presence.see(stripe.minute(), register);
        let bucket = (stripe.stamp(), stripe.visitors_number());
        if self.recent.add([number, stripe.everything()], bucket, register) {
            self.push(stripe, number, stripe.visitors_start(), register);
        }
    }

    /// Switches a stripe to the buckets of an instant if these are the current buckets, and returns whether
    /// the caller should [`fold`](Self::fold). For a single hit in a different bucket, switching would not
    /// pay off.
    #[cold]
    fn switch_to(&self, stripe: &Stripe, at: Timestamp) -> Option<bool> {
        let now = Timestamp::now();
        let buckets = self.buckets(at);
        if buckets.start != self.buckets(now).start {
            return None;
        }
        // A bucket can be much longer than a minute.
        let minute = if buckets.minute == Minute::of(now) { buckets.minute } else { Minute::NONE };
        Some(stripe.switch_to(Buckets { minute, ..buckets }, self.registry.counters()))
    }

    /// Adds hits at any instant. Returns `true` if the caller should [`fold`](Self::fold).
    #[cold]
    fn list(&self, stripe: &Stripe, hits: &[Hit], at: Timestamp) -> bool {
        let Buckets { start, visitors, .. } = self.buckets(at);
        let mut is_full = false;
        for hit in hits {
            let (number, weight) = (self.number(hit.counter), u64::from(hit.weight.get()));
            let label =
                (number == OTHER).then(|| self.count_label(hit.counter, (weight, start), hit.register, at));
            if let Some(full) = label.flatten() {
                is_full |= full;
                continue;
            }
            if let Some(of) = self.viewed(hit.counter) {
                is_full |= stripe.list(of.number | VIEW_FLAG, start, weight);
                continue;
            }
            is_full |= stripe.list(number, start, weight);
            if let Some(register) = hit.register {
                self.presence.see_at(at, register);
                self.push(stripe, number, visitors, register);
            }
        }
        is_full
    }

    /// Adds the visitor of a hit to the ring of the stripe, and drains the ring if needed.
    #[inline(never)]
    fn push(&self, stripe: &Stripe, number: u32, bucket: Timestamp, register: Register) {
        if !stripe.visitors.push(number, bucket, register) {
            self.drain_into(&mut self.backlog.lock(), stripe, Timestamp::now());
            stripe.visitors.push(number, bucket, register);
        } else if stripe.visitors.should_drain() {
            self.drain(stripe);
        }
    }

    /// Drains a stripe with a lot of visitors. If the backlog is in use, this can be done later because the
    /// ring is only half full.
    #[cold]
    fn drain(&self, stripe: &Stripe) {
        if let Some(mut backlog) = self.backlog.try_lock() {
            self.drain_into(&mut backlog, stripe, Timestamp::now());
        }
    }

    /// Counts hits of a label, in the bucket with this start. Returns `true` if the caller should
    /// [`fold`](Self::fold), or `None` if this is not a label counter.
    // Takes a counter, because a reference to a hit would force it into memory.
    #[cold]
    fn count_label(
        &self,
        counter: Counter,
        hits: (u64, Timestamp),
        register: Option<Register>,
        at: Timestamp,
    ) -> Option<bool> {
        let (label, noted) = self.labels.find(counter.tally, counter.number)?;
        Some(label.count(noted, hits, register.map(|register| (register, at))))
    }

    /// Adds only to bins of distributions. Returns `true` if the caller should [`fold`](Self::fold).
    pub(crate) fn measure(&self, at: Timestamp, Measured { hits, bins }: Measured<'_>) -> bool {
        let counters = |hits: &[Hit]| Some((hits.first()?.counter, hits.get(1).map(Hit::counter)));
        self.stripes.with(|stripe| {
            let counters = hits.chunks(2).filter_map(counters);
            counters.fold(false, |is_full, counters| is_full | self.measure_to(stripe, at, counters, bins))
        })
    }

    /// Adds bins to the distributions of a counter, and of a page if there is one.
    #[inline]
    fn measure_to(
        &self,
        stripe: &Stripe,
        at: Timestamp,
        (counter, page): (Counter, Option<Counter>),
        bins: &[Bin],
    ) -> bool {
        let counters = (self.number(counter), page.map(|page| self.number(page)));
        let mut is_full = false;
        for bins in bins.chunks(2) {
            let of = BinKey::new(counters, (bins[0], bins.get(1).copied()));
            is_full |= !stripe.bins.add(of, at) && self.add_new_bins(stripe, of, at);
        }
        is_full
    }

    #[cold]
    fn add_new_bins(&self, stripe: &Stripe, of: BinKey, at: Timestamp) -> bool {
        self.grid.distributions.as_ref().is_some_and(|set| stripe.add_bins(of, at, Timestamp::now(), set))
    }

    fn buckets(&self, at: Timestamp) -> Buckets {
        let visitors = self.grid.visitors.base().bucket(at).start;
        let visitors_number = self.recent.busy.number(visitors);
        let (start, minute) = (self.grid.counts.base().bucket(at).start, Minute::of(at));
        Buckets { at, start, visitors, visitors_number, minute }
    }
}
