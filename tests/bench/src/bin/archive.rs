//! Archive benchmark: size on disk, reading a chart for a year, and copying an hour from Redis.
//!
//! The argument sets the number of counters (10,000 by default). The archive is filled with a year of days
//! and a quarter of hours.

use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bench::{past, processor, table};
use counter_core::archive::Archive;
use counter_core::sketch::Sketch;
use counter_core::stores::{Namespace, WriterId};
use counter_core::time::{Grid, Kind, Retention};
use counter_core::visitor::VisitorKey;
use counter_core::visits::store::{
    Adds, ArchiveStore, Batch, Cell, Fence, FenceKind, Incarnation, Page, Progress, Read as _, Value,
    Write as _,
};
use counter_core::{CounterName, Counters, Precision, RedisStore, SqlStore, Timestamp};
use tests::{Postgres, RedisServer};

/// Buckets to write for days and for hours.
const DAYS: u64 = 365;
const HOURS: u64 = 91 * 24;
/// Visitors of a counter in the copied hour.
const VISITORS: u32 = 10;
/// Number of counters to write in an archive page.
const PAGE_COUNTERS: usize = 5000;
const ROUNDS: usize = 21;

fn main() -> Result<(), Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let counters = std::env::args().nth(1).map_or(Ok(10_000), |count| count.parse())?;
    let mut rows = Vec::new();
    {
        let folder = tempfile::tempdir()?;
        let file = folder.path().join("archive.db");
        let url = format!("sqlite:{}", file.display());
        rows.push(runtime.block_on(measure("SQLite", &url, counters, || size(folder.path())))?);
    }
    let server = Postgres::start();
    let (url, folder) = (server.database(), server.data());
    rows.push(runtime.block_on(measure("PostgreSQL", &url, counters, || size(&folder.join("base"))))?);
    println!("{counters} counters with {DAYS} days and {HOURS} hours (reads are medians):\n");
    table::print(
        &[
            "archive",
            "million samples",
            "MB",
            "bytes per sample",
            "a year of days, ms",
            "a quarter of hours, ms",
            "copying an hour with ten visitors per counter, s",
            "CPU s",
            "an audit, s",
        ],
        &rows,
    );
    Ok(())
}

async fn measure(
    database: &str,
    url: &str,
    count: usize,
    bytes: impl Fn() -> u64,
) -> Result<Vec<String>, Box<dyn Error>> {
    let server = RedisServer::start();
    let near = RedisStore::connect(&server.url(), Namespace::default()).await?;
    let far = SqlStore::builder().create_tables().connect(url).await?;
    let archive = Archive::new(near.clone(), far.clone());
    let stats = Counters::builder(archive.clone()).build()?.stats();
    let mut names: Vec<CounterName> =
        past::names(count).iter().map(|name| name.parse()).collect::<Result<_, _>>()?;
    names.sort_unstable();
    let (hour, day) = (Precision::try_from(3600)?, Precision::try_from(86_400)?);
    let (now, empty) = (Timestamp::now(), bytes());
    // Redis holds this hour and the two preceding hours. We will copy the later of the two.
    let last = hour.bucket(now.minus(300)).start.minus(3600);
    fill(&far, &names, day, DAYS, day.bucket(last).start).await?;
    fill(&far, &names, hour, HOURS, last).await?;
    let samples = (DAYS + HOURS) * count as u64;
    let size = bytes() - empty;

    let (mut years, mut quarters) = (Vec::new(), Vec::new());
    for turn in 0..ROUNDS {
        let name = &names[turn * count / ROUNDS];
        let started = Instant::now();
        let year = stats.series(name, day, now.minus(DAYS * 86_400)..now).await?;
        years.push(started.elapsed().as_secs_f64() * 1e3);
        assert!(year.samples.len() as u64 >= DAYS - 2);
        let started = Instant::now();
        stats.series(name, hour, now.minus(HOURS * 3600)..now).await?;
        quarters.push(started.elapsed().as_secs_f64() * 1e3);
    }

    count_hour(&near, &names, last).await?;
    let mut copier = archive.copier(stats.grid()).lateness(Duration::ZERO);
    let (started, time) = (Instant::now(), processor::time());
    let copied = copier.copy_once(last.plus(3600)).await?;
    let (took, cpu_time) = (started.elapsed(), processor::time() - time);
    assert!(copied.samples >= count as u64 && copied.sketches >= count as u64, "{copied:?}");
    let started = Instant::now();
    let audit = archive.auditor(stats.grid()).audit(now, None).await?;
    assert_eq!(audit.unreadable, 0);
    let compared = started.elapsed().as_secs_f64();
    let [year, quarter] = [&mut years, &mut quarters].map(|all| format!("{:.1}", table::quantile(all, 0.5)));
    let row = vec![
        database.to_owned(),
        format!("{:.1}", samples as f64 / 1e6),
        format!("{:.0}", size as f64 / 1e6),
        format!("{:.1}", size as f64 / samples as f64),
        year,
        quarter,
        format!("{:.2}", took.as_secs_f64()),
        format!("{:.2}", cpu_time.as_secs_f64()),
        format!("{compared:.2}"),
    ];
    eprintln!("{}", row.join(" | "));
    Ok(row)
}

/// Writes buckets to the archive for these counters, up to `last`.
async fn fill(
    far: &SqlStore,
    names: &[CounterName],
    precision: Precision,
    buckets: u64,
    last: Timestamp,
) -> Result<(), Box<dyn Error>> {
    let retention = Retention { precision, samples: u32::MAX.try_into()? };
    for back in (0..buckets).rev() {
        let start = last.minus(back * u64::from(precision.as_seconds()));
        for names in names.chunks(PAGE_COUNTERS) {
            let mut page = Page::new(Kind::Counts, Timestamp::MIN, retention);
            page.counters = names.to_vec();
            let counts = (0..names.len()).map(|n| (n, Value::Count(1 + n as u64 % 5000)));
            page.values.insert(start, counts.collect());
            far.put(&page).await?;
        }
    }
    let progress = Progress::new(last, last.minus(118 * u64::from(precision.as_seconds())));
    far.advance(Kind::Counts, precision, progress).await?;
    far.advance(Kind::Visitors, precision, progress).await?;
    Ok(())
}

/// Counts hits and ten visitors on these counters in an hour.
async fn count_hour(
    near: &RedisStore,
    names: &[CounterName],
    start: Timestamp,
) -> Result<(), Box<dyn Error>> {
    let finest = Precision::try_from(3600)?;
    let (grid, key) = (Arc::new(Grid::default()), VisitorKey::new([7; 16]));
    let shard = near.info().shards.iter().next().ok_or("a store has a shard")?;
    for names in names.chunks(500) {
        let cell = |counter: &CounterName| Cell {
            counter: counter.clone(),
            start,
            finest,
            value: Value::Count(6000),
        };
        let visit = |counter: &CounterName| {
            let mut raised = Sketch::new();
            for visitor in 0..VISITORS {
                raised.insert(key.visitor(&[counter.as_bytes(), &visitor.to_le_bytes()]));
            }
            Cell { counter: counter.clone(), start, finest, value: Value::Visitors(raised) }
        };
        let fence = Fence {
            writer: WriterId::random(),
            kind: FenceKind::Process { incarnation: Incarnation::default() },
            sequence: 1,
            after: 0,
        };
        let cells = names.iter().map(cell).chain(names.iter().map(visit)).collect();
        near.apply(&Batch { shard, fence, cells, grid: Arc::clone(&grid), adds: Adds::Hits, witness: None })
            .await?;
    }
    Ok(())
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
