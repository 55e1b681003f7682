//! Tests for the people who are here now.

use std::future::ready;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use counter_core::source::Commit;
use counter_core::stores::StoreFuture;
use counter_core::visitor::{VisitorId, VisitorKey};
use counter_core::visits::store::{ApplyOutcome, Batch, Write as _};
use counter_core::visits::{Agent, PageHit};
use counter_core::{
    CounterName, Counters, Error, ErrorKind, MemoryStore, Precision, Precisions, Recorder, Store, Timestamp,
};
use tests::until;

use crate::intercepted_store::{Hooks, InterceptedStore};
use crate::stores;
use crate::support::name;

stores::on! {
    [memory redis redis_in_shards redis_without_scripts cluster sqlite postgres mariadb]
    {
        people_of_all_instances_are_here_now
        people_of_recent_records_are_here_now
        people_are_not_a_counter
    }
}

const ONE: NonZeroU32 = NonZeroU32::MIN;

fn counters(store: impl Store) -> Counters {
    Counters::builder(store).build().expect("the defaults are fine")
}

fn person(number: u32) -> Option<VisitorId> {
    Some(VisitorKey::new([7; 16]).visitor(&[&number.to_le_bytes()]))
}

fn visit(recorder: &Recorder, page: &str, visitor: Option<VisitorId>) {
    let hit = recorder.counter("hits").hit().visitor(visitor);
    recorder.page_hit(PageHit {
        page: Some(recorder.counter(page)),
        ..PageHit::new(hit, if visitor.is_some() { Agent::Human } else { Agent::Bot })
    });
}

async fn people(counters: &Counters) -> u64 {
    let before = Timestamp::now();
    let now = counters.stats().now().await.expect("readable");
    let ago = |at: Timestamp| at.as_unix() - now.since.as_unix();
    let (least, most) = (ago(before), ago(Timestamp::now()));
    assert!(most >= 300 && least < 360 && now.since.as_unix().is_multiple_of(60), "{least} to {most} s");
    now.people.visitors
}

async fn people_of_all_instances_are_here_now(store: impl Store + Clone) {
    let mut instances = [counters(store.clone()), counters(store)];
    assert_eq!(people(&instances[0]).await, 0);
    for (place, counters) in instances.iter_mut().enumerate() {
        let recorder = counters.recorder();
        // Ten people, two of whom are on both instances, and bots.
        for number in 0..6 {
            visit(&recorder, "/a", person(4 * u32::try_from(place).expect("0 or 1") + number));
            visit(&recorder, "/b", None);
        }
        counters.flush().await.expect("the store is available");
    }
    assert_eq!(people(&instances[1]).await, 10);
    // A person who returns is the same, and one who was here ten minutes ago has left.
    let [first, _] = &mut instances;
    let recorder = first.recorder();
    visit(&recorder, "/c", person(0));
    let ago = |minutes: u64| Timestamp::now().minus(60 * minutes);
    recorder.record_at(recorder.counter("/a"), person(100), ago(10), ONE);
    recorder.record_at(recorder.counter("/a"), person(101), ago(3), ONE);
    first.flush().await.expect("the store is available");
    assert_eq!(people(first).await, 11);
    // Later batches continue at the position of the first.
    visit(&recorder, "/a", person(102));
    first.flush().await.expect("the store is available");
    assert_eq!(people(first).await, 12);
}

async fn people_of_recent_records_are_here_now(store: impl Store + Clone) {
    let counters = counters(store);
    let (recorder, now) = (counters.recorder(), Timestamp::now());
    let mut log = counters.sources().open("log".parse().expect("a name")).await.expect("readable");
    for (position, age) in [(0, 86_400), (1, 600), (2, 60), (3, 0)] {
        // A record can be about several people.
        let number = u32::try_from(2 * position).expect("few");
        let hit = |number| recorder.counter("hits").hit().visitor(person(number));
        log.record(position..position + 1, now.minus(age), &[number, number, number + 1].map(hit));
    }
    assert_eq!(log.commit().await.expect("the store is available"), Commit::Done);
    assert_eq!(people(&counters).await, 4);
}

async fn people_are_not_a_counter(store: impl Store + Clone) {
    let mut counters = counters(store);
    visit(&counters.recorder(), "/a", person(0));
    counters.flush().await.expect("the store is available");
    let (stats, now) = (counters.stats(), Timestamp::now());
    assert_eq!(people(&counters).await, 1);
    let listed = stats.list_counters(None, 10).await.expect("readable");
    let listed: Vec<_> = listed.counters.iter().map(|(name, _)| &**name).collect();
    assert_eq!(listed, ["/a", "hits"]);
    let people = name(CounterName::NOW);
    let hour = now.minus(3600)..now.plus(1);
    assert_eq!(stats.total(&people, Precision::HOUR, hour.clone()).await.expect("readable"), 0);
    assert_eq!(stats.uniques(&[people], Precision::HOUR, hour).await.expect("readable").visitors, 0);
    assert_eq!(stats.ledger().hits.recorded, 2);
}

#[tokio::test]
async fn a_flusher_shares_people_while_it_runs_and_when_it_ends() {
    // Visitors by the minute are separate.
    let minutes = Precisions::new([Precision::MINUTE]).expect("a set");
    let mut counters = Counters::builder(MemoryStore::new())
        .visitor_precisions(minutes)
        .flush_interval(Duration::from_millis(10))
        .build()
        .expect("a grid");
    let (recorder, stats) = (counters.recorder(), counters.stats());
    let seen = async {
        for number in 1..=2 {
            visit(&recorder, "/a", person(number));
            let here = async || stats.now().await.expect("readable").people.visitors == u64::from(number);
            until("people are shared", tests::LIMIT, here).await;
        }
        // At the end, there are no hits to send.
        visit(&recorder, "/a", person(3));
        until("the hit is stored", tests::LIMIT, async || stats.ledger().hits.pending == 0).await;
    };
    counters.run(seen).await.expect("memory does not fail");
    assert_eq!(people(&counters).await, 3);
}

/// Fails for the next batches of people.
#[derive(Clone, Debug, Default)]
struct FailsForPeople(Arc<AtomicU32>);

impl Hooks for FailsForPeople {
    fn apply<'a>(&'a self, store: &'a MemoryStore, batch: &'a Batch) -> StoreFuture<'a, ApplyOutcome> {
        let is_people = batch.cells.iter().any(|cell| &*cell.counter == CounterName::NOW);
        let fails = is_people && self.0.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)).is_ok();
        if fails { Box::pin(ready(Err(Error::new(ErrorKind::Unavailable)))) } else { store.apply(batch) }
    }
}

#[tokio::test(start_paused = true)]
async fn people_are_shared_at_the_end_even_if_this_fails_at_first() {
    let failures = FailsForPeople::default();
    let store = InterceptedStore::new(failures.clone());
    let mut counters = counters(store);
    visit(&counters.recorder(), "/a", person(1));
    failures.0.store(3, Relaxed);
    counters.run(ready(())).await.expect("hits are stored");
    assert_eq!((people(&counters).await, failures.0.load(Relaxed)), (1, 0));
    // It does not wait forever.
    visit(&counters.recorder(), "/a", person(2));
    failures.0.store(u32::MAX, Relaxed);
    counters.run(ready(())).await.expect("hits are stored");
    assert_eq!((people(&counters).await, counters.stats().ledger().hits.pending), (1, 0));
}
