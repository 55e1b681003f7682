//! Window benchmark: a decision about a request in a fixed and in a sliding window, in memory and in each store.
//!
//! Calls alternate between both windows, and a thousand counters share the load.

use std::error::Error;
use std::num::NonZeroU32;
use std::time::Instant;

use bench::server::Figures;
use bench::{processor, table};
use counter_core::stores::Namespace;
use counter_core::visitor::VisitorKey;
use counter_core::window::{Dimensions, Window, WindowCounters};
use counter_core::{MemoryStore, RedisStore, SqlStore};
use futures_util::future::join_all;
use tests::{MariaDb, Postgres, RedisServer};

const COUNTERS: usize = 1000;
const ROUNDS: usize = 21;
/// Calls at the same time.
const CONCURRENT: usize = 64;

fn main() -> Result<(), Box<dyn Error>> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(measure_all())
}

async fn measure_all() -> Result<(), Box<dyn Error>> {
    let window = Window::try_from(600)?;
    let folder = tempfile::tempdir()?;
    let redis = RedisServer::start();
    let (mut postgres, mut mariadb) = (Postgres::start(), MariaDb::start());
    let sqlite = format!("sqlite:{}", folder.path().join("counts.db").display());
    let (postgres_url, mariadb_url) = (postgres.database(), mariadb.database());
    let (postgres, mariadb) = (postgres.id(), mariadb.id());
    let redis_store = RedisStore::connect(&redis.url(), Namespace::default()).await?;
    let sql = async |url: &str| SqlStore::builder().create_tables().connect(url).await;
    let (sqlite, postgres_store, mariadb_store) =
        (sql(&sqlite).await?, sql(&postgres_url).await?, sql(&mariadb_url).await?);
    let stores: [(_, _, _, &dyn Fn() -> f64); 5] = [
        ("memory", WindowCounters::new(MemoryStore::new(), window), 100_000, &|| 0.0),
        ("Redis", WindowCounters::new(redis_store, window), 3200, &|| {
            Figures::of(&redis).processor.as_secs_f64()
        }),
        ("SQLite", WindowCounters::new(sqlite, window), 640, &|| 0.0),
        ("PostgreSQL", WindowCounters::new(postgres_store, window), 640, &|| {
            processor::process_tree_seconds(postgres)
        }),
        ("MariaDB", WindowCounters::new(mariadb_store, window), 640, &|| {
            processor::process_tree_seconds(mariadb)
        }),
    ];
    let mut rows = Vec::new();
    for (name, counters, calls, server) in stores {
        rows.push(row(name, &counters, calls, server).await);
    }
    table::print(
        &["store", "fixed, µs", "sliding, µs", "ratio", "server CPU: fixed, µs", "sliding, µs", "ratio"],
        &rows,
    );
    Ok(())
}

/// Measures rounds of `calls` in each window. `server` returns the CPU time of the store in seconds.
async fn row(name: &str, counters: &WindowCounters, calls: usize, server: &dyn Fn() -> f64) -> Vec<String> {
    let key = VisitorKey::new([7; 16]);
    let clients: Vec<_> = (0..COUNTERS)
        .map(|n| Dimensions::new().scope("bench").visitor("client", key.visitor(&[&n.to_le_bytes()])))
        .collect();
    let (mut times, mut work) = ([Vec::new(), Vec::new()], [0.0, 0.0]);
    for round in 0..=ROUNDS {
        for is_sliding in [false, true] {
            let (before, started) = (server(), Instant::now());
            if name == "memory" {
                for client in clients.iter().cycle().take(calls) {
                    call(counters, client, is_sliding).await;
                }
            } else {
                let clients = &clients;
                let task = |first| async move {
                    for n in (first..calls).step_by(CONCURRENT) {
                        call(counters, &clients[n % COUNTERS], is_sliding).await;
                    }
                };
                join_all((0..CONCURRENT).map(task)).await;
            }
            // The first round creates the counters.
            if round > 0 {
                times[usize::from(is_sliding)].push(started.elapsed().as_secs_f64() * 1e6 / calls as f64);
                work[usize::from(is_sliding)] += (server() - before) * 1e6 / (calls * ROUNDS) as f64;
            }
        }
    }
    let [fixed, sliding] = times.map(|mut times| table::quantile(&mut times, 0.5));
    let mut cells = vec![name.to_owned(), format!("{fixed:.2}"), format!("{sliding:.2}")];
    cells.push(format!("{:.2}", sliding / fixed));
    if work[0] > 0.0 {
        cells.extend(work.map(|work| format!("{work:.1}")));
        cells.push(format!("{:.2}", work[1] / work[0]));
    } else {
        cells.extend([(); 3].map(|()| String::new()));
    }
    cells
}

async fn call(counters: &WindowCounters, client: &Dimensions, is_sliding: bool) {
    let decision = match is_sliding {
        true => counters.try_acquire_sliding(client, u32::MAX, NonZeroU32::MIN).await,
        false => counters.try_acquire(client, u32::MAX, NonZeroU32::MIN).await,
    };
    assert!(decision.is_ok_and(|decision| decision.allowed), "the limit is never reached");
}
