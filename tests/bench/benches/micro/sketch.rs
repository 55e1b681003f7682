//! HyperLogLog operations, which run outside the request path.

use counter_core::VisitorId;
use counter_core::sketch::Sketch;
use counter_core::visitor::VisitorKey;
use divan::{Bencher, black_box};

const VISITORS: [u32; 3] = [100, 1_000, 100_000];

fn visitors(count: u32) -> Vec<VisitorId> {
    let key = VisitorKey::new([7; 16]);
    (0..count).map(|n| key.visitor(&[&n.to_le_bytes()])).collect()
}

fn sketch_of(count: u32) -> Sketch {
    let mut sketch = Sketch::new();
    for visitor in visitors(count) {
        sketch.insert(visitor);
    }
    sketch
}

#[divan::bench(args = VISITORS)]
fn insert(bencher: Bencher<'_, '_>, count: u32) {
    let (mut sketch, visitors) = (sketch_of(count), visitors(count));
    let mut turn = visitors.iter().cycle();
    bencher.bench_local(|| turn.next().map(|visitor| sketch.insert(black_box(*visitor))));
}

#[divan::bench(args = VISITORS)]
fn merge(bencher: Bencher<'_, '_>, count: u32) {
    let (one, other) = (sketch_of(100_000), sketch_of(count));
    bencher.with_inputs(|| one.clone()).bench_local_refs(|one| one.merge(black_box(&other)));
}

#[divan::bench(args = VISITORS)]
fn estimate(bencher: Bencher<'_, '_>, count: u32) {
    let sketch = sketch_of(count);
    bencher.bench_local(|| black_box(&sketch).estimate());
}

#[divan::bench(args = VISITORS)]
fn encode(bencher: Bencher<'_, '_>, count: u32) {
    let sketch = sketch_of(count);
    bencher.bench_local(|| black_box(&sketch).to_redis());
}
