//! Outages: buckets must be evaluated only when the pending hits are in the store.

use std::num::NonZeroU32;
use std::time::Duration;

use counter_alert::{AlertRule, Watch};
use counter_core::{AnyStore, Counters, MemoryStore, Timestamp};

use super::inbox::Inbox;
use crate::stores;
use crate::support::{name, precision};

/// A process with counters and a watch.
struct Process {
    counters: Counters,
    watch: Watch,
}

/// Returns the start of a minute, long enough ago that clock differences don't matter.
fn minute(number: u64) -> Timestamp {
    precision(60).bucket(Timestamp::now()).start.minus(1200).plus(60 * number)
}

/// Returns the time at which a minute is evaluated.
fn judged(number: u64) -> Timestamp {
    minute(number).plus(60 + Watch::LATENESS.as_secs())
}

impl Process {
    fn new(store: &AnyStore, inbox: &Inbox) -> Self {
        let counters = Counters::builder(store.clone()).build().expect("the defaults are fine");
        // Both processes together need to have 20 hits a minute.
        let rule = AlertRule::below("few", name("hits"), precision(60), 20);
        let builder = Watch::builder(counters.stats(), store.clone()).rule(rule).deliver(inbox.receiver());
        Self { counters, watch: builder.build().expect("a good rule") }
    }

    fn record(&self, at: Timestamp) {
        let recorder = self.counters.recorder();
        recorder.record_at(recorder.counter("hits"), None, at, NonZeroU32::new(10).expect("not 0"));
    }

    async fn flush(&mut self) {
        self.counters.flush().await.expect("the store is there");
    }

    /// Returns the number of buckets that are evaluated in a pass.
    async fn check(&mut self, now: Timestamp) -> u64 {
        self.watch.check_once(now).await.expect("the store is there").judged
    }
}

#[tokio::test]
async fn an_outage_raises_no_alert_until_all_processes_have_sent_their_hits() {
    let (server, redis) = stores::redis().await;
    let (store, inbox) = (AnyStore::from(redis), Inbox::default());
    let mut processes = [Process::new(&store, &inbox), Process::new(&store, &inbox)];
    for number in 0..2 {
        for process in &mut processes {
            process.record(minute(number));
            process.flush().await;
        }
        for process in &mut processes {
            process.check(judged(number)).await;
        }
    }
    server.command(&["CONFIG", "SET", "maxmemory", "1"]);
    for number in 2..5 {
        for process in &mut processes {
            process.record(minute(number));
            process.counters.flush().await.expect_err("the store takes nothing");
            process.watch.check_once(judged(number)).await.expect_err("the store takes nothing");
        }
    }
    server.command(&["CONFIG", "SET", "maxmemory", "0"]);
    processes.iter().for_each(|process| process.record(minute(5)));
    // The watches run before the flushers.
    let (now, [first, second]) = (judged(5), &mut processes);
    assert_eq!((first.check(now).await, second.check(now).await), (0, 0));
    first.flush().await;
    assert_eq!(first.check(now.plus(5)).await, 0, "the second process holds hits");
    second.flush().await;
    assert_eq!(second.check(now.plus(10)).await, 4);
    assert_eq!(first.check(now.plus(15)).await, 0);
    assert_eq!(inbox.strings(), [""; 0]);
    // The second process is not running.
    first.record(minute(6));
    first.flush().await;
    assert_eq!(first.check(judged(6)).await, 1);
    assert_eq!(inbox.strings(), ["warning: few: hits has 10 hits, below 20"]);
}

#[tokio::test]
async fn a_watch_removes_its_progress_mark_on_shutdown() {
    let (store, inbox) = (AnyStore::from(MemoryStore::new()), Inbox::default());
    let [mut first, mut second] = [Process::new(&store, &inbox), Process::new(&store, &inbox)];
    first.check(judged(0)).await;
    second.check(judged(0)).await;
    second.watch.run(std::future::ready(())).await;
    let document = counter_core::document::DocumentStore::read(&store, "alert-progress").await;
    let marks: serde_json::Value =
        serde_json::from_slice(&document.expect("readable").content).expect("an object");
    assert_eq!(marks.as_object().map(serde_json::Map::len), Some(1), "{marks}");
}

#[tokio::test]
async fn the_lateness_can_be_chosen() {
    let (store, inbox) = (AnyStore::from(MemoryStore::new()), Inbox::default());
    let counters = Counters::builder(store.clone()).build().expect("the defaults are fine");
    let rule = AlertRule::silent("silent", name("hits"), precision(60));
    let builder = Watch::builder(counters.stats(), store.clone()).rule(rule).deliver(inbox.receiver());
    let mut watch = builder.lateness(Duration::from_secs(45)).build().expect("a good rule");
    let mut judged = async |second| watch.check_once(minute(1).plus(second)).await.expect("readable").judged;
    assert_eq!([judged(30).await, judged(44).await, judged(45).await], [1, 0, 1]);
}
