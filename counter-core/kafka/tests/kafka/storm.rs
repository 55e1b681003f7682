//! Chaos tests: while consumers are killed, paused and replaced, and brokers and stores fail, each record
//! must be counted once in both namespaces.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use counter_core::sketch::Sketch;
use counter_core::stores::{Namespace, Shards};
use counter_core::time::Bucket;
use counter_core::{CounterName, Counters, RedisStore, Timestamp, VisitorId};
use tests::{LIMIT, Process, RedisServer, Value, until};
use tokio::task::block_in_place;
use tokio::time::sleep;

use crate::brokers::{Brokers, signal};
use crate::consumers::{SESSION, start, totals};
use crate::random::Random;
use crate::topic::Topic;

#[path = "../../../../tests/suite/faults/chaos/servers.rs"]
#[expect(dead_code, reason = "only the suite uses everything")]
mod servers;

use servers::{Cluster, Keys, SentinelPair, Servers, SingleServer};

const PARTITIONS: i32 = 6;

/// Namespaces to count the topic in, and the number of consumers.
const NAMESPACES: [&str; 2] = ["access:", "again:"];
const MEMBERS: usize = 4;

/// A consumer, possibly suspended until some time.
struct Member {
    number: usize,
    namespace: &'static str,
    process: Process,
    suspended_until: Option<Instant>,
}

/// All running consumers.
struct Members {
    brokers: String,
    store: String,
    random: Random,
    running: Vec<Member>,
    /// False if a group might wait forever for killed members. In this case, each member needs a separate
    /// group.
    has_groups: bool,
    started: u32,
}

impl Members {
    /// Starts a consumer in a shared or a separate group. If a partition is read by two groups, this is
    /// equivalent to two members that both think they own it. In a shared group, the member can be either
    /// static or new.
    fn start(&mut self, number: usize, namespace: &'static str) {
        self.started += 1;
        let group = match self.has_groups && self.random.among(0..3) > 0 {
            true => namespace.to_owned(),
            false => format!("{namespace}{}", self.started),
        };
        let chunk = 10_u64.pow(u32::try_from(self.random.among(0..5)).expect("small")).to_string();
        let mut arguments = vec!["--group", &group, "--namespace", namespace, "--commit-records", &chunk];
        let instance = format!("member-{number}");
        if self.random.among(0..2) == 0 {
            arguments.extend(["--instance-id", &instance]);
        }
        let process = start(&self.brokers, &self.store, &arguments);
        self.running.push(Member { number, namespace, process, suspended_until: None });
    }

    /// Removes a random member.
    fn take(&mut self) -> Member {
        let index = self.random.among(0..self.running.len() as u64);
        self.running.swap_remove(usize::try_from(index).expect("few members"))
    }

    fn wake(&mut self, all: bool) {
        for Member { process, suspended_until, .. } in &mut self.running {
            if suspended_until.is_some_and(|until| all || until <= Instant::now()) {
                signal(process.id(), "CONT");
                *suspended_until = None;
            }
        }
    }

    /// Injects a fault into a random member and returns the name of the fault.
    async fn fault(&mut self) -> &'static str {
        let mut member = self.take();
        match self.random.among(0..10) {
            0..7 => {
                member.process.kill();
                self.start(member.number, member.namespace);
                "kills"
            }
            7..9 => {
                signal(member.process.id(), "STOP");
                let pause = Brokers::pause(&mut self.random);
                member.suspended_until = Some(Instant::now() + pause);
                self.running.push(member);
                if pause > SESSION { "pauses beyond the session" } else { "pauses" }
            }
            _ => {
                if member.suspended_until.is_some() {
                    signal(member.process.id(), "CONT");
                }
                member.process.terminate();
                totals(member.process).await;
                self.start(member.number, member.namespace);
                "restarts"
            }
        }
    }
}

/// A server that can return to a saved state.
struct RestoringServer(RedisServer);

impl Servers for RestoringServer {
    const CAN_FORGET: bool = true;
    const FAULTS: u64 = 2;

    type Store = RedisStore;

    async fn store(&self) -> RedisStore {
        servers::store(self).await
    }

    async fn batches(&self) -> u64 {
        servers::batches(self)
    }

    async fn reference(&self, counter: &CounterName, bucket: Bucket, visitors: &[VisitorId]) -> Sketch {
        servers::reference(self, counter, bucket, visitors)
    }

    async fn fault(&mut self, kind: u64, random: &mut Random) -> &'static str {
        if kind == 0 {
            self.0.command(&["SAVE"]);
            return "saves";
        }
        // This loses all counts since the save, which must be read again.
        block_in_place(|| self.0.kill());
        sleep(random.millis(0..1500)).await;
        block_in_place(|| self.0.restart());
        "rollbacks"
    }

    fn all_faults_took_effect(&self) -> bool {
        true
    }

    async fn heal(&mut self) {
        self.0.command(&["SAVE"]);
    }
}

impl Keys for RestoringServer {
    fn url(&self) -> String {
        self.0.url()
    }

    fn shards(&self) -> Option<Shards> {
        None
    }

    fn command(&self, _: &str, words: &[Vec<u8>]) -> Value {
        self.0.command(words)
    }

    fn keys(&self, pattern: &str) -> Vec<String> {
        self.0.strings(&["KEYS", pattern])
    }
}

fn seconds() -> u64 {
    let seconds = std::env::var("COUNTER_STORM_SECONDS").ok();
    seconds.map_or(15, |seconds| seconds.parse().expect("COUNTER_STORM_SECONDS is a whole number"))
}

async fn store(servers: &impl Keys, namespace: &str) -> RedisStore {
    let namespace: Namespace = namespace.parse().expect("a namespace");
    let mut store = None;
    until("the store is available", LIMIT, async || {
        store = RedisStore::connect(&servers.url(), namespace.clone()).await.ok();
        store.is_some()
    })
    .await;
    store.expect("connected")
}

async fn counters(servers: &impl Keys, namespace: &str) -> Counters {
    Counters::builder(store(servers, namespace).await).build().expect("good settings")
}

async fn storm<S: Servers + Keys>(name: &str, mut servers: S) {
    let mut random = Random::storm(name);
    let mut events = BTreeMap::<&'static str, u32>::new();
    let mut brokers = Brokers::start(PARTITIONS);
    let mut topic = Topic::new(&brokers.addresses, PARTITIONS.cast_unsigned().into(), random.fork());
    // Create the salts before the counts, otherwise a rollback of the store could lose just the salts.
    for namespace in NAMESPACES {
        let counters = counters(&servers, namespace).await;
        for back in [0, Topic::MAX_AGE] {
            let at = Timestamp::now().minus(back);
            counters.sources().visitor_key(at).await.expect("the store is available");
        }
    }
    servers.heal().await;
    topic.produce(20_000);
    topic.flush();

    let mut members = Members {
        brokers: brokers.addresses.clone(),
        store: servers.url(),
        random: random.fork(),
        running: Vec::new(),
        has_groups: brokers.are_in_memory(),
        started: 0,
    };
    for number in 0..MEMBERS {
        members.start(number, NAMESPACES[number % NAMESPACES.len()]);
    }
    let end = Instant::now() + Duration::from_secs(seconds());
    while Instant::now() < end {
        topic.produce(random.among(50..500));
        sleep(random.millis(50..600)).await;
        members.wake(false);
        let event = match random.among(0..12) {
            0..9 => members.fault().await,
            9 => {
                brokers.interrupt(&mut random);
                "broker outages"
            }
            10 => {
                brokers.move_leader(&mut random);
                "leaders"
            }
            _ => {
                let kind = random.among(0..S::FAULTS);
                servers.fault(kind, &mut random).await
            }
        };
        *events.entry(event).or_default() += 1;
    }
    topic.flush();
    members.wake(true);
    servers.heal().await;
    for mut member in members.running.drain(..) {
        member.process.terminate();
        totals(member.process).await;
    }
    let mut missing = Vec::new();
    for namespace in NAMESPACES {
        // Use large chunks, because some members only take a single record at a time.
        let last = start(
            &members.brokers,
            &members.store,
            &["--group", &format!("end-{namespace}"), "--namespace", namespace],
        );
        members.running.push(Member { number: 0, namespace, process: last, suspended_until: None });
        let counters = counters(&servers, namespace).await;
        missing.push(topic.missing(&counters).await);
        let counted = until("everything is counted", LIMIT, async || topic.missing(&counters).await <= 0);
        tokio::select! {
            () = counted => {}
            () = sleep(LIMIT / 2) => {
                let missing = topic.missing(&counters).await;
                let output: String = members.running.iter().map(|member| member.process.to_string()).collect();
                panic!("{missing} hits are missing in {namespace}: {output}");
            }
        }
    }
    eprintln!("{name}: {events:?}, {} records, {missing:?} hits were still to be counted", topic.records);
    for mut member in members.running.drain(..) {
        member.process.terminate();
        totals(member.process).await;
    }
    for namespace in NAMESPACES {
        topic.assert_counted(&store(&servers, namespace).await).await;
        // Reading all records again must not change the counts.
        let last = ["--group", "last", "--namespace", namespace, "--until-end"];
        let last = totals(start(&brokers.addresses, &servers.url(), &last)).await;
        assert_eq!((last.recorded, last.malformed, last.lost), (0, 0, 0), "{last:?}");
        assert_eq!(last.already_counted, topic.records, "{last:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn totals_are_exact_if_the_store_returns_to_an_older_state() {
    storm("over a store that goes back", RestoringServer(RedisServer::start())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn totals_are_exact_if_replies_are_lost() {
    storm("over a store that loses replies", SingleServer::start().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn totals_are_exact_across_failovers() {
    storm("of failovers", SentinelPair::start()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn totals_are_exact_while_cluster_slots_move() {
    storm("over a cluster", Cluster::start()).await;
}
