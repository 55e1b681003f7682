//! A flush to memory: folding the hits and cutting them into batches.

use std::pin::pin;
use std::task::{Context, Waker};

use counter_core::visitor::VisitorKey;
use counter_core::{Counters, MemoryStore};
use divan::Bencher;

#[divan::bench(args = [100, 1_000, 10_000])]
fn flush_to_memory(bencher: Bencher<'_, '_>, count: usize) {
    let mut counters =
        Counters::builder(MemoryStore::new()).max_counters(count).build().expect("the defaults are fine");
    let recorder = counters.recorder();
    let pages: Vec<_> = (0..count).map(|n| recorder.counter(&format!("/page/{n}"))).collect();
    let (key, mut turn) = (VisitorKey::new([7; 16]), 0_u32);
    bencher
        .with_inputs(|| {
            turn += 1;
            let visitor = key.visitor(&[&turn.to_le_bytes()]);
            pages.iter().for_each(|page| recorder.record(*page, visitor));
        })
        .bench_local_values(|()| {
            let mut flush = pin!(counters.flush());
            assert!(flush.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready());
        });
}
