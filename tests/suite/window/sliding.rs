//! Sliding windows on the clocks of real stores.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use counter_core::visitor::VisitorKey;
use counter_core::window::{Dimensions, LimitDecision, Window, WindowCounters, WindowStore};
use counter_core::{Error, MemoryStore, RedisStore, SqlStore};
use tests::{RedisCluster, RedisServer};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use super::contract::{assert_all_keys_expire, n};
use crate::stores::{self, databases, sql, without_scripts};
use crate::support::store;

stores::on! {
    [memory redis redis_without_scripts redis_in_shards cluster sqlite postgres mariadb]
    then super::assert_all_keys_expire;
    {
        a_rejected_burst_fits_at_the_reported_time_and_a_steady_client_is_served
    }
}

/// Window width in seconds. The parts are a second wide, so six parts are counted.
const WIDTH: u64 = 5;

/// The clock of the memory store can be some milliseconds late.
const TICK: Duration = Duration::from_millis(20);

fn counters(store: impl WindowStore) -> WindowCounters {
    WindowCounters::new(store, Window::try_from(5).expect("not 0"))
}

/// Returns dimensions with different keys in each part.
fn visitor(name: &str) -> Dimensions {
    Dimensions::new()
        .text("app", "shop")
        .visitor("visitor", VisitorKey::new([7; 16]).visitor(&[name.as_bytes()]))
}

fn unix_time() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970")
}

/// Waits until this time of the system clock, which is also the store clock.
async fn sleep_until(unix: Duration) {
    while let Some(left) = unix.checked_sub(unix_time()).filter(|left| !left.is_zero()) {
        sleep(left).await;
    }
}

async fn acquire(counters: &WindowCounters, name: &str, limit: u32) -> Result<LimitDecision, Error> {
    counters.try_acquire_sliding(&visitor(name), limit, n(1)).await
}

async fn a_rejected_burst_fits_at_the_reported_time_and_a_steady_client_is_served(
    store: impl WindowStore + Clone,
) {
    let counters = &counters(store);
    tokio::join!(reject_a_burst(counters), serve_a_steady_client(counters));
    // Other counters with windows of the same width are not affected.
    let fixed = counters.history(&visitor("burst"), counter_core::Timestamp::now()).await.expect("readable");
    assert!(fixed.iter().all(|sample| sample.count == 0));
}

async fn reject_a_burst(counters: &WindowCounters) {
    const LIMIT: u32 = 10;
    let edge = Duration::from_secs(unix_time().as_secs() + 2);
    sleep_until(edge - Duration::from_millis(200)).await;
    let mut first = None;
    for left in (0..LIMIT).rev() {
        let pass = acquire(counters, "burst", LIMIT).await.expect("decided");
        assert_eq!((pass.allowed, pass.remaining), (true, left));
        assert_eq!(pass.reset, pass.now.plus(1));
        first = first.or(Some(pass.now));
    }
    let first = first.expect("a decision");
    sleep_until(edge + TICK).await;
    for amount in [1, 1, LIMIT + 1] {
        let pass = counters.try_acquire_sliding(&visitor("burst"), LIMIT, n(amount)).await.expect("decided");
        assert_eq!((pass.allowed, pass.remaining), (false, 0));
        if amount == 1 {
            assert_eq!(pass.reset, first.plus(WIDTH + 1), "the first part has left the window");
        }
    }
    let reset = Duration::from_secs(first.as_unix() + WIDTH + 1);
    sleep_until(reset - Duration::from_millis(500)).await;
    let early = acquire(counters, "burst", LIMIT).await.expect("decided");
    // The store may have been slow.
    assert!(!early.allowed || early.now >= first.plus(WIDTH + 1), "{early:?}");
    sleep_until(reset + TICK).await;
    assert!(acquire(counters, "burst", LIMIT).await.expect("decided").allowed);
}

async fn serve_a_steady_client(counters: &WindowCounters) {
    let start = unix_time();
    let mut allowed = 0;
    for call in 0..7 {
        sleep_until(start + Duration::from_secs(call)).await;
        allowed += u32::from(acquire(counters, "steady", 5).await.expect("decided").allowed);
    }
    // The limit is 5 in the six parts that are counted. On a slow machine, two calls may share a part.
    assert!((5..=7).contains(&allowed), "{allowed}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_interval_allows_more_than_the_limit_across_instances() {
    let memory = MemoryStore::new();
    let (redis, plain) = (RedisServer::start(), without_scripts());
    let cluster = tokio::task::block_in_place(RedisCluster::start);
    let (_databases, urls) = databases();
    let mut stores = JoinSet::new();
    stores.spawn(assert_limited("memory".to_owned(), [0; 3].map(|_| counters(memory.clone())).into()));
    for url in [redis.url(), plain.url(), cluster.url()] {
        let mut instances = Vec::new();
        for _ in 0..3 {
            let store: RedisStore = store(&url).await;
            instances.push(counters(store));
        }
        stores.spawn(assert_limited(url, instances));
    }
    for url in urls {
        let mut instances = vec![counters(sql(&url).await)];
        for _ in 0..2 {
            instances.push(counters(SqlStore::connect(&url).await.expect("a database")));
        }
        stores.spawn(assert_limited(url, instances));
    }
    stores.join_all().await;
    for server in [&redis, &plain] {
        assert_all_keys_expire(server);
    }
}

/// Sends requests around the edges of the parts, and at other times.
async fn assert_limited(name: String, instances: Vec<WindowCounters>) {
    const LIMIT: u32 = 20;
    let (start, mut clients) = (unix_time().as_secs() + 1, JoinSet::new());
    for client in 0..9_u32 {
        let (counters, mut random) = (instances[client as usize % instances.len()].clone(), client);
        clients.spawn(async move {
            let mut allowed = Vec::new();
            for second in 0..2 * WIDTH {
                random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                let spread = if client == 0 { 900 } else { 60 };
                let offset = Duration::from_millis((random >> 8) as u64 % spread);
                sleep_until(Duration::from_secs(start + second) + offset - Duration::from_millis(30)).await;
                for _ in 0..2 {
                    let sent_at = Instant::now();
                    let reply = acquire(&counters, "all", LIMIT).await;
                    if reply.is_ok_and(|pass| pass.allowed) {
                        allowed.push((sent_at, Instant::now()));
                    }
                }
            }
            allowed
        });
    }
    let allowed = clients.join_all().await.concat();
    assert!(allowed.len() >= LIMIT as usize, "{name}: {}", allowed.len());
    for (start, _) in &allowed {
        // These were certainly decided within an interval as long as a window.
        let end = *start + Duration::from_secs(WIDTH) - TICK;
        let within = allowed.iter().filter(|(sent_at, replied_at)| sent_at >= start && *replied_at <= end);
        assert!(within.count() <= LIMIT as usize, "{name}");
    }
}
