//! Hits, from the stripe of a thread to the folding thread.

use std::collections::BTreeMap;

use loom::thread::spawn;

use super::{buckets, take};
use crate::sync::Arc;
use crate::sync::atomic::{AtomicU32, Ordering};
use crate::visits::tally::stripe::Stripe;

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
        let thread = {
            let stripe = Arc::clone(&stripe);
            spawn(move || {
                stripe.switch_to(buckets(1), 3);
                stripe.set_everything(2);
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
