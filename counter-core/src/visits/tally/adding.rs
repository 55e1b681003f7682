//! Hits of requests, as they are added to the stripe of their thread.

use std::sync::TryLockError;

use super::{Backlog, Tally};
use crate::Timestamp;
use crate::sketch::Register;
use crate::visits::bin_table::Together;
use crate::visits::registry::OTHER;
use crate::visits::stripe::{Buckets, Stripe};
use crate::visits::{Agent, Bin, Hit, Measured};

impl Tally {
    /// Adds hits of one instant, and a request if there is an agent; returns `true` when it is time to
    /// [`fold`](Self::fold).
    #[inline]
    pub(crate) fn add(&self, hits: &[Hit], at: Timestamp, agent: Option<Agent>) -> bool {
        match self.stripes.own() {
            Some(stripe) => self.add_to(stripe, hits, at, agent),
            None => self.add_first(hits, at, agent),
        }
    }

    #[cold]
    fn add_first(&self, hits: &[Hit], at: Timestamp, agent: Option<Agent>) -> bool {
        self.stripes.with(|stripe| self.add_to(stripe, hits, at, agent))
    }

    #[inline]
    fn add_to(&self, stripe: &Stripe, hits: &[Hit], at: Timestamp, agent: Option<Agent>) -> bool {
        if let Some(agent) = agent {
            stripe.record_request(agent, hits.first().is_some_and(|hit| hit.register.is_some()));
        }
        let mut is_full = false;
        if !stripe.is_at(at) {
            match self.turn(stripe, at) {
                Some(full) => is_full = full,
                None => return self.list(stripe, hits, at),
            }
        }
        for hit in hits {
            let number = self.number(hit.counter);
            let weight = u64::from(hit.weight.get());
            if number == OTHER
                && let Some(full) =
                    self.count_label(hit.counter.tally, hit.counter.number, weight, stripe.start())
            {
                is_full |= full;
                continue;
            }
            stripe.add(number, weight);
            if let Some(register) = hit.register
                && self.recent.add(number, stripe.visitors_number(), register)
            {
                self.push(stripe, number, stripe.visitors_start(), register);
            }
        }
        is_full
    }

    /// Turns a stripe to the buckets of an instant, if they are those of now: it is only worth it for hits that are not alone.
    /// Returns then whether it is time to [`fold`](Self::fold).
    #[cold]
    fn turn(&self, stripe: &Stripe, at: Timestamp) -> Option<bool> {
        let (buckets, now) = (self.buckets(at), self.buckets(Timestamp::now()));
        (buckets.start == now.start).then(|| stripe.turn(buckets, self.registry.counters()))
    }

    /// Adds hits of any instant; returns whether it is time to [`fold`](Self::fold).
    #[cold]
    fn list(&self, stripe: &Stripe, hits: &[Hit], at: Timestamp) -> bool {
        let Buckets { start, visitors, .. } = self.buckets(at);
        let mut is_full = false;
        for hit in hits {
            let (number, weight) = (self.number(hit.counter), u64::from(hit.weight.get()));
            let label = (number == OTHER)
                .then(|| self.count_label(hit.counter.tally, hit.counter.number, weight, start));
            if let Some(full) = label.flatten() {
                is_full |= full;
                continue;
            }
            is_full |= stripe.list(number, start, weight);
            if let Some(register) = hit.register {
                self.push(stripe, number, visitors, register);
            }
        }
        is_full
    }

    /// Adds a visitor of a hit.
    #[inline(never)]
    fn push(&self, stripe: &Stripe, number: u32, bucket: Timestamp, register: Register) {
        if !stripe.visitors.push(number, bucket, register) {
            self.drain_into(&mut self.backlog(), stripe, Timestamp::now());
            stripe.visitors.push(number, bucket, register);
        } else if stripe.visitors.has_many() {
            self.drain(stripe);
        }
    }

    /// Takes the visitors of a stripe that has many, unless the backlog is in use: then there is still room for as many.
    #[cold]
    fn drain(&self, stripe: &Stripe) {
        match self.backlog.try_lock() {
            Ok(mut backlog) => self.drain_into(&mut backlog, stripe, Timestamp::now()),
            Err(TryLockError::WouldBlock) => {}
            Err(TryLockError::Poisoned(_)) => unreachable!("nothing panics under this lock"),
        }
    }

    pub(super) fn drain_into(&self, backlog: &mut Backlog, stripe: &Stripe, now: Timestamp) {
        let current = self.grid.visitors.base().bucket(now).start;
        if std::mem::replace(&mut backlog.current, current) != current {
            // The numbers of buckets come again, some day.
            self.recent.forget(|_| true);
            self.collect(backlog);
            backlog.open.close(current, &self.recent.busy);
        }
        stripe.visitors.drain(|bucket, visits| {
            if bucket >= current && !backlog.open.has(bucket) {
                self.collect(backlog);
                backlog.open.open(bucket, &self.recent.busy);
            }
            if !backlog.open.raise(bucket, visits, &self.recent.busy) {
                for visit in visits {
                    let waiting = backlog.waiting(visit.counter(), &self.registry);
                    let raised = [visit.register()];
                    waiting.each(|pending| pending.raise_all(visit.counter(), bucket, &raised, &self.grid));
                }
            }
        });
    }

    /// Takes the registers that rose into what waits.
    pub(super) fn collect(&self, backlog: &mut Backlog) {
        let mut open = std::mem::take(&mut backlog.open);
        open.collect(|number, bucket, raised| {
            let waiting = backlog.waiting(number, &self.registry);
            waiting.each(|pending| pending.raise_all(number, bucket, raised, &self.grid));
        });
        backlog.open = open;
    }

    /// Counts hits of a label, in the bucket that begins at `start`; returns whether it is time to
    /// [`fold`](Self::fold), or `None` for any other counter.
    // By numbers: a hit that something refers to would have to be in memory.
    #[cold]
    fn count_label(&self, tally: u32, number: u32, weight: u64, start: Timestamp) -> Option<bool> {
        let (label, noted) = self.labels.find(tally, number)?;
        Some(label.count(noted, weight, start))
    }

    /// Does what [`add`](Self::add) does for a request, and adds to bins of distributions.
    pub(crate) fn add_measured(
        &self,
        hits: &[Hit],
        at: Timestamp,
        agent: Agent,
        measured: Measured<'_>,
    ) -> bool {
        self.stripes
            .with(|stripe| self.add_to(stripe, hits, at, Some(agent)) | self.measure_to(stripe, at, measured))
    }

    /// Adds to bins of distributions alone; returns `true` when it is time to [`fold`](Self::fold).
    pub(crate) fn measure(&self, at: Timestamp, measured: Measured<'_>) -> bool {
        self.stripes.with(|stripe| self.measure_to(stripe, at, measured))
    }

    #[inline]
    fn measure_to(&self, stripe: &Stripe, at: Timestamp, Measured { hits, bins }: Measured<'_>) -> bool {
        let Some(set) = &self.grid.distributions else { return false };
        let number = |hit: &Hit| self.number(hit.counter);
        let mut rest = stripe.rest();
        let start = rest.measured_start(at, set);
        let mut add = |hits: &[Hit], bins: &[Bin]| {
            if let (Some(hit), Some(bin)) = (hits.first(), bins.first()) {
                let counters = (number(hit), hits.get(1).map(number));
                rest.bins.add(Together::new(counters, (*bin, bins.get(1).copied())), start);
            }
        };
        if hits.len() <= 2 && bins.len() <= 2 {
            add(hits, bins);
        } else {
            hits.chunks(2).for_each(|hits| bins.chunks(2).for_each(|bins| add(hits, bins)));
        }
        rest.bins.is_full()
    }

    fn buckets(&self, at: Timestamp) -> Buckets {
        let of_visitors = self.grid.visitors.base();
        let visitors = of_visitors.bucket(at).start;
        let visitors_number = visitors.as_unix() / u64::from(of_visitors.as_seconds());
        Buckets { at, start: self.grid.counts.base().bucket(at).start, visitors, visitors_number }
    }
}
