//! Law 1 at process shutdown: a shutdown flushes as much as possible before the deadline, and reports exactly
//! how many hits are left.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use counter_core::visits::Agent;
use counter_core::{Counters, Error, ErrorKind, Recorder, RedisStore, Stats, Timestamp};
use tests::{FaultProxy, RedisServer, until, within};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use crate::support::{name, precision, store};

const LIMIT: Duration = tests::LIMIT;

/// Maximum time past the deadline. This must be less than the command timeout of five seconds.
const MAX_OVERRUN: Duration = Duration::from_secs(3);

/// Number of attempts to measure a shutdown. Other programs may cause a slow attempt, whereas waiting for a
/// call would slow down every attempt.
const MAX_ATTEMPTS: u32 = 4;

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
    fn start(mut counters: Counters) -> Self {
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
        within(2 * LIMIT, self.upkeep).await.expect("the shutdown ends").expect("no panic")
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
fn stored_on_server(server: &RedisServer) -> u64 {
    let counts = server.strings(&["HVALS", "access:count:86400:a"]);
    counts.iter().map(|count| count.parse::<u64>().expect("an integer")).sum()
}

/// Flushes the rest after a shutdown and compares the totals.
async fn flush_the_rest(counters: &mut Counters, hits: u64) {
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
async fn a_shutdown_under_load_neither_loses_nor_doubles_hits() {
    let server = RedisServer::start();
    let running = Running::start(over(store(&server.url()).await, LIMIT));
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
    until("the load is running", LIMIT, async || running.stats.ledger().hits.applied > 5000).await;
    let ending = tokio::spawn(running.end());
    sleep(Duration::from_millis(100)).await;
    done.store(true, Ordering::Relaxed);
    let mut recorded = 0;
    for writer in writers {
        recorded += writer.await.expect("no panic");
    }
    let (mut counters, ended) = ending.await.expect("no panic");
    ended.expect("there was a moment without pending hits");
    // More hits were recorded after this moment.
    flush_the_rest(&mut counters, recorded).await;
}

#[tokio::test]
async fn a_shutdown_flushes_pending_hits_without_waiting_for_the_interval() {
    let server = RedisServer::start();
    let hour = Duration::from_secs(3600);
    let counters = Counters::builder(store(&server.url()).await).flush_interval(hour).build();
    let running = Running::start(counters.expect("good settings"));
    running.record(1);
    running.until_applied(1).await;
    running.record(4321);
    let stats = running.stats.clone();
    running.end().await.1.expect("everything is flushed");
    assert_eq!((total(&stats).await, stats.ledger().hits.pending), (4322, 0));
}

#[tokio::test]
async fn a_shutdown_in_an_outage_ends_at_its_deadline_and_reports_hits_left() {
    let outages: [(Outage, &str); 2] =
        [(FaultProxy::refuse, "refused"), (FaultProxy::black_hole, "not answered")];
    let deadline = Duration::from_millis(700);
    for (outage, what) in outages {
        let mut soonest = Duration::MAX;
        for _ in 0..MAX_ATTEMPTS {
            let server = RedisServer::start();
            let proxy = FaultProxy::start(server.address()).await;
            let running = Running::start(over(store(&proxy.url()).await, deadline));
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
            flush_the_rest(&mut counters, 173).await;
            soonest = soonest.min(took);
            if soonest < deadline + MAX_OVERRUN {
                break;
            }
        }
        assert!(soonest < deadline + MAX_OVERRUN, "{what}: {soonest:?}");
    }
}

#[tokio::test]
async fn a_batch_with_a_lost_reply_is_left_at_shutdown_and_counts_once() {
    let server = RedisServer::start();
    let proxy = FaultProxy::start(server.address()).await;
    let running = Running::start(over(store(&proxy.url()).await, Duration::from_millis(300)));
    running.record(50);
    running.until_applied(50).await;
    proxy.swallow_replies(u64::MAX);
    running.record(7);
    until("the server has it", LIMIT, async || stored_on_server(&server) == 57).await;
    let (mut counters, ended) = running.end().await;
    assert_unflushed(ended, 7);
    proxy.swallow_replies(0);
    flush_the_rest(&mut counters, 57).await;
}

#[tokio::test]
async fn an_outage_that_ends_before_the_deadline_loses_no_hit() {
    let outages: [Outage; 2] = [FaultProxy::refuse, FaultProxy::black_hole];
    for outage in outages {
        let server = RedisServer::start();
        let proxy = FaultProxy::start(server.address()).await;
        let running = Running::start(over(store(&proxy.url()).await, LIMIT));
        outage(&proxy, true);
        running.record(123);
        let stats = running.stats.clone();
        let end_of_outage = async {
            sleep(Duration::from_millis(500)).await;
            outage(&proxy, false);
        };
        let ((_, ended), ()) = tokio::join!(running.end(), end_of_outage);
        ended.expect("everything is flushed");
        assert_eq!((total(&stats).await, stats.ledger().hits.applied), (123, 123));
    }
}

/// Sends fifty batches of one hit, drops thirty from the server, and records another hit to expose the loss.
/// The proxy then blocks a call of the replay, and thus the whole replay.
async fn pause_in_replay(deadline: Duration) -> (RedisServer, FaultProxy, Running) {
    let (server, proxy, counters) = after_a_failover(deadline).await;
    proxy.hold_calls_after(10, 1);
    let running = Running::start(counters);
    running.record(1);
    until("the replay is half done", LIMIT, async || proxy.held() == 1).await;
    assert!((21..40).contains(&stored_on_server(&server)), "{}", stored_on_server(&server));
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
        counters.flush().await.expect("the server accepts it");
        if n == 19 {
            server.command(&["SAVE"]);
        }
    }
    server.kill();
    server.restart();
    assert_eq!(stored_on_server(&server), 20);
    (server, proxy, counters)
}

#[tokio::test]
async fn a_shutdown_detects_lost_data_without_new_hits() {
    let (_server, _proxy, counters) = after_a_failover(LIMIT).await;
    let running = Running::start(counters);
    let stats = running.stats.clone();
    running.end().await.1.expect("everything is flushed");
    assert_eq!(total(&stats).await, 50);
}

#[tokio::test]
async fn a_shutdown_without_pending_hits_does_not_wait_for_the_store() {
    let deadline = Duration::from_millis(300);
    let mut soonest = Duration::MAX;
    for _ in 0..MAX_ATTEMPTS {
        let server = RedisServer::start();
        let mut counters = over(store(&server.url()).await, deadline);
        counters.recorder().record(counters.recorder().counter("a"), None);
        counters.flush().await.expect("the server accepts it");
        drop(server);
        let began = Instant::now();
        counters.run(async {}).await.expect("no hits are pending");
        soonest = soonest.min(began.elapsed());
        if soonest < deadline + MAX_OVERRUN {
            return;
        }
    }
    panic!("held up for {soonest:?}");
}

#[tokio::test]
async fn a_shutdown_finishes_a_running_replay() {
    let (_server, proxy, running) = pause_in_replay(LIMIT).await;
    let stats = running.stats.clone();
    let mut end = std::pin::pin!(running.end());
    assert!(end.as_mut().poll(&mut std::task::Context::from_waker(std::task::Waker::noop())).is_pending());
    proxy.release();
    end.await.1.expect("everything is flushed");
    assert_eq!(total(&stats).await, 51);
    let hits = stats.ledger().hits;
    assert_eq!((hits.applied, hits.lost_by_server, hits.balance()), (51, 0, true));
}

#[tokio::test]
async fn a_deadline_during_a_replay_counts_missing_hits_as_left() {
    let (server, proxy, running) = pause_in_replay(Duration::from_millis(300)).await;
    proxy.refuse(true);
    let found = stored_on_server(&server);
    let (mut counters, ended) = running.end().await;
    let error = ended.expect_err("the replay is not finished");
    let &ErrorKind::Unflushed { hits } = error.kind() else { panic!("{error}") };
    assert_eq!(hits, 51 - found);
    proxy.release();
    proxy.refuse(false);
    flush_the_rest(&mut counters, 51).await;
}
