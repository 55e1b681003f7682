//! Tests for forgetting a counter while it receives hits.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use counter_core::{Counters, Store, Timestamp};

use crate::stores;
use crate::support::{name, precision};

stores::on! {
    [memory redis redis_without_scripts redis_in_shards sqlite postgres mariadb]
    { the_lifetime_of_a_counter_forgotten_under_load_equals_its_samples }
}

async fn the_lifetime_of_a_counter_forgotten_under_load_equals_its_samples(store: impl Store + Clone) {
    let mut counters = Counters::builder(store).build().expect("good settings");
    let (recorder, stats) = (counters.recorder(), counters.stats());
    let counter = recorder.counter("hits");
    let done = Arc::new(AtomicBool::new(false));
    let forgetting = tokio::spawn({
        let (stats, done) = (stats.clone(), Arc::clone(&done));
        async move {
            for _ in 0..100 {
                stats.forget(&name("hits")).await.expect("it can be forgotten");
            }
            done.store(true, Ordering::Relaxed);
        }
    });
    while !done.load(Ordering::Relaxed) {
        recorder.record(counter, None);
        counters.flush().await.expect("it accepts batches");
        // A memory store never waits, so we need to yield to the other task.
        tokio::task::yield_now().await;
    }
    forgetting.await.expect("no panic");
    recorder.record(counter, None);
    counters.flush().await.expect("it accepts batches");
    let now = Timestamp::now();
    let days = now.minus(2 * 86_400)..now.plus(1);
    let samples = stats.total(&name("hits"), precision(86_400), days).await.expect("readable");
    let lifetimes = stats.lifetimes(&[name("hits")]).await.expect("readable");
    assert_eq!(*lifetimes, [samples]);
}
