//! Dump benchmark: a dump from Redis, and a restore into any kind of store.
//!
//! The argument sets the number of counters (10,000 by default). There are 120 samples at each default
//! precision.

use std::error::Error;
use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::Path;
use std::time::Instant;

use bench::{past, processor, table};
use counter_core::stores::Namespace;
use counter_core::{Counters, RedisStore, SqlStore, Store, Timestamp};
use tests::{Postgres, RedisServer};

fn main() -> Result<(), Box<dyn Error>> {
    let counters = std::env::args().nth(1).map_or(Ok(10_000), |count| count.parse())?;
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(measure(counters))
}

async fn measure(counters: usize) -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("counts.ndjson");
    let server = RedisServer::start();
    past::write(
        &server,
        "access:",
        &past::names(counters),
        &past::default_precisions(),
        120,
        Timestamp::now(),
    );
    let mut rows = vec![dump(redis(&server).await?, &file).await?];
    println!("{counters} counters in a file of {:.0} MB:\n", file.metadata()?.len() as f64 / 1e6);

    let other = RedisServer::start();
    rows.push(restore("Redis", redis(&other).await?, &file).await?);
    let url = format!("sqlite:{}", folder.path().join("counts.db").display());
    rows.push(restore("SQLite", SqlStore::builder().create_tables().connect(&url).await?, &file).await?);
    let database = Postgres::start();
    let store = SqlStore::builder().create_tables().connect(&database.database()).await?;
    rows.push(restore("PostgreSQL", store, &file).await?);
    table::print(&["", "s", "CPU s", "million samples", "thousand samples per second"], &rows);
    Ok(())
}

async fn redis(server: &RedisServer) -> Result<RedisStore, Box<dyn Error>> {
    Ok(RedisStore::connect(&server.url(), Namespace::default()).await?)
}

async fn dump(store: impl Store, file: &Path) -> Result<Vec<String>, Box<dyn Error>> {
    let (started, time) = (Instant::now(), processor::time());
    let mut dump = Counters::builder(store).build()?.stats().dump();
    let mut lines = BufWriter::new(File::create(file)?);
    while let Some(line) = dump.next().await? {
        writeln!(lines, "{line}")?;
    }
    lines.flush()?;
    assert_eq!(dump.dumped().unreadable, 0);
    Ok(row("dump from Redis", dump.dumped().samples, started, time))
}

async fn restore(name: &str, store: impl Store, file: &Path) -> Result<Vec<String>, Box<dyn Error>> {
    let (started, time) = (Instant::now(), processor::time());
    let mut restore = Counters::builder(store).build()?.restore();
    let mut lines = BufReader::new(File::open(file)?);
    let mut line = Vec::new();
    while lines.read_until(b'\n', &mut line)? > 0 {
        restore.line(&line).await?;
        line.clear();
    }
    let restored = restore.finish().await?;
    let row = row(&format!("restore into {name}"), restored.samples, started, time);
    eprintln!("{}", row.join(" | "));
    Ok(row)
}

fn row(name: &str, samples: u64, started: Instant, time: std::time::Duration) -> Vec<String> {
    let (took, cpu_time) = (started.elapsed().as_secs_f64(), (processor::time() - time).as_secs_f64());
    vec![
        name.to_owned(),
        format!("{took:.1}"),
        format!("{cpu_time:.1}"),
        format!("{:.1}", samples as f64 / 1e6),
        format!("{:.0}", samples as f64 / took / 1e3),
    ]
}
