//! From what is known of a request to what is recorded: who, and under which counter.

use bench::work::{BROWSER, hundred_rules};
use counter_core::{Agent, Counter, Counters, MemoryStore, Recorder, Salt, VisitorId};
use counter_layer::{Decision, Rules};
use divan::counter::ItemsCount;
use divan::{Bencher, black_box};
use http::Method;

/// Templates of a hundred routes, and addresses that nobody has twice.
struct Site {
    recorder: Recorder,
    salt: Salt,
    hits: Counter,
    routes: Vec<String>,
}

impl Site {
    fn new() -> Self {
        let recorder =
            Counters::builder(MemoryStore::new()).build().expect("the defaults are fine").recorder();
        let salt = recorder.salt().expect("a day is no longer than an epoch");
        let routes = (0..100).map(|n| format!("/section{n}/{{id}}/details")).collect();
        Self { hits: recorder.counter("hits"), salt, recorder, routes }
    }

    fn visitor(&self, n: usize) -> VisitorId {
        self.salt.visitor(black_box(&[&address(n), BROWSER.as_bytes()]))
    }

    fn record(&self, counter: Counter, visitor: VisitorId) {
        let all = self.hits.hit().visitor(visitor);
        self.recorder.request(&[all, all.on(counter)], Agent::Human);
    }
}

fn address(n: usize) -> [u8; 4] {
    let [.., c, d] = (n % 1024).to_be_bytes();
    [10, 0, c, d]
}

/// Runs a thousand at a time, with a number each; what the first of all have to prepare is done before.
fn numbered(bencher: Bencher<'_, '_>, mut run: impl FnMut(usize)) {
    (0..10_000).for_each(&mut run);
    let mut n = 0;
    bencher.counter(ItemsCount::new(1000_usize)).bench_local(|| {
        (n..n + 1000).for_each(&mut run);
        n += 1000;
    });
}

#[divan::bench]
fn a_visitor_of_address_and_user_agent(bencher: Bencher<'_, '_>) {
    let site = Site::new();
    numbered(bencher, |n| _ = black_box(site.visitor(n)));
}

#[divan::bench]
fn a_counter_by_its_name(bencher: Bencher<'_, '_>) {
    let site = Site::new();
    numbered(bencher, |n| _ = black_box(site.recorder.counter(&site.routes[n % 100])));
}

fn counter<'a>(rules: &'a Rules, path: &str) -> &'a str {
    match rules.decide(&Method::GET, black_box(path), None) {
        Decision::Count { counter, .. } => counter,
        _ => "",
    }
}

#[divan::bench(args = ["/articles/7", "/section42/7/details", "/static/site.css", "/", "/wp-login.php"])]
fn one_of_a_hundred_rules(bencher: Bencher<'_, '_>, path: &str) {
    let rules = hundred_rules();
    numbered(bencher, |_| _ = black_box(counter(&rules, path)));
}

/// From the matched path to the two hits in memory.
#[divan::bench]
fn all_by_the_matched_path(bencher: Bencher<'_, '_>) {
    let site = Site::new();
    numbered(bencher, |n| site.record(site.recorder.counter(&site.routes[n % 100]), site.visitor(n)));
}

/// The same where a hundred rules decide.
#[divan::bench]
fn all_by_a_hundred_rules(bencher: Bencher<'_, '_>) {
    let (site, rules) = (Site::new(), hundred_rules());
    let paths: Vec<_> = (0..97).map(|n| format!("/section{n}/7/details")).collect();
    numbered(bencher, |n| {
        let counter = site.recorder.counter(counter(&rules, &paths[n % 97]));
        site.record(counter, site.visitor(n));
    });
}
