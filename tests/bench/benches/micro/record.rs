//! Recording a hit for a known counter and visitor.

use std::num::NonZeroU32;
use std::sync::atomic::{AtomicUsize, Ordering};

use counter_core::visitor::VisitorKey;
use counter_core::visits::{Agent, PageHit};
use counter_core::{Counter, Counters, MemoryStore, Recorder, VisitorId};
use divan::{Bencher, black_box};

const COUNTERS: [usize; 2] = [100, 10_000];

/// Creates a recorder and `count` counters in shuffled order, so that adjacent hits don't touch adjacent
/// memory.
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
    // We measure 1,000 hits per iteration, because reading the clock takes longer than a hit.
    bencher.counter(divan::counter::ItemsCount::new(1000_usize)).bench(|| {
        let first = threads.fetch_add(1, Ordering::Relaxed) * 1000;
        (first..first + 1000).for_each(record);
    });
}

#[divan::bench(args = COUNTERS, threads = [1, 2])]
fn without_visitor(bencher: Bencher<'_, '_>, count: usize) {
    bench(bencher, count, &[]);
}

#[divan::bench(args = COUNTERS, threads = [1, 2])]
fn with_visitor(bencher: Bencher<'_, '_>, count: usize) {
    bench(bencher, count, &visitors());
}

/// A page view with a value of this number of labels, which share a lock.
#[divan::bench(args = [0, 2], threads = [1, 2])]
fn with_labels(bencher: Bencher<'_, '_>, labels: usize) {
    let (recorder, counters) = counters(2);
    let values = ["referrer", "language"][..labels].iter().map(|name| {
        let values = recorder.label_values(name).expect("a good name");
        values.note(Some("de"), NonZeroU32::MIN)
    });
    let values: Vec<_> = values.collect();
    let view =
        PageHit { page: Some(counters[1]), labels: &values, ..PageHit::new(counters[0].hit(), Agent::Human) };
    bencher
        .counter(divan::counter::ItemsCount::new(1000_usize))
        .bench(|| (0..1000).for_each(|_| recorder.page_hit(black_box(view))));
}
