//! A hit on its way into memory: the counter is known, and so is the visitor.

use std::sync::atomic::{AtomicUsize, Ordering};

use counter_core::visitor::VisitorKey;
use counter_core::{Counter, Counters, MemoryStore, Recorder, VisitorId};
use divan::{Bencher, black_box};

const COUNTERS: [usize; 2] = [100, 10_000];

/// A recorder with so many counters, in an order in which no request follows its neighbour.
fn counters(count: usize) -> (Recorder, Vec<Counter>) {
    let builder = Counters::builder(MemoryStore::new()).max_counters(count);
    let recorder = builder.build().expect("the defaults are fine").recorder();
    let named = (0..count).map(|n| recorder.counter(&format!("/page/{}", n * 7919 % count))).collect();
    (recorder, named)
}

fn visitors() -> Vec<VisitorId> {
    let key = VisitorKey::new([7; 16]);
    (0_u32..1024).map(|n| key.visitor(&[&n.to_le_bytes()])).collect()
}

fn bench(bencher: Bencher<'_, '_>, count: usize, visitors: &[VisitorId]) {
    let (recorder, counters) = counters(count);
    let record = |n: usize| {
        let visitor = visitors.get(n % visitors.len().max(1)).copied();
        recorder.record(black_box(counters[n % count]), black_box(visitor));
    };
    (0..count).for_each(record);
    let threads = AtomicUsize::new(0);
    // A thousand to a turn: the clock takes longer than a hit.
    bencher.counter(divan::counter::ItemsCount::new(1000_usize)).bench(|| {
        let first = threads.fetch_add(1, Ordering::Relaxed) * 1000;
        (first..first + 1000).for_each(record);
    });
}

#[divan::bench(args = COUNTERS, threads = [1, 2])]
fn of_nobody(bencher: Bencher<'_, '_>, count: usize) {
    bench(bencher, count, &[]);
}

#[divan::bench(args = COUNTERS, threads = [1, 2])]
fn of_a_visitor(bencher: Bencher<'_, '_>, count: usize) {
    bench(bencher, count, &visitors());
}
