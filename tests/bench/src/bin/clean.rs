//! Cleaner benchmark: our cleaner compared with the book's algorithm in Python on the same samples.
//!
//! Usage: `clean PYTHON [COUNTERS]`, where PYTHON needs redis-py. Counters have buckets of a minute. In the
//! first pass, all counters lose 132 samples, like after the cleaner has been down for two hours. Further
//! passes follow at intervals of a minute, in which a fraction of the counters lose a sample.

use std::error::Error;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use bench::server::{self, Figures};
use bench::{past, table};
use counter_core::stores::Namespace;
use counter_core::{Counters, RedisStore, Timestamp};
use tests::RedisServer;

/// Samples of a counter, and how many of these are expired. The cleaner should retain 120.
const SAMPLES_PER_COUNTER: u64 = 252;
const EXPIRED_SAMPLES: u64 = 132;

/// Passes after the first: the delay in minutes, and `n` if 1 in `n` counters loses a sample.
const LATER_PASSES: [(u64, Option<usize>); 4] = [(0, None), (1, Some(100)), (2, Some(10)), (3, Some(1))];

/// The result of a pass: removed samples, duration and server statistics.
struct Pass {
    removed: u64,
    took: Duration,
    work: Figures,
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let python = arguments.next().ok_or("usage: clean PYTHON [COUNTERS]")?;
    let counters = arguments.next().map_or(Ok(20_000), |n| n.parse())?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let now = Timestamp::now();
    let theirs = book(Path::new(&python), counters, now)?;
    let ours = runtime.block_on(ours(counters, now))?;
    let lost = std::iter::once(format!("{EXPIRED_SAMPLES} per counter")).chain(
        LATER_PASSES
            .iter()
            .map(|(_, part)| part.map_or("nothing".to_owned(), |n| format!("1 for 1 in {n} counters"))),
    );
    let rows = lost.zip(theirs.iter().zip(&ours)).map(|(lost, (book, here))| {
        assert_eq!(book.removed, here.removed, "the same samples are removed");
        let milliseconds = |time: Duration| format!("{:.1}", time.as_secs_f64() * 1e3);
        vec![
            lost,
            here.removed.to_string(),
            milliseconds(book.took),
            milliseconds(here.took),
            format!("{:.1}", book.took.as_secs_f64() / here.took.as_secs_f64()),
            milliseconds(book.work.processor),
            milliseconds(here.work.processor),
            here.work.calls("evalsha").count.to_string(),
            format!("{:.2}", here.work.script[0] / 1e3),
            format!("{:.2}", here.work.script[1] / 1e3),
        ]
    });
    println!("A pass over {counters} counters:\n");
    table::print(
        &[
            "lost since the previous pass",
            "samples removed",
            "book, ms",
            "ours, ms",
            "book : ours",
            "book, server CPU ms",
            "ours, server CPU ms",
            "calls",
            "median call, ms",
            "longest call, ms",
        ],
        &rows.collect::<Vec<_>>(),
    );
    Ok(())
}

/// Starts a server and writes the counters, with the book's keys, which don't have a namespace.
fn filled(counters: usize, now: Timestamp) -> RedisServer {
    let server = server::start();
    let names = past::names(counters);
    past::write(&server, "", &names, "60", SAMPLES_PER_COUNTER, now);
    // Remove some samples, so that later passes find the expected number.
    let oldest = now.minus(now.as_unix() % 60).minus(119 * 60);
    for (minutes, part) in LATER_PASSES {
        let Some(part) = part else { continue };
        let start = oldest.plus(60 * (minutes - 1)).to_string();
        for name in names.iter().enumerate().filter(|(n, _)| n % part != 0).map(|(_, name)| name) {
            server.int(&["HDEL", &format!("count:60:{name}"), &start]);
        }
    }
    server
}

fn times(now: Timestamp) -> impl Iterator<Item = Timestamp> {
    std::iter::once(now).chain(LATER_PASSES.iter().map(move |(minutes, _)| now.plus(60 * minutes)))
}

fn book(python: &Path, counters: usize, now: Timestamp) -> Result<Vec<Pass>, Box<dyn Error>> {
    let server = filled(counters, now);
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("clean.py");
    let pass = |now: Timestamp| {
        let before = Figures::of(&server);
        let (port, now) = (server.port().to_string(), now.to_string());
        let output = Command::new(python).arg(&program).args([port, now]).output()?;
        let output = String::from_utf8_lossy(&output.stdout).into_owned();
        let (removed, seconds) = output.trim().split_once(' ').ok_or("the book's cleaner failed")?;
        let took = Duration::from_secs_f64(seconds.parse()?);
        Ok(Pass { removed: removed.parse()?, took, work: Figures::of(&server).since(&before) })
    };
    times(now).map(pass).collect()
}

async fn ours(counters: usize, now: Timestamp) -> Result<Vec<Pass>, Box<dyn Error>> {
    let server = filled(counters, now);
    let bare: Namespace = "".parse()?;
    let store = RedisStore::connect(&server.url(), bare).await?;
    let (_, mut cleaner) = Counters::builder(store).build()?.into_parts();
    let mut passes = Vec::new();
    for now in times(now) {
        server.command(&["CONFIG", "RESETSTAT"]);
        let before = Figures::of(&server);
        let started = Instant::now();
        let cleaned = cleaner.clean_once(now).await?;
        let took = started.elapsed();
        passes.push(Pass { removed: cleaned.samples, took, work: Figures::of(&server).since(&before) });
    }
    Ok(passes)
}
