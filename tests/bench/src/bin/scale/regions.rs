//! Three regions, each with its own Redis and processes, and the dashboard of a fleet that adds them up.

use std::error::Error;
use std::time::Instant;

use bench::overview::Overview;
use bench::server::Figures;
use bench::{past, table};
use counter_core::fleet::Fleet;
use counter_core::stores::Namespace;
use counter_core::{CounterName, Counters, RedisStore, Timestamp};
use tests::RedisServer;
use tokio::time::sleep;

use crate::fleet::{Instance, Load, Work, machine};

const REGIONS: usize = 3;

/// Processes per region.
const INSTANCES: [u32; 4] = [0, 1, 4, 16];

/// Prints the time of a page of the fleet and of a page of a single region, for regions of different sizes.
pub(crate) async fn print(load: Load) -> Result<(), Box<dyn Error>> {
    let mut rows = Vec::new();
    for instances in INSTANCES {
        rows.push(row(instances, load).await?);
    }
    println!(
        "\n{REGIONS} regions of processes with ten hits per second on each of {} counters, and a flush every {} s:\n",
        load.counters,
        load.interval.as_secs()
    );
    table::print(
        &[
            "instances per region",
            "operations per second and region",
            "page of a region, ms",
            "page of the fleet, ms",
            "slowest page of the fleet, ms",
            "operations of a page: region",
            "fleet",
            "CPU % of the machine",
        ],
        &rows,
    );
    Ok(())
}

async fn row(instances: u32, load: Load) -> Result<Vec<String>, Box<dyn Error>> {
    let (servers, names) = ([(); REGIONS].map(|()| RedisServer::start()), past::names(load.counters));
    for server in &servers {
        past::write(server, "access:", &names, &past::default_precisions(), 120, Timestamp::now());
    }
    let home = RedisStore::connect(&servers[0].url(), Namespace::default()).await?;
    let mut fleet = Fleet::new("0", home);
    for (number, server) in servers.iter().enumerate().skip(1) {
        let store = RedisStore::connect(&server.url(), Namespace::default()).await?;
        fleet = fleet.site(&number.to_string(), store)?;
    }
    let stats = Counters::builder(fleet).build()?.stats();
    let region = stats.of_site("0").ok_or("a site of the fleet")?;
    let names: Vec<CounterName> = names.iter().map(|name| name.parse()).collect::<Result<_, _>>()?;
    let before = stats.lifetimes(&names).await?.iter().sum::<u64>();
    let operations = || servers.iter().map(|server| Figures::of(server).operations()).sum::<u64>();

    let (region, all_regions) = (Overview::new(region)?, Overview::new(stats.clone())?);
    let mut pages = Vec::new();
    for overview in [&region, &all_regions] {
        overview.render("30d").await?;
        let before = operations();
        overview.render("30d").await?;
        pages.push(operations() - before);
    }

    let mut processes = Vec::new();
    for number in 0..instances {
        for server in &servers {
            processes.push(Instance::start(&server.url(), number, instances, load)?);
        }
    }
    for process in &mut processes {
        process.next_line()?;
    }
    for process in &mut processes {
        process.start_load()?;
    }
    sleep(load.interval).await;
    let (start, busy, reads) = (operations(), machine(), Instant::now());
    let (mut one, mut all) = (Vec::new(), Vec::new());
    while reads.elapsed() < load.measured() {
        for (overview, times) in [(&region, &mut one), (&all_regions, &mut all)] {
            times.push(overview.render("30d").await?.as_secs_f64() * 1e3);
        }
        // Like a browser that refreshes.
        sleep(load.interval / 10).await;
    }
    let rounds = all.len() as u64;
    let hits = operations() - start - rounds * (pages[0] + pages[1]);
    let (took, now) = (reads.elapsed().as_secs_f64(), machine());
    let recorded = Work::of(&mut processes)?.recorded;
    let counted = stats.lifetimes(&names).await?.iter().sum::<u64>() - before;
    assert_eq!(counted, recorded, "every hit is counted exactly once");
    Ok(vec![
        instances.to_string(),
        format!("{:.0}", hits as f64 / took / REGIONS as f64),
        format!("{:.1}", table::quantile(&mut one, 0.5)),
        format!("{:.1}", table::quantile(&mut all, 0.5)),
        format!("{:.1}", table::quantile(&mut all, 1.0)),
        pages[0].to_string(),
        pages[1].to_string(),
        format!("{:.0}", (now.0 - busy.0) / (now.1 - busy.1) * 100.0),
    ])
}
