//! Visitors, from the ring of a thread to shared ranks.

use loom::thread::spawn;

use crate::sketch::Register;
use crate::sync::Arc;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::time::Timestamp;
use crate::visits::tally::visitors::{Busy, Ring};

const HIGH: Register = Register { index: 0, rank: 9 };

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
