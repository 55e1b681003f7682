//! Law 1 at process shutdown: a shutdown flushes as much as possible before the deadline, and reports exactly
//! how many hits are left.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use counter_core::visits::Agent;
use counter_core::{Counters, Error, ErrorKind, Recorder, RedisStore, Stats, Timestamp};
use tests::{FaultProxy, RedisServer, until};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use crate::support::{name, precision, store};

const LIMIT: Duration = tests::LIMIT;

/// Maximum time past the deadline. This must be less than the command timeout of five seconds.
const SLACK: Duration = Duration::from_secs(3);

/// Number of attempts to measure a shutdown. Other programs may cause a slow attempt, whereas waiting for a
/// call would slow down every attempt.
const TIMES: u32 = 4;

/// Starts or ends an outage.
type Outage = fn(&FaultProxy, bool);

/// Running counters that are returned after a shutdown.
struct Running {
    recorder: Recorder,
    stats: Stats,
    stop: oneshot::Sender<()>,
    upkeep: JoinHandle<(Counters, Result<(), Error>)>,
}

impl Running {
    fn begin(mut counters: Counters) -> Self {
        let (recorder, stats) = (counters.recorder(), counters.stats());
        let (stop, stopped) = oneshot::channel::<()>();
        let upkeep = tokio::spawn(async move {
            let ended = counters.run(async { drop(stopped.await) }).await;
            (counters, ended)
        });
        Self { recorder, stats, stop, upkeep }
    }

    fn record(&self, hits: u64) {
        let counter = self.recorder.counter("a");
        for _ in 0..hits {
            self.recorder.record(counter, None);
        }
    }

    async fn until_applied(&self, hits: u64) {
        until("the hits are applied", LIMIT, async || self.stats.ledger().hits.applied == hits).await;
    }

    async fn end(self) -> (Counters, Result<(), Error>) {
        drop(self.stop);
        tokio::time::timeout(2 * LIMIT, self.upkeep).await.expect("the shutdown ends").expect("no panic")
    }
}

fn over(store: RedisStore, deadline: Duration) -> Counters {
    let fast = Duration::from_millis(10);
    let builder = Counters::builder(store).flush_interval(fast).shutdown_timeout(deadline);
    builder.build().expect("good settings")
}

async fn total(stats: &Stats) -> u64 {
    let now = Timestamp::now();
    let range = now.minus(2 * 86_400)..now.plus(1);
    stats.total(&name("a"), precision(86_400), range).await.expect("readable")
}

/// Returns the sum stored on the server, read directly.
fn there(server: &RedisServer) -> u64 {
    let counts = server.strings(&["HVALS", "access:count:86400:a"]);
    counts.iter().map(|count| count.parse::<u64>().expect("an integer")).sum()
}

/// Flushes the rest after a shutdown and compares the totals.
async fn brings_the_rest(counters: &mut Counters, hits: u64) {
    until("the rest is flushed", LIMIT, async || counters.flush().await.is_ok()).await;
    let stats = counters.stats();
    assert_eq!(total(&stats).await, hits);
    let ledger = stats.ledger().hits;
    assert_eq!((ledger.applied, ledger.pending, ledger.balance()), (hits, 0, true));
}

#[track_caller]
fn assert_unflushed(ended: Result<(), Error>, hits: u64) {
    assert_eq!(ended.expect_err("something is left").kind(), &ErrorKind::Unflushed { hits });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shutdown_in_the_middle_of_a_load_loses_and_doubles_nothing() {
    let server = RedisServer::start();
    let running = Running::begin(over(store(&server.url()).await, LIMIT));
    let done = Arc::new(AtomicBool::new(false));
    let writers: Vec<_> = (0..3)
        .map(|_| {
            let (recorder, done) = (running.recorder.clone(), Arc::clone(&done));
            tokio::spawn(async move {
                let (hit, mut recorded) = (recorder.counter("a").hit(), 0_u64);
                while !done.load(Ordering::Relaxed) {
                    for _ in 0..100 {
                        recorder.request(&[hit], Agent::Human);
                        recorded += 1;
                    }
                    sleep(Duration::from_millis(1)).await;
                }
                recorded
            })
        })
        .collect();
    until("the load is at work", LIMIT, async || running.stats.ledger().hits.applied > 5000).await;
    let ending = tokio::spawn(running.end());
    sleep(Duration::from_millis(100)).await;
    done.store(true, Ordering::Relaxed);
    let mut recorded = 0;
    for writer in writers {
        recorded += writer.await.expect("no panic");
    }
    let (mut counters, ended) = ending.await.expect("no panic");
    ended.expect("there was a moment with nothing pending");
    // More hits were recorded after this moment.
    brings_the_rest(&mut counters, recorded).await;
}

#[tokio::test]
async fn a_shutdown_brings_what_was_recorded_before_it_and_waits_for_no_interval() {
    let server = RedisServer::start();
    let hour = Duration::from_secs(3600);
    let counters = Counters::builder(store(&server.url()).await).flush_interval(hour).build();
    let running = Running::begin(counters.expect("good settings"));
    running.record(1);
    running.until_applied(1).await;
    running.record(4321);
    let stats = running.stats.clone();
    running.end().await.1.expect("all is flushed");
    assert_eq!((total(&stats).await, stats.ledger().hits.pending), (4322, 0));
}

#[tokio::test]
async fn a_shutdown_in_an_outage_ends_at_its_deadline_and_says_how_many_hits_are_left() {
    let outages: [(Outage, &str); 2] =
        [(FaultProxy::refuse, "refused"), (FaultProxy::black_hole, "not answered")];
    let deadline = Duration::from_millis(700);
    for (outage, what) in outages {
        let mut soonest = Duration::MAX;
        for _ in 0..TIMES {
            let server = RedisServer::start();
            let proxy = FaultProxy::start(server.address()).await;
            let running = Running::begin(over(store(&proxy.url()).await, deadline));
            running.record(50);
            running.until_applied(50).await;
            outage(&proxy, true);
            // Some hits should be in the current batch, while the rest has to wait.
            running.record(100);
            sleep(Duration::from_millis(100)).await;
            running.record(23);
            let began = Instant::now();
            let (mut counters, ended) = running.end().await;
            let took = began.elapsed();
            assert!(took >= deadline, "{what}: {took:?}");
            assert_unflushed(ended, 123);
            let hits = counters.stats().ledger().hits;
            assert_eq!((hits.applied, hits.pending, hits.balance()), (50, 123, true), "{what}");
            outage(&proxy, false);
            brings_the_rest(&mut counters, 173).await;
            soonest = soonest.min(took);
            if soonest < deadline + SLACK {
                break;
            }
        }
        assert!(soonest < deadline + SLACK, "{what}: {soonest:?}");
    }
}

#[tokio::test]
async fn a_batch_whose_reply_was_lost_before_the_shutdown_is_left_and_counts_once() {
    let server = RedisServer::start();
    let proxy = FaultProxy::start(server.address()).await;
    let running = Running::begin(over(store(&proxy.url()).await, Duration::from_millis(300)));
    running.record(50);
    running.until_applied(50).await;
    proxy.swallow_replies(u64::MAX);
    running.record(7);
    until("the server has it", LIMIT, async || there(&server) == 57).await;
    let (mut counters, ended) = running.end().await;
    assert_unflushed(ended, 7);
    proxy.swallow_replies(0);
    brings_the_rest(&mut counters, 57).await;
}

#[tokio::test]
async fn an_outage_that_ends_before_the_deadline_costs_no_hit() {
    let outages: [Outage; 2] = [FaultProxy::refuse, FaultProxy::black_hole];
    for outage in outages {
        let server = RedisServer::start();
        let proxy = FaultProxy::start(server.address()).await;
        let running = Running::begin(over(store(&proxy.url()).await, LIMIT));
        outage(&proxy, true);
        running.record(123);
        let stats = running.stats.clone();
        let end_of_outage = async {
            sleep(Duration::from_millis(500)).await;
            outage(&proxy, false);
        };
        let ((_, ended), ()) = tokio::join!(running.end(), end_of_outage);
        ended.expect("all is flushed");
        assert_eq!((total(&stats).await, stats.ledger().hits.applied), (123, 123));
    }
}

/// Sends fifty batches of one hit, drops thirty from the server, and records another hit to expose the loss.
/// The proxy then blocks a call of the replay, and thus the whole replay.
async fn in_the_middle_of_a_replay(deadline: Duration) -> (RedisServer, FaultProxy, Running) {
    let (server, proxy, counters) = after_a_failover(deadline).await;
    proxy.hold_calls_after(10, 1);
    let running = Running::begin(counters);
    running.record(1);
    until("the replay has come to its middle", LIMIT, async || proxy.held() == 1).await;
    assert!((21..40).contains(&there(&server)), "{}", there(&server));
    (server, proxy, running)
}

/// Returns counters with 50 acknowledged hits on a server that only has 20 of these.
async fn after_a_failover(deadline: Duration) -> (RedisServer, FaultProxy, Counters) {
    let mut server = RedisServer::start();
    let proxy = FaultProxy::start(server.address()).await;
    let mut counters = over(store(&proxy.url()).await, deadline);
    let counter = counters.recorder().counter("a");
    for n in 0..50 {
        counters.recorder().record(counter, None);
        counters.flush().await.expect("the server takes it");
        if n == 19 {
            server.command(&["SAVE"]);
        }
    }
    server.kill();
    server.restart();
    assert_eq!(there(&server), 20);
    (server, proxy, counters)
}

#[tokio::test]
async fn a_shutdown_finds_out_what_the_store_lost_though_nothing_new_was_recorded() {
    let (_server, _proxy, counters) = after_a_failover(LIMIT).await;
    let running = Running::begin(counters);
    let stats = running.stats.clone();
    running.end().await.1.expect("all is flushed");
    assert_eq!(total(&stats).await, 50);
}

#[tokio::test]
async fn a_shutdown_without_its_store_is_not_held_up_when_nothing_is_owed() {
    let deadline = Duration::from_millis(300);
    let mut soonest = Duration::MAX;
    for _ in 0..TIMES {
        let server = RedisServer::start();
        let mut counters = over(store(&server.url()).await, deadline);
        counters.recorder().record(counters.recorder().counter("a"), None);
        counters.flush().await.expect("the server takes it");
        drop(server);
        let began = Instant::now();
        counters.run(async {}).await.expect("nothing is owed");
        soonest = soonest.min(began.elapsed());
        if soonest < deadline + SLACK {
            return;
        }
    }
    panic!("held up for {soonest:?}");
}

#[tokio::test]
async fn a_shutdown_in_the_middle_of_a_replay_finishes_it() {
    let (_server, proxy, running) = in_the_middle_of_a_replay(LIMIT).await;
    let stats = running.stats.clone();
    let mut end = std::pin::pin!(running.end());
    assert!(end.as_mut().poll(&mut std::task::Context::from_waker(std::task::Waker::noop())).is_pending());
    proxy.release();
    end.await.1.expect("all is flushed");
    assert_eq!(total(&stats).await, 51);
    let hits = stats.ledger().hits;
    assert_eq!((hits.applied, hits.lost_by_server, hits.balance()), (51, 0, true));
}

#[tokio::test]
async fn a_deadline_in_the_middle_of_a_replay_counts_what_the_store_lacks_as_left() {
    let (server, proxy, running) = in_the_middle_of_a_replay(Duration::from_millis(300)).await;
    proxy.refuse(true);
    let found = there(&server);
    let (mut counters, ended) = running.end().await;
    let error = ended.expect_err("the replay is not finished");
    let &ErrorKind::Unflushed { hits } = error.kind() else { panic!("{error}") };
    assert_eq!(hits, 51 - found);
    proxy.release();
    proxy.refuse(false);
    brings_the_rest(&mut counters, 51).await;
}
