//! Models of the lock-free code. loom runs each with all interleavings and all results that the memory model allows.
//!
//! The models run the code of the crate, with smaller tables. `tests/tools/models` runs them, and then changes a line at a time
//! to check that a model fails.

use std::collections::BTreeMap;

use loom::thread::spawn;

use super::stripe::{Buckets, ClosedCell, Stripe};
use super::visitors::{Busy, Ring};
use crate::family::shard::{Shard, Shards};
use crate::sketch::Register;
use crate::sync::Arc;
use crate::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use crate::time::Timestamp;
use crate::visits::in_flight::InFlight;
use crate::visits::pending::GroupCommit;

fn buckets(second: u64) -> Buckets {
    let at = Timestamp::from_unix(second);
    Buckets { at, start: at, visitors: at, visitors_number: second }
}

fn take(stripe: &Stripe, counters: impl FnOnce() -> u32) -> Vec<(u32, u64, u64)> {
    let mut cells = Vec::new();
    stripe.take(&mut cells, counters);
    cells.into_iter().map(|ClosedCell { counter, start, count }| (counter, start.as_unix(), count)).collect()
}

#[test]
fn each_hit_is_taken_once_in_its_bucket() {
    loom::model(|| {
        let (stripe, counters) = (Arc::new(Stripe::new(3)), Arc::new(AtomicU32::new(1)));
        let thread = {
            let (stripe, counters) = (Arc::clone(&stripe), Arc::clone(&counters));
            spawn(move || {
                stripe.switch_to(buckets(1), 1);
                stripe.add(0, 1);
                // In the crate, a lock registers a new counter.
                counters.store(2, Ordering::SeqCst);
                stripe.add(1, 1);
                stripe.switch_to(buckets(2), 2);
                stripe.add(1, 1);
                stripe.switch_to(buckets(3), 2);
                stripe.add(0, 1);
            })
        };
        let mut cells = take(&stripe, || counters.load(Ordering::SeqCst));
        let hits = stripe.hits(2);
        assert!(hits.pending <= hits.recorded);
        cells.extend(take(&stripe, || counters.load(Ordering::SeqCst)));
        thread.join().expect("no panic");
        cells.extend(take(&stripe, || 2));
        let mut sums = BTreeMap::new();
        for (counter, start, count) in cells {
            *sums.entry((counter, start)).or_insert(0) += count;
        }
        assert_eq!(Vec::from_iter(sums), [((0, 1), 1), ((0, 3), 1), ((1, 1), 1), ((1, 2), 1)]);
        assert_eq!((stripe.hits(2).recorded, stripe.hits(2).pending), (4, 0));
    });
}

#[test]
fn a_page_hit_also_counts_once_for_the_total() {
    loom::model(|| {
        let stripe = Arc::new(Stripe::new(3));
        stripe.set_everything(2);
        let thread = {
            let stripe = Arc::clone(&stripe);
            spawn(move || {
                stripe.switch_to(buckets(1), 3);
                stripe.add_page(1, 1);
                stripe.switch_to(buckets(2), 3);
                stripe.add_page(1, 1);
            })
        };
        let mut cells = take(&stripe, || 3);
        thread.join().expect("no panic");
        cells.extend(take(&stripe, || 3));
        cells.sort_unstable();
        assert_eq!(cells, [(1, 1, 1), (1, 2, 1), (2, 1, 1), (2, 2, 1)]);
    });
}

/// Either the flush takes the hit, or the ticket is for a later flush.
#[test]
fn a_ticket_waits_for_the_flush_that_takes_the_hit() {
    loom::model(|| {
        let (stripe, commits) = (Arc::new(Stripe::new(1)), Arc::new(GroupCommit::new(Shards::ONE)));
        stripe.switch_to(buckets(1), 1);
        let thread = {
            let (stripe, commits) = (Arc::clone(&stripe), Arc::clone(&commits));
            spawn(move || {
                stripe.add(0, 1);
                commits.ticket([Shard::default()])
            })
        };
        let flush = commits.begin(Shard::default());
        let has_hit = !take(&stripe, || 1).is_empty();
        commits.end(Shard::default(), flush);
        let ticket = thread.join().expect("no panic");
        assert!(has_hit || !ticket.is_done(), "the ticket is for flush {flush}, which does not have the hit");
    });
}

#[test]
fn a_ring_keeps_all_visitors_in_order() {
    loom::model(|| {
        let ring = Arc::new(Ring::default());
        let thread = {
            let ring = Arc::clone(&ring);
            spawn(move || {
                let push = |n: u16| {
                    let bucket = Timestamp::from_unix(u64::from(n / 2));
                    ring.push(0, bucket, Register { index: n, rank: 1 })
                };
                (0..4).take_while(|n| push(*n)).count()
            })
        };
        let mut visits = Vec::new();
        let mut drain = || {
            ring.drain(|bucket, some| {
                visits.extend(some.iter().map(|visit| (bucket.as_unix(), visit.register().index)));
            });
        };
        drain();
        drain();
        let pushed = thread.join().expect("no panic");
        drain();
        let expected: Vec<_> = (0..4).take(pushed).map(|n: u16| (u64::from(n / 2), n)).collect();
        assert_eq!(visits, expected);
    });
}

const HIGH: Register = Register { index: 0, rank: 9 };

#[test]
fn a_rank_is_not_seen_by_an_earlier_owner() {
    loom::model(|| {
        let busy = Arc::new(Busy::new(1));
        busy.take(0, Timestamp::from_unix(1)).expect("the slot is free");
        let thread = {
            let busy = Arc::clone(&busy);
            spawn(move || assert_ne!(busy.has(0, 1, HIGH), Some(true)))
        };
        busy.release(|_, _| true);
        let ranks = busy.take(0, Timestamp::from_unix(2)).expect("the slot is free");
        ranks.collect(ranks.raise(HIGH), |register| assert_eq!(register, HIGH));
        thread.join().expect("no panic");
    });
}

#[test]
fn a_rank_is_not_seen_by_a_later_owner() {
    loom::model(|| {
        let busy = Arc::new(Busy::new(1));
        busy.take(0, Timestamp::from_unix(1)).expect("the slot is free").raise(HIGH);
        let thread = {
            let busy = Arc::clone(&busy);
            spawn(move || assert_ne!(busy.has(0, 2, HIGH), Some(true)))
        };
        busy.release(|_, _| true);
        busy.take(0, Timestamp::from_unix(2)).expect("the slot is free");
        thread.join().expect("no panic");
    });
}

/// A counter that was forgotten may use the same slot again.
#[test]
fn a_rank_is_not_seen_after_its_counter_was_forgotten() {
    loom::model(|| {
        let (busy, forgotten) = (Arc::new(Busy::new(1)), Arc::new(AtomicU64::new(0)));
        busy.take(0, Timestamp::from_unix(1)).expect("the slot is free").raise(HIGH);
        let thread = {
            let (busy, forgotten) = (Arc::clone(&busy), Arc::clone(&forgotten));
            spawn(move || {
                let is_after = forgotten.load(Ordering::Acquire) == 1;
                let is_known = busy.has(0, 1, HIGH) == Some(true);
                assert!(!(is_after && is_known));
            })
        };
        busy.release(|_, _| true);
        busy.take(0, Timestamp::from_unix(1)).expect("the slot is free");
        forgotten.store(1, Ordering::Release);
        thread.join().expect("no panic");
    });
}

#[test]
fn the_maximum_of_requests_in_flight_includes_concurrent_requests() {
    loom::model(|| {
        let gauge = Arc::new(InFlight::default());
        let thread = {
            let gauge = Arc::clone(&gauge);
            spawn(move || gauge.enter())
        };
        let requests = (gauge.enter(), thread.join().expect("no panic"));
        assert_eq!((gauge.current(), gauge.max()), (2, 2));
        drop(requests);
        assert_eq!(gauge.current(), 0);
    });
}
