//! Spool benchmark: CPU time used in a second, depending on whether there is a spool, and bytes written to
//! disk.
//!
//! All counters are hit ten times in a second, in some cases by a new visitor, so that a write always
//! contains the whole set.

use std::error::Error;
use std::path::Path;
use std::time::Duration;

use bench::{past, processor, table};
use counter_core::visitor::VisitorKey;
use counter_core::{Counters, MemoryStore};
use tokio::time::{MissedTickBehavior, interval};

/// Tenths of a second to warm up, and to measure.
const BEFORE: u64 = 20;
const MEASURED: u64 = 100;

/// The cost of a run.
struct Taken {
    processor: Duration,
    written: u64,
}

fn main() -> Result<(), Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let asked: Vec<usize> = std::env::args().skip(1).map(|n| n.parse()).collect::<Result<_, _>>()?;
    let counters = if asked.is_empty() { vec![1, 100, 1000, 2000] } else { asked };
    let mut rows = Vec::new();
    for count in counters {
        for visitors in [0, 1] {
            let folder = tempfile::tempdir()?;
            let without = runtime.block_on(run(count, visitors, None))?;
            let with = runtime.block_on(run(count, visitors, Some(folder.path())))?;
            let seconds = MEASURED as f64 / 10.0;
            let each = |taken: &Taken| taken.processor.as_secs_f64() * 1e3 / seconds;
            rows.push(vec![
                count.to_string(),
                visitors.to_string(),
                format!("{:.1}", each(&without)),
                format!("{:.1}", each(&with)),
                format!("{:.1}", each(&with) - each(&without)),
                format!("{:.0}", with.written.saturating_sub(without.written) as f64 / 1e3 / seconds),
            ]);
        }
    }
    println!("A second in which so many counters have a hit in every tenth of it, over a store in memory:\n");
    table::print(
        &[
            "counters",
            "new visitors of each in a tenth",
            "without a spool, ms of processor",
            "with one",
            "the spool",
            "KB written to the disk",
        ],
        &rows,
    );
    Ok(())
}

async fn run(count: usize, visitors: u64, spool: Option<&Path>) -> Result<Taken, Box<dyn Error>> {
    let mut counters = Counters::builder(MemoryStore::new());
    if let Some(folder) = spool {
        counters = counters.spool(folder);
    }
    let mut counters = counters.build()?;
    let recorder = counters.recorder();
    let names: Vec<_> = past::names(count).iter().map(|name| recorder.counter(name)).collect();
    let key = VisitorKey::new([7; 16]);
    let load = async {
        let mut ticks = interval(Duration::from_millis(100));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        let mut before = (Duration::ZERO, 0);
        for tick in 0..BEFORE + MEASURED {
            ticks.tick().await;
            if tick == BEFORE {
                before = (processor::time(), written()?);
            }
            for counter in &names {
                recorder.record(*counter, None);
                for visitor in 0..visitors {
                    let number = tick * visitors + visitor;
                    recorder.record(*counter, Some(key.visitor(&[&number.to_le_bytes()])));
                }
            }
        }
        let (processor, bytes) = before;
        Ok(Taken { processor: processor::time() - processor, written: written()? - bytes })
    };
    tokio::select! {
        ended = counters.run(std::future::pending()) => Err(format!("the counters ended: {ended:?}").into()),
        taken = load => taken,
    }
}

/// Returns the bytes that this process has written, according to Linux.
fn written() -> Result<u64, Box<dyn Error>> {
    let io = std::fs::read_to_string("/proc/self/io")?;
    let line =
        io.lines().find_map(|line| line.strip_prefix("wchar: ")).ok_or("no count of what was written")?;
    Ok(line.parse()?)
}
