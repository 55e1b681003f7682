//! Law 1 on a cluster, during slot migrations and node failures, with concurrent instances.

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use counter_core::stores::Shards;
use counter_core::visitor::VisitorKey;
use counter_core::visits::store::Read;
use counter_core::{CounterName, Counters, Precision, Recorder, RedisStore, Stats, Timestamp, Upkeep};
use tests::cluster::RedisCluster;
use tests::until;
use tokio::task::JoinSet;

use crate::support::{count_at, listed, name, precision};

const LIMIT: Duration = tests::LIMIT;

/// This should be enough to have pages in each shard.
const PAGES: usize = 40;

async fn store(cluster: &RedisCluster) -> RedisStore {
    let store = RedisStore::builder().connect(&cluster.url()).await.expect("an address");
    let there = async || store.known(listed(&[precision(1)], "", 1)).await.is_ok();
    until("the store is connected", LIMIT, there).await;
    store
}

fn over(store: RedisStore) -> Counters {
    Counters::builder(store).flush_interval(Duration::from_millis(10)).build().expect("good settings")
}

fn page(n: usize) -> String {
    format!("/page/{n}")
}

async fn total(stats: &Stats, counter: &str, width: Precision) -> u64 {
    let now = Timestamp::now();
    let range = now.minus(100 * u64::from(width.as_seconds()))..now.plus(1);
    stats.total(&name(counter), width, range).await.expect("readable")
}

/// A task that records hits until it is stopped, and then returns the number of hits by page.
struct Writing {
    done: Arc<AtomicBool>,
    writer: tokio::task::JoinHandle<BTreeMap<String, u64>>,
}

impl Writing {
    fn start(recorder: Recorder) -> Self {
        let done = Arc::new(AtomicBool::new(false));
        let until = Arc::clone(&done);
        let writer = tokio::spawn(async move {
            let mut counts = BTreeMap::new();
            let hits = recorder.counter("hits");
            while !until.load(Ordering::Relaxed) {
                for n in 0..PAGES {
                    recorder.request(
                        &[recorder.counter(&page(n)).hit(), hits.hit()],
                        counter_core::visits::Agent::Human,
                    );
                    *counts.entry(page(n)).or_insert(0) += 1;
                    *counts.entry("hits".to_owned()).or_insert(0) += 1;
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            counts
        });
        Self { done, writer }
    }

    async fn end(self) -> BTreeMap<String, u64> {
        self.done.store(true, Ordering::Relaxed);
        self.writer.await.expect("no panic")
    }
}

/// Counters that flush in the background until this is stopped.
struct Running {
    recorder: Recorder,
    stats: Stats,
    upkeep: Upkeep,
}

impl Running {
    fn start(counters: Counters) -> Self {
        let (recorder, stats) = (counters.recorder(), counters.stats());
        Self { recorder, stats, upkeep: counters.spawn() }
    }

    async fn end(self) -> Stats {
        self.upkeep.stop().await.expect("everything is flushed");
        self.stats
    }
}

async fn assert_exact(stats: &Stats, expected: &BTreeMap<String, u64>) {
    for width in [60, 86_400] {
        for (counter, count) in expected {
            assert_eq!(total(stats, counter, precision(width)).await, *count, "{counter} by {width} s");
        }
    }
}

#[tokio::test]
async fn all_keys_of_a_counter_are_in_the_slot_of_its_shard() {
    let cluster = RedisCluster::start();
    let mut counters = over(store(&cluster).await);
    let (recorder, stats) = (counters.recorder(), counters.stats());
    let key = VisitorKey::new([7; 16]);
    for n in 0..PAGES {
        for visitor in 0..=n {
            recorder.record(recorder.counter(&page(n)), key.visitor(&[&visitor.to_le_bytes()]));
        }
    }
    counters.flush().await.expect("the cluster accepts it");
    let shards = Shards::try_from(16).expect("a good number");
    for n in 0..PAGES {
        let shard = shards.of(&page(n));
        let count = format!("{{access:{shard}}}count:86400:{}", page(n));
        assert_eq!(cluster.command_on_owner(&count, &["HLEN", &count]).text().as_deref(), Some("1"));
    }
    let owners: Vec<_> = cluster.nodes().iter().map(|node| node.int(&["DBSIZE"])).collect();
    assert!(owners.iter().all(|keys| *keys > 50), "every node has some: {owners:?}");

    let all: Vec<CounterName> = (0..PAGES).map(|n| name(&page(n))).collect();
    let known = stats.list_counters(None, 1000).await.expect("readable").counters;
    let mut names: Vec<_> = known.iter().map(|(name, _)| name.clone()).collect();
    let mut sorted = all.clone();
    sorted.sort();
    assert_eq!(names, sorted);
    names.truncate(7);
    let page_of_names = stats.list_counters(None, 7).await.expect("readable");
    assert_eq!(page_of_names.next.as_ref(), names.last());

    let today = Timestamp::now().minus(86_400)..Timestamp::now().plus(1);
    let uniques = stats.uniques(&all, precision(86_400), today).await.expect("readable");
    assert_eq!(uniques.visitors, PAGES as u64, "visitors of several shards are one union");
}

#[tokio::test]
async fn a_cleaner_cleans_every_shard() {
    let cluster = RedisCluster::start();
    let store = store(&cluster).await;
    let (_, mut cleaner) = over(store.clone()).into_parts();
    let now = Timestamp::now();
    let pages: Vec<_> = (0..PAGES).map(page).collect();
    count_at(&store, &pages, now.minus(130 * 86_400)).await;
    let cleaned = cleaner.clean_once(now).await.expect("it cleans");
    assert_eq!((cleaned.samples, cleaned.counters), (7 * PAGES as u64, 7 * PAGES as u64));
    assert!(cluster.keys("*count*").is_empty() && cluster.keys("*due*").is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn totals_are_exact_while_a_slot_moves_key_by_key() {
    let cluster = RedisCluster::start();
    let running = Running::start(over(store(&cluster).await));
    let writing = Writing::start(running.recorder.clone());
    let shards = Shards::try_from(16).expect("a good number");
    // Moves the slot of `hits` through all nodes, pausing in the middle of each migration.
    let tag = format!("{{access:{}}}", shards.of("hits"));
    let slot = cluster.slot_of(format!("{tag}known:"));
    for _ in 0..3 {
        tokio::time::sleep(Duration::from_millis(100)).await;
        let to = (cluster.master_of(slot) + 1) % cluster.nodes().len();
        let migration = cluster.begin_migration(slot, to);
        tokio::time::sleep(Duration::from_millis(50)).await;
        let keys = cluster.keys(&format!("{tag}*"));
        for some in keys.chunks(5) {
            cluster.move_keys(migration, some);
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
        cluster.end_migration(migration);
    }
    let applied = running.stats.ledger().hits.applied;
    until("hits arrive again", LIMIT, async || running.stats.ledger().hits.applied > applied + 1000).await;
    let expected = writing.end().await;
    let stats = running.end().await;
    assert_exact(&stats, &expected).await;
    let hits = stats.ledger().hits;
    assert_eq!((hits.applied, hits.dropped.total()), (expected.values().sum(), 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unavailable_node_delays_only_its_shards() {
    let mut cluster = RedisCluster::start_with(&["--appendonly", "yes", "--appendfsync", "always"]);
    let running = Running::start(over(store(&cluster).await));
    let writing = Writing::start(running.recorder.clone());
    let shards = Shards::try_from(16).expect("a good number");
    let node_of = |counter: &str| cluster.owner_of(format!("{{access:{}}}known:", shards.of(counter)));
    let gone = node_of("hits");
    let elsewhere = (0..PAGES).map(page).find(|page| node_of(page) != gone).expect("three nodes have pages");
    until("all is well", LIMIT, async || running.stats.ledger().hits.applied > 1000).await;

    cluster.kill_node(gone);
    let read = async || total(&running.stats, &elsewhere, precision(86_400)).await;
    for _ in 0..3 {
        let before = read().await;
        let grows = async || read().await > before;
        until("the other shards are not affected", LIMIT, grows).await;
    }
    until("the failure is reported", LIMIT, async || running.stats.health().failing_for.is_some()).await;
    let pending = running.stats.ledger().hits.pending;
    until("the rest is pending", LIMIT, async || running.stats.ledger().hits.pending > pending).await;
    assert!(running.stats.ledger().hits.balance());

    cluster.restart_node(gone);
    until("all goes on", LIMIT, async || running.stats.health().failing_for.is_none()).await;
    let expected = writing.end().await;
    let stats = running.end().await;
    assert_exact(&stats, &expected).await;
    assert_eq!(stats.ledger().hits.applied, expected.values().sum::<u64>());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counts_of_multiple_instances_on_a_cluster_add_up() {
    let cluster = RedisCluster::start();
    let mut running = Vec::new();
    for _ in 0..3 {
        running.push(Running::start(over(store(&cluster).await)));
    }
    let writing: Vec<_> = running.iter().map(|one| Writing::start(one.recorder.clone())).collect();
    tokio::time::sleep(Duration::from_millis(500)).await;
    let mut expected = BTreeMap::new();
    for one in writing {
        for (counter, count) in one.end().await {
            *expected.entry(counter).or_insert(0) += count;
        }
    }
    let mut stats = Vec::new();
    for one in running {
        stats.push(one.end().await);
    }
    assert_exact(&stats[0], &expected).await;
}

#[tokio::test]
async fn calls_to_an_unresponsive_cluster_time_out_concurrently() {
    // This accepts connections but never replies.
    let silent = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("redis-cluster://{}", silent.local_addr().expect("it is bound"));
    let store = RedisStore::builder().connect(&url).await.expect("an address");
    let mut calls = JoinSet::new();
    let started = Instant::now();
    for _ in 0..100 {
        let store = store.clone();
        calls.spawn(async move { store.lifetimes(&[name("a")]).await });
    }
    assert!(calls.join_all().await.iter().all(Result::is_err));
    // If the calls ran sequentially, each call would take more than a second.
    assert!(started.elapsed() < Duration::from_secs(40), "{:?}", started.elapsed());
}
