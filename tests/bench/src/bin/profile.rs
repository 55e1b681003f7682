//! Flush profile by callgrind: client instructions by component, not including the kernel.
//!
//! Each flush contains 1,000 counters with hits in two seconds. Columns are the number of new visitors per
//! counter. `flush REDIS VISITORS COUNT` is the subcommand to be run by callgrind.

use std::collections::BTreeMap;
use std::error::Error;
use std::fs;
use std::num::NonZeroU32;
use std::ops::Range;

use bench::{callgrind, past, table};
use counter_core::stores::Namespace;
use counter_core::visitor::VisitorKey;
use counter_core::{Counter, Counters, Recorder, RedisStore, Timestamp};
use tests::RedisServer;

const COUNTERS: usize = 1000;
const FLUSH_COUNTS: [u64; 2] = [10, 60];
const VISITORS: [&str; 3] = ["0", "1", "10"];

/// Components: a label, the functions to add up (including callees), and functions to subtract.
const PARTS: [(&str, &[&str], &[&str]); 6] = [
    ("folding the stripes and cutting batches", &[CUT], &[]),
    ("encoding a batch as script arguments", &[ENCODE], &[]),
    ("`fred`: sending a call and returning the reply", &[CALL], &[]),
    ("`fred`: encoding and writing frames", &[WRITE], &[]),
    ("`fred`: rest of the connection task, including reading", &[TASK], &[WRITE]),
    ("everything else, including tokio", &["profile::main"], &[RECORD, CUT, ENCODE, CALL, TASK]),
];

const RECORD: &str = "profile::record";
const CUT: &str = "counter_core::visits::flush::shard_flusher::ShardFlusher::cut";
const ENCODE: &str = "counter_core::visits::store::redis::apply::encode";
const CALL: &str = "counter_core::redis::connection::Connection::call::{{closure}}";
const TASK: &str = "fred::runtime::_tokio::ClientLike::connect::{{closure}}";
const WRITE: &str = "fred::protocol::connection::Connection::write::{{closure}}";

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    match &*arguments.iter().map(String::as_str).collect::<Vec<_>>() {
        [] => measure(),
        ["flush", redis, visitors, count] => {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(flush(redis, visitors.parse()?, count.parse()?))
        }
        _ => Err("usage: profile [flush REDIS VISITORS COUNT]".into()),
    }
}

fn measure() -> Result<(), Box<dyn Error>> {
    let (server, program) = (RedisServer::start(), std::env::current_exe()?);
    let profile = std::env::temp_dir().join(format!("profile-{}", std::process::id()));
    let costs = VISITORS.map(|visitors| {
        callgrind::per_operation_by_function(
            &program,
            &["flush", &server.url(), visitors],
            FLUSH_COUNTS,
            &profile,
        )
    });
    fs::remove_file(&profile)?;
    let costs = costs.into_iter().collect::<Result<Vec<_>, _>>()?;
    let row = |component: &str, of: &[&str], without: &[&str]| {
        let numbers = costs.iter().map(|costs| Ok(format!("{:.0}", sum(costs, of)? - sum(costs, without)?)));
        [Ok(component.to_owned())].into_iter().chain(numbers).collect::<Result<Vec<_>, Box<dyn Error>>>()
    };
    let mut rows = PARTS
        .map(|(component, of, without)| row(component, of, without))
        .into_iter()
        .collect::<Result<Vec<_>, _>>()?;
    rows.push(row("all", &["profile::main"], &[RECORD])?);
    println!(
        "Instructions per counter with {COUNTERS} counters, by the number of new visitors per counter:\n"
    );
    table::print(&["component", VISITORS[0], VISITORS[1], VISITORS[2]], &rows);
    Ok(())
}

/// Returns the instructions in these functions, divided by the number of counters.
fn sum(costs: &BTreeMap<String, f64>, functions: &[&str]) -> Result<f64, String> {
    let cost = |function: &&str| {
        // A new compiler version might inline the function.
        costs.get(*function).ok_or_else(|| format!("{function} not found: it has been inlined or renamed"))
    };
    Ok(functions.iter().map(cost).sum::<Result<f64, _>>()? / COUNTERS as f64)
}

async fn flush(redis: &str, visitors: u64, count: u64) -> Result<(), Box<dyn Error>> {
    let mut site = Counters::builder(RedisStore::connect(redis, Namespace::default()).await?).build()?;
    let recorder = site.recorder();
    let counters: Vec<_> = past::names(COUNTERS).iter().map(|name| recorder.counter(name)).collect();
    let start = Timestamp::now();
    for second in 0..count {
        record(&recorder, &counters, start.plus(second), visitors * second..visitors * (second + 1));
        site.flush().await?;
    }
    Ok(())
}

// Must not be inlined, so that recording can be subtracted from the flush.
#[inline(never)]
fn record(recorder: &Recorder, counters: &[Counter], at: Timestamp, visitors: Range<u64>) {
    let key = VisitorKey::new([7; 16]);
    let anonymous = [at, at.plus(1)].map(|at| (at, None));
    let visitors = visitors.map(|visitor| (at.plus(1), Some(key.visitor(&[&visitor.to_le_bytes()]))));
    for (at, visitor) in anonymous.into_iter().chain(visitors) {
        for counter in counters {
            recorder.record_at(*counter, visitor, at, NonZeroU32::MIN);
        }
    }
}
