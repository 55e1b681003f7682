//! A storm over three regions: a server, a pair of servers and a file, which are read as one.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use counter_core::fleet::Fleet;
use counter_core::visits::{Extent, Hits};
use counter_core::{Counters, MemoryStore, Recorder, Stats, Timestamp};
use tests::history::Promise;
use tests::{FaultProxy, until};
use tokio::time::{Instant, sleep};

use super::clients::Clients;
use super::databases::File;
use super::instance::{Instance, cleaner};
use super::record::{Record, all_counters, precisions};
use super::servers::{SentinelPair, Servers, SingleServer, store_at};
use super::{LIMIT, Storm};
use crate::random::Rounds;

/// How long a read waits for a region.
const TIMEOUT: Duration = Duration::from_secs(1);

/// Reads the fleet all the time.
#[derive(Debug)]
struct Reader {
    stats: Stats,
    /// The regions that never lose acknowledged hits, and all regions.
    durable: Vec<Recorder>,
    all: Vec<Recorder>,
    done: Arc<AtomicBool>,
}

/// The number of reads with all regions, and with some of them.
#[derive(Debug, Default)]
struct Reads {
    complete: u32,
    partial: u32,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fleet_counts_what_its_regions_acknowledged_in_a_storm() {
    let mut storm = Storm::announce("over_three_regions");
    let (mut eu, mut us, mut asia) = (SingleServer::start().await, SentinelPair::start(), File::new().await);
    // Partitions are between the reader and a region, so they do not affect the instances there.
    let link = FaultProxy::start(eu.address()).await;
    let in_asia = asia.store().await;
    let fleet = Fleet::reader(MemoryStore::new(), "eu", store_at(&eu, &link.url()).await)
        .site("us", us.store().await)
        .and_then(|fleet| fleet.site("asia", in_asia))
        .expect("three names")
        .timeout(TIMEOUT)
        .shared_visitors();
    let began = Timestamp::now();
    let random = &mut storm.random;
    let clients = [
        Clients::start("region eu", eu.store().await, Promise::Immediate, random),
        Clients::start("region us", us.store().await, Promise::Eventual, random),
        Clients::start("region asia", asia.store().await, Promise::Immediate, random),
    ];
    let [eu_history, us_history, asia_history] = clients.each_ref().map(Clients::history);
    let instances = [
        Instance::start(eu.store().await, SingleServer::MAX_PENDING, eu_history, random),
        Instance::start(us.store().await, SentinelPair::MAX_PENDING, us_history, random),
        Instance::start(asia.store().await, File::MAX_PENDING, asia_history, random),
    ];
    let [at_eu, at_us, at_asia] = instances.each_ref().map(Instance::recorder);
    let all_regions = Counters::builder(fleet.clone()).precisions(precisions()).build().expect("a grid");
    let (done, stats) = (Arc::<AtomicBool>::default(), all_regions.stats());
    let (durable, all) = (vec![at_eu.clone(), at_asia.clone()], vec![at_eu, at_us, at_asia]);
    let reader = tokio::spawn(Reader { stats: stats.clone(), durable, all, done: Arc::clone(&done) }.read());

    let mut kinds = [SingleServer::FAULTS, SentinelPair::FAULTS, File::FAULTS].map(Rounds::of);
    let (end, mut partitions) = (Instant::now() + storm.time, 0);
    while Instant::now() < end || partitions < 2 || !us.all_faults_took_effect() {
        link.black_hole(true);
        partitions += 1;
        storm.inject_faults(&mut eu, &mut kinds[0], Duration::ZERO).await;
        storm.inject_faults(&mut us, &mut kinds[1], Duration::ZERO).await;
        // The reader has to notice it.
        sleep(2 * TIMEOUT).await;
        link.black_hole(false);
        storm.inject_faults(&mut asia, &mut kinds[2], Duration::ZERO).await;
        sleep(2 * TIMEOUT).await;
    }

    eu.heal().await;
    us.heal().await;
    let mut record = Record::default();
    for instance in instances {
        record.add(instance.end().await);
    }
    for clients in clients {
        clients.end().await;
    }
    done.store(true, Ordering::Relaxed);
    let reads = reader.await.expect("every answer was right");
    assert!(reads.complete > 0 && reads.partial > 0, "{reads:?}");
    let now = Timestamp::now();
    clean(eu.store().await, now).await;
    clean(us.store().await, now).await;
    clean(asia.store().await, now).await;
    until("all regions can be read", LIMIT, async || stats.lifetimes(&all_counters()).await.is_ok()).await;
    record.compare(&fleet.timeout(LIMIT), &asia, began, now).await;
    eprintln!("{}: {:?}, {partitions} partitions, {reads:?}, {} hits", storm.name, storm.faults, record.hits);
}

async fn clean(store: impl counter_core::Store, now: Timestamp) {
    let mut cleaner = cleaner(store);
    until("all is clean", LIMIT, async || cleaner.clean_once(now).await.is_ok()).await;
}

impl Reader {
    async fn read(self) -> Reads {
        let (mut reads, counters) = (Reads::default(), all_counters());
        while !self.done.load(Ordering::Relaxed) {
            let hits = |regions: &[Recorder], hits: fn(Hits) -> u64| {
                regions.iter().map(|region| hits(region.ledger().hits)).sum::<u64>()
            };
            let (acknowledged, started) = (hits(&self.durable, |hits| hits.applied), Instant::now());
            let lifetimes = self.stats.lifetimes_by_counter(&counters).await;
            assert!(started.elapsed() < LIMIT, "an answer took {:?}", started.elapsed());
            let recorded = hits(&self.all, |hits| hits.recorded);
            match lifetimes.map(|lifetimes| lifetimes.into_iter().collect::<Result<Vec<_>, _>>()) {
                Ok(Ok(lifetimes)) => {
                    let sum = lifetimes.iter().sum();
                    assert!(
                        (acknowledged..=recorded).contains(&sum),
                        "{acknowledged} <= {sum} <= {recorded}"
                    );
                    reads.complete += 1;
                }
                Ok(Err(unreadable)) => {
                    assert!(
                        unreadable.extent == Extent::Part && unreadable.key.starts_with("site "),
                        "{unreadable:?}"
                    );
                    reads.partial += 1;
                }
                Err(_) => {}
            }
            sleep(Duration::from_millis(100)).await;
        }
        reads
    }
}
