//! Records hits into Redis and a spool until the process is killed: `recorder REDIS FOLDER SEED MILLIS`.
//!
//! A quarter of the hits count for pairs of a page and a value. All others have different visitors. The program prints `announced N` before it records up to N hits, and
//! `durable N` if N hits are written to the file or the store. If the file can't be written, it prints
//! `failing`. The output must be kept short because the harness only stores a limited number of lines.

use std::error::Error;
use std::io::{Write, stdout};
use std::num::NonZeroU32;
use std::time::Duration;

use counter_core::stores::Namespace;
use counter_core::visitor::VisitorKey;
use counter_core::{Counters, RedisStore, Timestamp};
use tokio::time::sleep;

/// Number of hits to announce. This must be more than the hits in a single iteration.
const HITS_PER_LINE: u64 = 50;

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> Result<(), Box<dyn Error>> {
    let [redis, folder, seed, millis] =
        std::env::args().skip(1).collect::<Vec<_>>().try_into().map_err(|_| "usage")?;
    let (seed, millis): (u64, u64) = (seed.parse()?, millis.parse()?);
    let store = RedisStore::connect(&redis, Namespace::default()).await?;
    let interval = Duration::from_millis(millis);
    let counters = Counters::builder(store).flush_interval(interval).spool(folder).build()?;
    let (recorder, stats) = (counters.recorder(), counters.stats());
    // This will run as long as the process.
    let _upkeep = counters.spawn();
    let all = ["a", "b", "c"].map(|name| recorder.counter(name));
    let values = recorder.label_values("site")?.by_page();
    let key = VisitorKey::new([7; 16]);
    let (mut recorded, mut pace) = (0_u64, seed);
    let (mut announced, mut durable, mut is_failing) = (0, 0, false);
    loop {
        pace = pace.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let hits = 1 + (pace >> 60);
        if recorded + hits > announced {
            announced = recorded + HITS_PER_LINE;
            println(&format!("announced {announced}"))?;
        }
        for _ in 0..hits {
            let counter = all[usize::try_from(recorded % 3)?];
            if recorded % 4 == 3 {
                let (noted, now) = (values.note(Some("a.example"), NonZeroU32::MIN), Timestamp::now());
                let pair = values.pair(noted, counter, now, NonZeroU32::MIN).ok_or("there is a place")?;
                recorder.record(pair, None);
            } else {
                let visitor = key.visitor(&[&seed.to_le_bytes(), &recorded.to_le_bytes()]);
                recorder.record(counter, Some(visitor));
            }
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

/// Prints a line and flushes, because buffered output would be lost if the process is killed.
fn println(line: &str) -> std::io::Result<()> {
    let mut output = stdout().lock();
    writeln!(output, "{line}")?;
    output.flush()
}
