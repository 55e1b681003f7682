//! SQL benchmark: a flush at the default grid, the overview page of the dashboard, and bytes per sample.
//!
//! The arguments set the numbers of counters, which are hit every second. The database already contains 120
//! samples at each precision and 400 days, like it would after long use.

use std::error::Error;
use std::num::NonZeroU32;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use bench::overview::{self, Overview};
use bench::{past, processor, table};
use counter_core::stores::{Shard, WriterId};
use counter_core::time::Grid;
use counter_core::visitor::VisitorKey;
use counter_core::visits::store::{Adds, Batch, Cell, Fence, FenceKind, Incarnation, Value, Write as _};
use counter_core::{CounterName, Counters, Precision, Precisions, SqlStore, Timestamp};
use tests::{MariaDb, Postgres};

/// Flushes to warm up, and to measure.
const WARMUP_FLUSHES: u64 = 5;
const MEASURED_FLUSHES: u64 = 30;
const ROUNDS: usize = 21;

fn main() -> Result<(), Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let requested: Vec<usize> = std::env::args().skip(1).map(|n| n.parse()).collect::<Result<_, _>>()?;
    let counters = if requested.is_empty() { vec![1000, 2000] } else { requested };
    let (mut flushes, mut reads) = (Vec::new(), Vec::new());
    for counters in counters {
        let folder = tempfile::tempdir()?;
        let file = folder.path().join("counts.db");
        let url = format!("sqlite:{}", file.display());
        let bytes = || std::fs::metadata(&file).map_or(0, |file| file.len());
        runtime.block_on(measure("SQLite", &url, counters, None, bytes, (&mut flushes, &mut reads)))?;

        let mut server = Postgres::start();
        let (url, id) = (server.database(), server.id());
        let folder = server.data();
        let bytes = || size(&folder.join("base"));
        runtime.block_on(measure(
            "PostgreSQL",
            &url,
            counters,
            Some(id),
            bytes,
            (&mut flushes, &mut reads),
        ))?;

        let mut server = MariaDb::start();
        let (url, id) = (server.database(), server.id());
        let folder = server.data();
        let bytes = || size(&folder.join(url.rsplit('/').next().unwrap_or_default()));
        runtime.block_on(measure("MariaDB", &url, counters, Some(id), bytes, (&mut flushes, &mut reads)))?;
    }
    println!("A flush of counters with hits in two seconds (medians):\n");
    table::print(
        &[
            "database",
            "counters",
            "new visitors per counter",
            "client, CPU ms",
            "time to acknowledgement, ms",
            "server, CPU ms",
            "KB written to disk",
        ],
        &flushes,
    );
    println!("\nReads (medians) and size:\n");
    table::print(
        &[
            "database",
            "counters",
            "the overview for 30d, ms",
            "for 12mo, ms",
            "1,000 series of 120 buckets, ms",
            "bytes per sample",
        ],
        &reads,
    );
    Ok(())
}

type Rows<'a> = (&'a mut Vec<Vec<String>>, &'a mut Vec<Vec<String>>);

async fn measure(
    database: &str,
    url: &str,
    count: usize,
    server: Option<u32>,
    bytes: impl Fn() -> u64,
    (flushes, reads): Rows<'_>,
) -> Result<(), Box<dyn Error>> {
    let store = SqlStore::builder().create_tables().connect(url).await?;
    let (start, names) = (Timestamp::now(), past::names(count));
    let empty = bytes();
    let samples = fill(&store, &names, start).await?;
    // SQLite needs a checkpoint to move the data from the write-ahead log to the file.
    store.clean(Shard::default(), start, &overview::precisions()).await?;
    let size = (bytes() - empty) as f64 / samples as f64;
    for visitors in [0, 1] {
        let row = flush(database, &store, &names, server, visitors).await?;
        eprintln!("{}", row.join(" | "));
        flushes.push(row);
    }
    let names: Vec<CounterName> = names.iter().map(|name| name.parse()).collect::<Result<_, _>>()?;
    let stats = Counters::builder(store).precisions(overview::precisions()).build()?.stats();
    let overview = Overview::new(stats.clone())?;
    let (mut pages, mut series) = (overview::PERIODS.map(|_| Vec::new()), Vec::new());
    let minute = Precision::try_from(60)?;
    let end = minute.bucket(start).end();
    for _ in 0..ROUNDS {
        for (pages, period) in pages.iter_mut().zip(overview::PERIODS) {
            pages.push(overview.render(period).await?.as_secs_f64() * 1e3);
        }
        let started = Instant::now();
        stats.series_many(&names[..names.len().min(1000)], minute, end.minus(7200)..end).await?;
        series.push(started.elapsed().as_secs_f64() * 1e3);
    }
    let times = pages.iter_mut().chain([&mut series]).map(|all| format!("{:.1}", table::quantile(all, 0.5)));
    let start = [database.to_owned(), count.to_string()];
    let row: Vec<_> = start.into_iter().chain(times).chain([format!("{size:.0}")]).collect();
    eprintln!("{}", row.join(" | "));
    reads.push(row);
    Ok(())
}

/// Writes samples at each precision, and returns how many there are.
async fn fill(store: &SqlStore, names: &[String], now: Timestamp) -> Result<u64, Box<dyn Error>> {
    let (writer, grid) = (WriterId::random(), Grid { counts: overview::precisions(), ..Grid::default() });
    let names: Vec<CounterName> = names.iter().map(|name| name.parse()).collect::<Result<_, _>>()?;
    let (mut sequence, mut samples) = (0, 0);
    for retention in grid.counts.iter() {
        let finest = retention.precision;
        let only = Precisions::new([retention]).expect("one precision");
        let grid = Arc::new(Grid { counts: only, ..Grid::default() });
        let backs: Vec<u64> = (0..retention.samples.get().into()).rev().collect();
        samples += backs.len() * names.len();
        for backs in backs.chunks(10) {
            let starts = backs.iter().map(|back| {
                let start = finest.bucket(now).start.minus(back * u64::from(finest.as_seconds()));
                (start, 1 + back % 5000)
            });
            let cell = |name: &CounterName, start, count| Cell {
                counter: name.clone(),
                start,
                finest,
                value: Value::Count(count),
            };
            let cells =
                starts.flat_map(|(start, count)| names.iter().map(move |name| cell(name, start, count)));
            let fence = Fence {
                writer,
                kind: FenceKind::Process { incarnation: Incarnation::default() },
                sequence: sequence + 1,
                after: sequence,
            };
            sequence += 1;
            let (cells, grid) = (cells.collect(), Arc::clone(&grid));
            let batch =
                Batch { shard: Shard::default(), fence, cells, grid, adds: Adds::Hits, witness: None };
            store.apply(&batch).await?;
        }
    }
    Ok(samples as u64)
}

async fn flush(
    database: &str,
    store: &SqlStore,
    names: &[String],
    server: Option<u32>,
    visitors: u64,
) -> Result<Vec<String>, Box<dyn Error>> {
    let mut site = Counters::builder(store.clone()).precisions(overview::precisions()).build()?;
    let recorder = site.recorder();
    let counters: Vec<_> = names.iter().map(|name| recorder.counter(name)).collect();
    let (start, key) = (Timestamp::now(), VisitorKey::new([7; 16]));
    let (mut client, mut waits, mut servers, mut written) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for second in 0..WARMUP_FLUSHES + MEASURED_FLUSHES {
        let at = start.plus(second + 1);
        for counter in &counters {
            // A flush almost always contains two seconds.
            for at in [at.minus(1), at] {
                recorder.record_at(*counter, None, at, NonZeroU32::new(9).expect("not 0"));
            }
            for visitor in 0..visitors {
                let number = second * visitors + visitor;
                let visitor = key.visitor(&[&number.to_le_bytes()]);
                recorder.record_at(*counter, Some(visitor), at, NonZeroU32::MIN);
            }
        }
        let before = server.map_or(0.0, processor::process_tree_seconds);
        let disk = written_by(server);
        let (started, time) = (Instant::now(), processor::time());
        site.flush().await?;
        if second >= WARMUP_FLUSHES {
            client.push((processor::time() - time).as_secs_f64() * 1e3);
            waits.push(started.elapsed().as_secs_f64() * 1e3);
            servers.push((server.map_or(0.0, processor::process_tree_seconds) - before) * 1e3);
            written.push((written_by(server) - disk) as f64 / 1e3);
        }
    }
    let mean = |all: &[f64]| all.iter().sum::<f64>() / all.len() as f64;
    Ok(vec![
        database.to_owned(),
        names.len().to_string(),
        visitors.to_string(),
        format!("{:.1}", table::quantile(&mut client, 0.5)),
        format!("{:.1}", table::quantile(&mut waits, 0.5)),
        // The clock for other processes has a resolution of 10 ms, so we use the mean.
        server.map_or_else(String::new, |_| format!("{:.0}", mean(&servers))),
        server.map_or_else(|| format!("{:.0}", mean(&written)), |_| String::new()),
    ])
}

/// Returns the bytes written by this process, if the database is embedded.
fn written_by(server: Option<u32>) -> u64 {
    let io = std::fs::read_to_string("/proc/self/io").unwrap_or_default();
    let written = io.lines().find_map(|line| line.strip_prefix("wchar: ")).and_then(|n| n.parse().ok());
    if server.is_some() { 0 } else { written.unwrap_or(0) }
}

/// Returns the size of a folder in bytes.
fn size(folder: &Path) -> u64 {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let of = |entry: std::fs::DirEntry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => size(&entry.path()),
        Ok(metadata) => metadata.len(),
        Err(_) => 0,
    };
    entries.map(of).sum()
}
