//! Records hits over a Redis and a spool until it is killed: `recorder REDIS FOLDER SEED MILLIS`.
//!
//! It says `asked N` before it records its first N hits, or fewer, each with a visitor of its own, and `durable N` once
//! so many of them are in the file or in the store. When the file cannot be written it says `failing`. It says few lines:
//! the harness keeps a number of them.

use std::error::Error;
use std::io::{Write, stdout};
use std::time::Duration;

use counter_core::stores::Namespace;
use counter_core::visitor::VisitorKey;
use counter_core::{Counters, RedisStore};
use tokio::time::sleep;

/// The hits that are said at once, more than are recorded at once.
const ASKED: u64 = 50;

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> Result<(), Box<dyn Error>> {
    let [redis, folder, seed, millis] =
        std::env::args().skip(1).collect::<Vec<_>>().try_into().map_err(|_| "usage")?;
    let (seed, millis): (u64, u64) = (seed.parse()?, millis.parse()?);
    let store = RedisStore::connect(&redis, Namespace::default()).await?;
    let interval = Duration::from_millis(millis);
    let counters = Counters::builder(store).flush_interval(interval).spool(folder).build()?;
    let (recorder, stats) = (counters.recorder(), counters.stats());
    // It runs for as long as the process does.
    let _upkeep = counters.spawn();
    let all = ["a", "b", "c"].map(|name| recorder.counter(name));
    let key = VisitorKey::new([7; 16]);
    let (mut recorded, mut pace) = (0_u64, seed);
    let (mut asked, mut durable, mut is_failing) = (0, 0, false);
    loop {
        pace = pace.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let hits = 1 + (pace >> 60);
        if recorded + hits > asked {
            asked = recorded + ASKED;
            println(&format!("asked {asked}"))?;
        }
        for _ in 0..hits {
            let counter = all[usize::try_from(recorded % 3)?];
            let visitor = key.visitor(&[&seed.to_le_bytes(), &recorded.to_le_bytes()]);
            recorder.record(counter, Some(visitor));
            recorded += 1;
        }
        let spool = stats.health().spool.ok_or("there is a spool")?;
        let written = recorded - spool.unwritten;
        if written > durable {
            durable = written;
            println(&format!("durable {durable}"))?;
        }
        if spool.failing_for.is_some() && !std::mem::replace(&mut is_failing, true) {
            println("failing")?;
        }
        sleep(Duration::from_millis(2)).await;
    }
}

/// Writes a line at once: what is in a buffer is lost with the process.
fn println(line: &str) -> std::io::Result<()> {
    let mut output = stdout().lock();
    writeln!(output, "{line}")?;
    output.flush()
}
