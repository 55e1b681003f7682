//! Scalability benchmark: the cost of a hit as threads are added, and the cost of an instance as instances
//! are added.
//!
//! - `threads` measures recording threads.
//! - `instances` measures up to 1,000 recorders and flushers in this process on a cluster with three masters.
//!   Groups of 25 instances share their connections.
//! - `fleet COUNTERS SECONDS` starts a process per instance to find the saturation point.
//! - `regions COUNTERS SECONDS` starts three regions of such processes, and reads them as a fleet.
//!
//! All but `regions` are run if you don't pass arguments.

mod fleet;
mod regions;

use std::error::Error;
use std::num::NonZeroU32;
use std::time::Instant;

use bench::server::Figures;
use bench::{past, processor, table};
use counter_core::stores::Namespace;
use counter_core::visitor::VisitorKey;
use counter_core::{Counters, MemoryStore, RedisStore, Timestamp};
use fleet::Load;
use tests::RedisCluster;

const HITS_PER_THREAD: u32 = 4_000_000;
/// Counters that an instance hits every second.
const COUNTERS: usize = 20;
/// Instances that share their connections.
const INSTANCES_PER_CONNECTION: usize = 25;
/// How long to measure a given number of instances, in seconds.
const SECONDS: u64 = 5;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    match &*arguments.iter().map(String::as_str).collect::<Vec<_>>() {
        [] => {
            threads()?;
            runtime.block_on(instances())?;
            fleet::print(Load::of(&[])?)
        }
        ["threads"] => threads(),
        ["instances"] => runtime.block_on(instances()),
        ["fleet", load @ ..] => fleet::print(Load::of(load)?),
        ["regions", load @ ..] => runtime.block_on(regions::print(Load::of(load)?)),
        ["instance", one @ ..] => runtime.block_on(fleet::instance(one)),
        _ => {
            Err("usage: scale [threads | instances | (fleet | regions) [COUNTERS [SECONDS BETWEEN FLUSHES]]]"
                .into())
        }
    }
}

fn threads() -> Result<(), Box<dyn Error>> {
    let mut rows = Vec::new();
    for threads in [1, 2, 4, 8] {
        let site = Counters::builder(MemoryStore::new()).build()?;
        let (started, time) = (Instant::now(), processor::time());
        std::thread::scope(|scope| {
            for thread in 0..threads {
                let recorder = site.recorder();
                scope.spawn(move || {
                    let counters = past::names(100);
                    let counters: Vec<_> = counters.iter().map(|name| recorder.counter(name)).collect();
                    let key = VisitorKey::new([7; 16]);
                    let visitors: Vec<_> =
                        (0..64_u32).map(|n| key.visitor(&[&(64 * thread + n).to_le_bytes()])).collect();
                    let pairs = counters.iter().cycle().zip(visitors.iter().cycle());
                    for (counter, visitor) in pairs.take(HITS_PER_THREAD as usize) {
                        recorder.record(*counter, *visitor);
                    }
                });
            }
        });
        let hits = f64::from(threads) * f64::from(HITS_PER_THREAD);
        let (took, time) = (started.elapsed().as_secs_f64(), (processor::time() - time).as_secs_f64());
        assert_eq!(site.stats().ledger().hits.recorded as f64, hits);
        rows.push(vec![
            threads.to_string(),
            format!("{:.1}", hits / took / 1e6),
            format!("{:.1}", time / hits * 1e9),
        ]);
    }
    let cores = std::thread::available_parallelism()?;
    println!("Recording threads on {cores} cores:\n");
    table::print(&["threads", "million hits per second", "CPU ns per hit"], &rows);
    Ok(())
}

async fn instances() -> Result<(), Box<dyn Error>> {
    let mut rows = Vec::new();
    for instances in [1, 10, 100, 1000] {
        let cluster = RedisCluster::start_with(&["--appendonly", "no"]);
        let mut all = Vec::new();
        let mut stores: Vec<RedisStore> = Vec::new();
        for instance in 0..instances {
            if instance % INSTANCES_PER_CONNECTION == 0 {
                stores.push(RedisStore::connect(&cluster.url(), Namespace::default()).await?);
            }
            let store = stores[instance / INSTANCES_PER_CONNECTION].clone();
            all.push(Counters::builder(store).build()?);
        }
        let start = Timestamp::now();
        second(&mut all, start).await?;
        let before: Vec<_> = cluster.nodes().iter().map(Figures::of).collect();
        let (started, time) = (Instant::now(), processor::time());
        for late in 1..=SECONDS {
            second(&mut all, start.plus(late)).await?;
        }
        let (took, time) = (started.elapsed().as_secs_f64(), processor::time() - time);
        let work: Vec<_> = cluster
            .nodes()
            .iter()
            .zip(&before)
            .map(|(node, before)| Figures::of(node).since(before))
            .collect();
        let each = instances as f64 * SECONDS as f64;
        let sum = |of: fn(&Figures) -> f64| work.iter().map(of).sum::<f64>() / each;
        let operations = sum(|work| work.operations() as f64);
        let server = sum(|work| work.processor.as_secs_f64() * 1e3);
        let applied: u64 = all.iter().map(|one| one.stats().ledger().hits.applied).sum();
        assert_eq!(applied, instances as u64 * COUNTERS as u64 * (SECONDS + 1), "all hits are applied");
        rows.push(vec![
            instances.to_string(),
            format!("{:.1}", sum(|work| work.calls("evalsha").count as f64)),
            format!("{operations:.0}"),
            format!("{:.2}", time.as_secs_f64() * 1e3 / each),
            format!("{server:.2}"),
            format!("{:.2}", server * 1e3 / operations),
            format!("{:.0}", 100.0 * server / 1e3 * instances as f64 / 3.0),
            format!("{:.2}", took / SECONDS as f64),
        ]);
    }
    println!(
        "\nCost per second of instances with hits on {COUNTERS} counters each, on three masters with 16 shards:\n"
    );
    table::print(
        &[
            "instances",
            "calls per instance",
            "operations per instance",
            "client CPU ms per instance",
            "server CPU ms per instance",
            "µs per operation",
            "CPU % of each master",
            "s until all acknowledged",
        ],
        &rows,
    );
    Ok(())
}

/// Records a hit on all counters for every instance, then flushes.
async fn second(all: &mut [Counters], at: Timestamp) -> Result<(), Box<dyn Error>> {
    for one in &mut *all {
        let recorder = one.recorder();
        for name in past::names(COUNTERS) {
            recorder.record_at(recorder.counter(&name), None, at, NonZeroU32::MIN);
        }
    }
    futures_util::future::try_join_all(all.iter_mut().map(fleet::flush)).await?;
    Ok(())
}
