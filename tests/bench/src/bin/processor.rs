//! CPU benchmark: CPU time of a whole process that counts, including recording, folding and flushing.
//!
//! Rows are measured in separate processes. A process first records 100 visits per counter, so that tables
//! and registers are allocated. It then makes requests at a steady rate via [`Recorder::request`], like the
//! layer would. A request hits `hits` and a route, with a freshly hashed visitor. For other costs of the
//! layer, see the guard. The CPU time of the same process without recording is subtracted.

use std::error::Error;
use std::fs;
use std::hint::black_box;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use bench::{past, processor, table};
use counter_core::stores::Namespace;
use counter_core::visitor::VisitorKey;
use counter_core::visits::Agent;
use counter_core::{Counter, Counters, MemoryStore, Recorder, RedisStore};
use tests::RedisServer;

/// Request rates in requests per second.
const RATES: [u64; 2] = [10_000, 100_000];

/// Number of counters in addition to `hits`, and number of distinct visitors.
const SITES: [(usize, u64); 4] = [(100, 100), (100, 100_000), (10_000, 100), (10_000, 100_000)];

/// Recording threads.
const THREADS: u64 = 2;

/// Visits to record on a counter before the measurement starts.
const WARMUP_VISITS: u64 = 100;

/// Interval between bursts. This needs to be short, but long enough that waking up doesn't cost more than
/// counting.
const BURST_INTERVAL: Duration = Duration::from_millis(20);

/// Time to warm up, and to measure.
const WARMUP_TIME: Duration = Duration::from_secs(2);
const MEASURED_TIME: Duration = Duration::from_secs(8);

/// The load to generate, which is passed to the process as arguments.
#[derive(Clone, Copy, Debug)]
struct Load {
    requests: u64,
    counters: usize,
    visitors: u64,
    /// If `false`, the process does everything except recording.
    records: bool,
}

#[derive(Clone, Copy, Debug)]
struct Measurement {
    /// CPU time in a second, in milliseconds.
    processor: f64,
    /// Growth of the resident memory in MB: with counter names, with visits, and at the end.
    grown: [f64; 3],
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    match &*arguments.iter().map(String::as_str).collect::<Vec<_>>() {
        [] => {
            let paces = paces()?;
            print("the memory store", paces)?;
            println!();
            print("Redis", paces)
        }
        ["memory"] => print("the memory store", paces()?),
        ["redis"] => print("Redis", paces()?),
        ["process", url, requests, counters, visitors, records] => {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            let load = Load {
                requests: requests.parse()?,
                counters: counters.parse()?,
                visitors: visitors.parse()?,
                records: records.parse()?,
            };
            let report = runtime.block_on(process(url, load))?;
            let [names, visits, end] = report.grown;
            println!("{} {names} {visits} {end}", report.processor);
            Ok(())
        }
        _ => Err("usage: processor [memory | redis]".into()),
    }
}

/// Measures the CPU time at these rates if nothing is recorded, as the minimum of three runs.
fn paces() -> Result<[f64; 2], Box<dyn Error>> {
    let (counters, visitors) = SITES[0];
    let mut paces = [f64::INFINITY; 2];
    for _ in 0..3 {
        for (pace, requests) in paces.iter_mut().zip(RATES) {
            let report = run_process("memory", Load { requests, counters, visitors, records: false })?;
            *pace = pace.min(report.processor);
        }
    }
    Ok(paces)
}

/// Prints a table for a store.
fn print(store: &str, paces: [f64; 2]) -> Result<(), Box<dyn Error>> {
    let mut rows = Vec::new();
    for (requests, pace) in RATES.into_iter().zip(paces) {
        for (counters, visitors) in SITES {
            let server = (store == "Redis").then(RedisServer::start);
            let url = server.as_ref().map_or_else(|| "memory".to_owned(), RedisServer::url);
            let report = run_process(&url, Load { requests, counters, visitors, records: true })?;
            let net = report.processor - pace;
            let mut row = vec![
                requests.to_string(),
                counters.to_string(),
                visitors.to_string(),
                format!("{net:.1}"),
                format!("{:.2}", net / 10.0),
                format!("{:.0}", net * 1e6 / requests as f64),
                format!("{pace:.1}"),
            ];
            row.extend(report.grown.map(|grown| format!("{grown:.1}")));
            rows.push(row);
        }
    }
    println!(
        "A process with requests on `hits` and a route, into {store}: {THREADS} threads, {} s each, and {WARMUP_VISITS} \
         warm-up visits per counter:\n",
        MEASURED_TIME.as_secs()
    );
    let head = [
        "requests per second",
        "counters",
        "visitors",
        "CPU ms per second",
        "% of a core",
        "ns per request",
        "subtracted, ms per second",
        "additional MB with names",
        "with visits",
        "at the end",
    ];
    table::print(&head, &rows);
    Ok(())
}

/// Runs a process with this load.
fn run_process(url: &str, load: Load) -> Result<Measurement, Box<dyn Error>> {
    let Load { requests, counters, visitors, records } = load;
    let output = Command::new(std::env::current_exe()?)
        .args(["process", url, &requests.to_string(), &counters.to_string()])
        .args([visitors.to_string(), records.to_string()])
        .stderr(std::process::Stdio::inherit())
        .output()?;
    let words: Result<Vec<f64>, _> =
        String::from_utf8(output.stdout)?.split_whitespace().map(str::parse).collect();
    match &*words? {
        [processor, names, visits, end] => {
            Ok(Measurement { processor: *processor, grown: [*names, *visits, *end] })
        }
        _ => Err(format!("the process failed: {}", output.status).into()),
    }
}

/// Generates the load in this process.
async fn process(url: &str, load: Load) -> Result<Measurement, Box<dyn Error>> {
    let mut site = match url {
        "memory" => Counters::builder(MemoryStore::new()),
        url => Counters::builder(RedisStore::connect(url, Namespace::default()).await?),
    }
    .max_counters(load.counters + 1)
    .build()?;
    site.flush().await?;
    let resident = resident();
    let (recorder, stats) = (site.recorder(), site.stats());
    let hits = recorder.counter("hits");
    let routes: Vec<_> = past::names(load.counters).iter().map(|name| recorder.counter(name)).collect();
    let visits = Visits { recorder, hits, routes, key: VisitorKey::new([7; 16]), load };
    let named = self::resident() - resident;
    visits.make(0, WARMUP_VISITS * load.counters as u64);
    site.flush().await?;
    let visited = self::resident() - resident;

    let upkeep = site.spawn();
    let started = Instant::now();
    let recording: Vec<_> = (0..THREADS)
        .map(|thread| {
            let visits = visits.clone();
            thread::spawn(move || visits.pace(thread, started))
        })
        .collect();
    tokio::time::sleep(WARMUP_TIME).await;
    let (from, time) = (Instant::now(), processor::time());
    tokio::time::sleep(MEASURED_TIME).await;
    let processor = (processor::time() - time).as_secs_f64() * 1e3 / from.elapsed().as_secs_f64();
    let grown = self::resident() - resident;
    // Otherwise, the runtime would be blocked by joining the threads during their final burst.
    tokio::time::sleep(Duration::from_millis(500)).await;
    for thread in recording {
        thread.join().map_err(|_| "a thread panicked")?;
    }
    upkeep.stop().await?;
    let of = stats.ledger().hits;
    assert_eq!(of.applied, of.recorded, "all hits are applied");
    Ok(Measurement { processor, grown: [named, visited, grown] })
}

/// Returns the resident memory of this process in MB.
fn resident() -> f64 {
    let report = fs::read_to_string("/proc/self/status").expect("Linux");
    let line = report.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
    kilobytes.expect("a process has a size") * 1024.0 / 1e6
}

/// Generates requests from the site's visitors.
#[derive(Clone, Debug)]
struct Visits {
    recorder: Recorder,
    hits: Counter,
    routes: Vec<Counter>,
    key: VisitorKey,
    load: Load,
}

impl Visits {
    /// Makes `count` requests, starting at a request number.
    fn make(&self, from: u64, count: u64) {
        for n in from..from + count {
            let route = self.routes[usize::try_from(n).expect("64 bits") % self.routes.len()];
            // Must not be a function of the route, because a route should eventually see all visitors.
            let visitor = (n / self.routes.len() as u64 + n * 7919) % self.load.visitors;
            let visitor = self.key.visitor(&[&visitor.to_le_bytes()]);
            if self.load.records {
                let hits = [self.hits, route].map(|counter| counter.hit().visitor(visitor));
                self.recorder.request(&hits, Agent::Human);
            } else {
                black_box((route, visitor));
            }
        }
    }

    /// Makes this thread's share of the requests at a steady rate.
    fn pace(&self, thread: u64, started: Instant) {
        let mut made = 0;
        loop {
            let passed = started.elapsed();
            if passed >= WARMUP_TIME + MEASURED_TIME {
                break;
            }
            let due = (passed.as_secs_f64() * self.load.requests as f64 / THREADS as f64) as u64;
            self.make(thread * u64::from(u32::MAX) + made, due - made);
            made = due;
            thread::sleep(BURST_INTERVAL);
        }
    }
}
