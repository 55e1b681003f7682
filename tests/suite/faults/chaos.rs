//! Laws 1, 2 and 5 in a storm: random faults while multiple instances write, flush and clean.
//!
//! Set `COUNTER_STORM_SECONDS` to change the duration of a storm (4 s by default), and `COUNTER_STORM_SEED`
//! to repeat the random decisions. The seed determines the operations and their times, but not the order of
//! concurrent tasks. On a slow machine, a storm will take longer, because it needs a minimum number of
//! faults.

mod record;
mod archiving;
mod clients;
mod instance;
mod servers;
mod databases;
mod regions;

use std::collections::BTreeMap;
use std::time::Duration;

use counter_core::Timestamp;
use tests::history::History;
use tests::until;
use tokio::time::{Instant, sleep};

use crate::random::{Random, Rounds};
use archiving::Archiving;
use clients::Clients;
use databases::{File, Server};
use instance::{Cleaning, Instance, cleaner};
use record::Record;
use servers::{Cluster, SentinelPair, Servers, SingleServer};

use crate::support::storm_seconds;

/// Timeout for anything that we wait for.
const LIMIT: Duration = tests::LIMIT;

const INSTANCES: usize = 3;
const CLEANERS: usize = 2;

/// Timeout of a storm. On a slow and busy machine, a hundred transactions of a database can take minutes.
const STORM_LIMIT: Duration = Duration::from_secs(5 * LIMIT.as_secs());

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn samples_and_visitors_are_exact_in_a_storm_before_one_server() {
    let storm = Storm::announce("before_one_server");
    storm.run_on(&mut SingleServer::start().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn samples_and_visitors_are_exact_in_a_storm_without_scripts() {
    let storm = Storm::announce("where_scripts_are_refused");
    storm.run_on(&mut SingleServer::start_without_scripts().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn samples_and_visitors_are_exact_in_a_storm_of_failovers() {
    let storm = Storm::announce("of_failovers");
    let mut servers = SentinelPair::start();
    storm.run_on(&mut servers).await;
    eprintln!("{} acknowledged batches were lost and sent again", servers.lost);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn samples_and_visitors_are_exact_in_a_storm_on_a_cluster() {
    Storm::announce("over_a_cluster").run_on(&mut Cluster::start()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn samples_and_visitors_are_exact_in_a_storm_on_postgres() {
    Storm::announce("before_postgres").run_on(&mut Server::postgres().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn samples_and_visitors_are_exact_in_a_storm_on_mariadb() {
    Storm::announce("before_mariadb").run_on(&mut Server::mariadb().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn samples_and_visitors_are_exact_in_a_storm_on_sqlite() {
    Storm::announce("over_a_file_of_sqlite").run_on(&mut File::new().await).await;
}

/// A period of random faults.
#[derive(Debug)]
struct Storm {
    name: &'static str,
    seed: u64,
    random: Random,
    time: Duration,
    faults: BTreeMap<&'static str, u32>,
}

impl Storm {
    fn announce(name: &'static str) -> Self {
        let seed = Random::storm_seed();
        let time = Duration::from_secs(storm_seconds());
        eprintln!("a storm {name}: COUNTER_STORM_SEED={seed} COUNTER_STORM_SECONDS={}", time.as_secs());
        Self { name, seed, random: Random::new(seed), time, faults: BTreeMap::new() }
    }

    async fn run_on<S: Servers>(mut self, servers: &mut S) {
        let (start, began) = (Instant::now(), Timestamp::now());
        let mut kinds = Rounds::of(S::FAULTS);
        let archiving = Archiving::start().await;
        let mut cleaning = Vec::new();
        for _ in 0..CLEANERS {
            cleaning.push(Cleaning::start(archiving.of(servers.store().await)));
        }
        let copying = archiving.copy(servers.store().await, self.random.fork());
        let store = servers.store().await;
        let clients = Clients::start(self.name, store, servers.promise(), &mut self.random);
        let mut instances = Vec::new();
        for _ in 0..INSTANCES {
            instances.push(self.start_instance(servers, &archiving, clients.history()).await);
        }
        self.inject_faults(servers, &mut kinds, self.time / 2).await;

        let old = instances.remove(0);
        let mut record = if S::CAN_FORGET {
            // After a failover, an instance sends the last minute again, but only while it is running. So we
            // have to heal the servers before it ends, and then wait until the replica has its last batches:
            // these are acknowledged earlier, because replication is asynchronous.
            servers.heal().await;
            let record = old.end().await;
            servers.heal().await;
            record
        } else {
            let (record, ()) =
                tokio::join!(old.end(), self.inject_faults(servers, &mut kinds, self.time / 10));
            record
        };
        instances.push(self.start_instance(servers, &archiving, clients.history()).await);
        self.inject_faults(servers, &mut kinds, self.time * 4 / 10).await;
        let deadline = Instant::now() + STORM_LIMIT;
        while !servers.all_faults_took_effect() {
            assert!(Instant::now() < deadline, "not all faults took effect: {:?}", self.faults);
            self.inject_faults(servers, &mut kinds, Duration::ZERO).await;
        }
        until("there were many batches", STORM_LIMIT, async || servers.batches().await > 100).await;

        servers.heal().await;
        for instance in instances {
            record.add(instance.end().await);
        }
        clients.end().await;
        // The latest writes at the edge of a retention will expire within seconds.
        let removed = || cleaning.iter().map(Cleaning::removed).sum::<u64>();
        until("the cleaners have removed samples", LIMIT, async || removed() > 0).await;
        let removed = removed();
        for cleaning in cleaning {
            cleaning.end().await;
        }
        archiving.compare(servers.store().await, &record, copying, began).await;
        self.compare(servers, &record, began).await;
        let batches = servers.batches().await;
        let faults: u32 = self.faults.values().sum();
        eprintln!(
            "{}: {faults} faults {:?}, {batches} batches, {} hits, {removed} samples removed, {:.1?}",
            self.name,
            self.faults,
            record.hits,
            start.elapsed()
        );
    }

    /// Starts an instance without waiting for a first safe batch, because lost data of a new instance will be
    /// sent again too.
    async fn start_instance<S: Servers>(
        &mut self,
        servers: &S,
        archiving: &Archiving,
        history: History,
    ) -> Instance {
        Instance::start(archiving.of(servers.store().await), S::MAX_PENDING, history, &mut self.random)
    }

    /// Runs for this time with at least two faults: a failover can already take longer.
    async fn inject_faults(&mut self, servers: &mut impl Servers, kinds: &mut Rounds, time: Duration) {
        let (end, mut dealt) = (Instant::now() + time, 0);
        while Instant::now() < end || dealt < 2 {
            dealt += 1;
            let fault = servers.fault(kinds.next(&mut self.random), &mut self.random).await;
            *self.faults.entry(fault).or_default() += 1;
            sleep(self.random.millis(0..100)).await;
        }
    }

    async fn compare(&self, servers: &impl Servers, record: &Record, began: Timestamp) {
        let store = servers.store().await;
        let mut cleaner = cleaner(store.clone());
        let now = Timestamp::now();
        until("all is clean", LIMIT, async || cleaner.clean_once(now).await.is_ok()).await;
        record.compare(&store, servers, began, now).await;
    }
}

impl Drop for Storm {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("it was the storm {} with COUNTER_STORM_SEED={}", self.name, self.seed);
        }
    }
}
