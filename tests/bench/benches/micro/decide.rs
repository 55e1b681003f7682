//! From the parts of a request to a visitor and a counter.

use bench::work::{Work, hundred_rules};
use counter_core::{Counters, MemoryStore};
use counter_layer::Rules;
use divan::counter::ItemsCount;
use divan::{Bencher, black_box};
use http::Method;

/// Runs a closure with increasing numbers, 1,000 per iteration. Runs 10,000 to warm up.
fn numbered(bencher: Bencher<'_, '_>, mut run: impl FnMut(usize)) {
    (0..10_000).for_each(&mut run);
    let mut n = 0;
    bencher.counter(ItemsCount::new(1000_usize)).bench_local(|| {
        (n..n + 1000).for_each(&mut run);
        n += 1000;
    });
}

/// Hashes an address and a user agent to a visitor.
#[divan::bench]
fn hash_visitor(bencher: Bencher<'_, '_>) {
    let counters = Counters::builder(MemoryStore::new()).build().expect("the defaults are fine");
    let salt = counters.recorder().salt().expect("a day is no longer than an epoch");
    numbered(bencher, |n| {
        let mut input = [7; 24];
        input[..8].copy_from_slice(&n.to_le_bytes());
        _ = black_box(salt.visitor(&[black_box(&input)]));
    });
}

#[divan::bench]
fn look_up_counter(bencher: Bencher<'_, '_>) {
    let counters = Counters::builder(MemoryStore::new()).build().expect("the defaults are fine");
    let (recorder, routes) = (counters.recorder(), routes("{id}"));
    numbered(bencher, |n| _ = black_box(recorder.counter(&routes[n % routes.len()])));
}

fn routes(id: &str) -> Vec<String> {
    (0..97).map(|n| format!("/section{n}/{id}/details")).collect()
}

fn counter<'a>(rules: &'a Rules, path: &str) -> &'a str {
    rules.decide(&Method::GET, black_box(path), None).counter().unwrap_or_default()
}

#[divan::bench(args = ["/articles/7", "/section42/7/details", "/static/site.css", "/", "/wp-login.php"])]
fn match_path_with_100_rules(bencher: Bencher<'_, '_>, path: &str) {
    let rules = hundred_rules();
    numbered(bencher, |_| _ = black_box(counter(&rules, path)));
}

#[divan::bench]
fn match_each_of_100_rules(bencher: Bencher<'_, '_>) {
    let (rules, paths) = (hundred_rules(), routes("7"));
    numbered(bencher, |n| _ = black_box(counter(&rules, &paths[n % paths.len()])));
}

/// A whole request through a service, including the two hits in memory. The difference to `bare` is the cost
/// of the layer.
#[divan::bench(args = ["bare", "anonymous", "visitors", "rules"])]
fn request(bencher: Bencher<'_, '_>, name: &str) {
    let mut run = (Work::named(name).expect("a known operation").prepare)();
    run(10_000);
    bencher.counter(ItemsCount::new(1000_usize)).bench_local(|| run(1000));
}

/// Like `request`, but reads some KB of memory between requests, like a handler would, to evict the layer's
/// data from the CPU caches.
#[divan::bench(
    args = [("bare", 64), ("visitors", 64), ("bare", 4096), ("visitors", 4096)],
    sample_count = 2000,
    sample_size = 1,
)]
fn request_with_cold_cache(bencher: Bencher<'_, '_>, (name, kilobytes): (&str, usize)) {
    let mut run = (Work::named(name).expect("a known operation").prepare)();
    let memory = vec![1_u64; 128 * kilobytes];
    run(10_000);
    bencher.with_inputs(|| memory.iter().sum::<u64>()).bench_local_values(|_| run(1));
}
