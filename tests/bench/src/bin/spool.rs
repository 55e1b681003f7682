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
const WARMUP_TICKS: u64 = 20;
const MEASURED_TICKS: u64 = 100;

/// The cost of a run.
struct Cost {
    processor: Duration,
    written: u64,
}

fn main() -> Result<(), Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let requested: Vec<usize> = std::env::args().skip(1).map(|n| n.parse()).collect::<Result<_, _>>()?;
    let counters = if requested.is_empty() { vec![1, 100, 1000, 2000] } else { requested };
    let mut rows = Vec::new();
    for count in counters {
        for visitors in [0, 1] {
            let folder = tempfile::tempdir()?;
            let without = runtime.block_on(run(count, visitors, None))?;
            let with = runtime.block_on(run(count, visitors, Some(folder.path())))?;
            let seconds = MEASURED_TICKS as f64 / 10.0;
            let per_second = |cost: &Cost| cost.processor.as_secs_f64() * 1e3 / seconds;
            rows.push(vec![
                count.to_string(),
                visitors.to_string(),
                format!("{:.1}", per_second(&without)),
                format!("{:.1}", per_second(&with)),
                format!("{:.1}", per_second(&with) - per_second(&without)),
                format!("{:.0}", with.written.saturating_sub(without.written) as f64 / 1e3 / seconds),
            ]);
        }
    }
    println!("Cost per second with ten hits per counter, using the memory store:\n");
    table::print(
        &[
            "counters",
            "new visitors per counter and tenth of a second",
            "without a spool, CPU ms",
            "with a spool, CPU ms",
            "difference, CPU ms",
            "KB written to disk",
        ],
        &rows,
    );
    Ok(())
}

async fn run(count: usize, visitors: u64, spool: Option<&Path>) -> Result<Cost, Box<dyn Error>> {
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
        for tick in 0..WARMUP_TICKS + MEASURED_TICKS {
            ticks.tick().await;
            if tick == WARMUP_TICKS {
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
        Ok(Cost { processor: processor::time() - processor, written: written()? - bytes })
    };
    tokio::select! {
        ended = counters.run(std::future::pending()) => Err(format!("the counters ended: {ended:?}").into()),
        cost = load => cost,
    }
}

/// Returns the bytes that this process has written, according to Linux.
fn written() -> Result<u64, Box<dyn Error>> {
    let io = std::fs::read_to_string("/proc/self/io")?;
    let line = io.lines().find_map(|line| line.strip_prefix("wchar: ")).ok_or("no wchar in /proc/self/io")?;
    Ok(line.parse()?)
}
