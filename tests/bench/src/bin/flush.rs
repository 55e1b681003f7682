//! Flush benchmark: client CPU time, network traffic and server load.
//!
//! The arguments set the numbers of counters, which are hit every second at the seven default precisions. The
//! store already contains 120 samples at each precision, and a sample is added every second. This is the
//! state that you will find after long use.
//!
//! With the argument `ways`, we only compare the order of samples, encodings and flush intervals.

use std::error::Error;
use std::num::NonZeroU32;
use std::time::Instant;

use bench::server::Figures;
use bench::{past, processor, table};
use counter_core::stores::Namespace;
use counter_core::unstable::fred::clients::Client;
use counter_core::unstable::fred::interfaces::ClientLike;
use counter_core::unstable::fred::types::config::Config;
use counter_core::unstable::fred::types::{ClusterHash, CustomCommand, Value};
use counter_core::visitor::VisitorKey;
use counter_core::{Counters, Precisions, RedisStore, Timestamp};
use tests::RedisServer;

/// Seconds to warm up, and to measure. There is one pass of the cleaner in between, like in each minute of a process.
const WARMUP: u64 = 10;
const MEASURED: u64 = 60;

/// Commands that the book sends for a hit at a precision: `HINCRBY` and `ZADD`.
const BOOK_COMMANDS: f64 = 2.0;

/// The request rate in the operations benchmark. Hits go to 100 routes and to `hits`.
const REQUESTS_PER_SECOND: u32 = 10_000;

/// Flush intervals and duration of the operations benchmark, in seconds.
const FLUSH_INTERVALS: [u64; 4] = [1, 5, 10, 30];
const LOAD_SECONDS: u64 = 120;

/// A way to write counts.
#[derive(Debug)]
struct Way {
    name: &'static str,
    /// Seconds between flushes. Must be a divisor of [`WARMUP`] and [`MEASURED`].
    interval: u64,
    /// Whether the cleaner moves the newest samples to the front.
    is_cleaned: bool,
    /// Arguments for the server.
    arguments: &'static [&'static str],
}

const DEFAULT: Way = Way { name: "default", interval: 1, is_cleaned: true, arguments: &[] };
const WAYS: [Way; 6] = [
    Way { name: "newest sample last", is_cleaned: false, ..DEFAULT },
    DEFAULT,
    Way {
        name: "tables instead of listpacks",
        is_cleaned: false,
        arguments: &["--hash-max-listpack-entries", "8"],
        ..DEFAULT
    },
    Way { interval: 2, ..DEFAULT },
    Way { interval: 5, ..DEFAULT },
    Way { interval: 10, ..DEFAULT },
];

/// The costs of flushes during [`MEASURED`] seconds.
#[derive(Debug)]
struct Costs {
    /// Client CPU time of each flush, in milliseconds.
    client: Vec<f64>,
    /// Time to acknowledgement of each flush, in milliseconds.
    waits: Vec<f64>,
    /// The work of the server.
    work: Figures,
    /// Bytes used by the server.
    memory: u64,
    /// Server CPU time for a plain `HINCRBY`, in µs.
    plain: f64,
}

fn main() -> Result<(), Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    if std::env::args().nth(1).as_deref() == Some("ways") {
        return runtime.block_on(compare());
    }
    let requested: Vec<usize> = std::env::args().skip(1).map(|n| n.parse()).collect::<Result<_, _>>()?;
    let counters = if requested.is_empty() { vec![1, 100, 1000, 2000] } else { requested };
    let mut rows = Vec::new();
    for counters in counters {
        for visitors in [0, 1, 10] {
            rows.push(runtime.block_on(row(counters, visitors))?);
        }
    }
    println!(
        "A flush of counters with hits and new visitors in a second (medians of \
         processor time, means of the rest):\n"
    );
    table::print(
        &[
            "counters",
            "new visitors per counter",
            "client, CPU ms",
            "time to acknowledgement, ms",
            "script calls",
            "KB sent",
            "operations",
            "server, CPU ms",
            "µs per operation",
            "µs per plain HINCRBY",
            "ms per call",
        ],
        &rows,
    );
    let default = Precisions::default();
    let minutes = Precisions::new(default.iter().filter(|retention| retention.precision.as_seconds() >= 60))?;
    let mut rows = vec![runtime.block_on(operations(1000, 1, &default))?];
    for precisions in [&default, &minutes] {
        for interval in FLUSH_INTERVALS {
            rows.push(runtime.block_on(operations(REQUESTS_PER_SECOND, interval, precisions))?);
        }
    }
    println!("\nPer second of requests, which hit `hits` and one of 100 routes:\n");
    table::print(
        &[
            "precisions",
            "requests",
            "s between flushes",
            "script calls",
            "operations inside",
            "the book's commands",
            "calls : book's",
            "operations : book's",
            "server CPU ms",
        ],
        &rows,
    );
    Ok(())
}

/// Compares the ways to write 1,000 counters.
async fn compare() -> Result<(), Box<dyn Error>> {
    let (mut rows, mut first) = (Vec::new(), None);
    for way in &WAYS {
        let costs = flush(1000, 0, way).await?;
        let operations = costs.work.operations() as f64 / MEASURED as f64;
        let server = costs.work.processor.as_secs_f64() * 1e3 / MEASURED as f64;
        rows.push(vec![
            way.name.to_owned(),
            way.interval.to_string(),
            format!("{operations:.0}"),
            format!("{server:.1}"),
            format!("{:.2}", server / *first.get_or_insert(server)),
            format!("{:.1}", costs.memory as f64 / 1e6),
        ]);
    }
    println!("1,000 counters with hits in each second:\n");
    let titles = [
        "way",
        "seconds between flushes",
        "operations per second",
        "server, CPU ms per second",
        "ratio",
        "server, MB",
    ];
    table::print(&titles, &rows);
    Ok(())
}

/// Measures flushes of `count` counters, where every counter has this number of new visitors.
async fn row(count: usize, visitors: u64) -> Result<Vec<String>, Box<dyn Error>> {
    let Costs { mut client, mut waits, work, plain, .. } = flush(count, visitors, &DEFAULT).await?;
    let (flushes, scripts) = (MEASURED as f64, work.calls("evalsha"));
    let milliseconds = work.processor.as_secs_f64() * 1e3;
    Ok(vec![
        count.to_string(),
        visitors.to_string(),
        format!("{:.2}", table::quantile(&mut client, 0.5)),
        format!("{:.1}", table::quantile(&mut waits, 0.5)),
        format!("{:.1}", scripts.count as f64 / flushes),
        format!("{:.1}", work.received as f64 / 1e3 / flushes),
        format!("{:.0}", work.operations() as f64 / flushes),
        format!("{:.2}", milliseconds / flushes),
        format!("{:.2}", milliseconds * 1e3 / work.operations() as f64),
        format!("{plain:.2}"),
        format!("{:.2}", scripts.microseconds as f64 / 1e3 / scripts.count as f64),
    ])
}

async fn flush(count: usize, visitors: u64, way: &Way) -> Result<Costs, Box<dyn Error>> {
    let server = RedisServer::start_with(way.arguments);
    let site = counters(&server).await?;
    let recorder = site.recorder();
    let (mut flusher, mut cleaner) = site.into_parts();
    let (start, names) = (Timestamp::now(), past::names(count));
    past::write(&server, "access:", &names, &past::default_precisions(), 121, start);
    let counters: Vec<_> = names.iter().map(|name| recorder.counter(name)).collect();
    let key = VisitorKey::new([7; 16]);
    let (mut client, mut waits, mut before) = (Vec::new(), Vec::new(), None);
    for second in 1..=WARMUP + MEASURED {
        let at = start.plus(second);
        for counter in &counters {
            // A flush is almost always in the middle of a second, and another one covers the rest of this second.
            let is_split = (second - 1) % way.interval == 0;
            for at in [at.minus(1), at].into_iter().skip(usize::from(!is_split)) {
                recorder.record_at(*counter, None, at, NonZeroU32::new(9).expect("not 0"));
            }
            for visitor in 0..visitors {
                let number = second * visitors + visitor;
                recorder.record_at(
                    *counter,
                    Some(key.visitor(&[&number.to_le_bytes()])),
                    at,
                    NonZeroU32::MIN,
                );
            }
        }
        if second % way.interval == 0 {
            let (started, time) = (Instant::now(), processor::time());
            flusher.flush().await?;
            if second > WARMUP {
                client.push((processor::time() - time).as_secs_f64() * 1e3);
                waits.push(started.elapsed().as_secs_f64() * 1e3);
            }
        }
        if second == WARMUP {
            if way.is_cleaned {
                cleaner.clean_once(Timestamp::now()).await?;
            }
            before = Some(Figures::of(&server));
        }
    }
    let work = Figures::of(&server).since(&before.expect("warmed up"));
    let memory = Figures::of(&server).memory;
    let plain = plain(&server, &names, start.plus(WARMUP + MEASURED)).await?;
    Ok(Costs { client, waits, work, memory, plain })
}

/// Measures the server CPU time for a plain `HINCRBY` in a pipeline, in µs.
async fn plain(server: &RedisServer, names: &[String], now: Timestamp) -> Result<f64, Box<dyn Error>> {
    let client = Client::new(Config::from_url(&server.url())?, None, None, None);
    client.init().await?;
    let before = Figures::of(server);
    for _ in 0..1 + 2000 / names.len() {
        let pipeline = client.pipeline();
        for name in names {
            for retention in Precisions::default().iter() {
                let start = retention.precision.bucket(now).start.to_string();
                let words = [format!("access:count:{}:{name}", retention.precision), start, "9".to_owned()];
                let command = CustomCommand::new_static("HINCRBY", ClusterHash::FirstKey, false);
                let () = pipeline.custom(command, words.to_vec()).await?;
            }
        }
        let _: Vec<Value> = pipeline.all().await?;
    }
    let work = Figures::of(server).since(&before);
    Ok(work.processor.as_secs_f64() * 1e6 / work.operations() as f64)
}

/// Counts the Redis operations at this request rate and flush interval.
async fn operations(
    requests: u32,
    interval: u64,
    precisions: &Precisions,
) -> Result<Vec<String>, Box<dyn Error>> {
    let server = RedisServer::start();
    let store = RedisStore::connect(&server.url(), Namespace::default()).await?;
    let mut site = Counters::builder(store).precisions(precisions.clone()).build()?;
    let recorder = site.recorder();
    let hits = recorder.counter("hits");
    let (start, mut names) = (Timestamp::now(), past::names(100));
    let routes: Vec<_> = names.iter().map(|name| recorder.counter(name)).collect();
    names.push("hits".to_owned());
    past::write(&server, "access:", &names, &past::default_precisions(), 120, start);
    let before = Figures::of(&server);
    for second in 0..LOAD_SECONDS {
        let at = start.plus(second);
        for (n, route) in (0..requests).zip(routes.iter().cycle()) {
            recorder.record_at(hits, None, at, NonZeroU32::MIN);
            recorder.record_at(*route, None, at, NonZeroU32::MIN);
            // Flush in the middle of a second.
            if n == requests / 2 && (second + 1) % interval == 0 {
                site.flush().await?;
            }
        }
    }
    // Hits after the final measured flush must not be included.
    let work = Figures::of(&server).since(&before);
    site.flush().await?;
    let calls = work.calls("evalsha").count as f64 / LOAD_SECONDS as f64;
    let operations = work.operations() as f64 / LOAD_SECONDS as f64;
    let retained = precisions.iter().count();
    let book = BOOK_COMMANDS * retained as f64 * 2.0 * f64::from(requests);
    let part = |of: f64| format!("1 : {:.0}", book / of);
    let finest = precisions.iter().next().map_or(0, |retention| retention.precision.as_seconds());
    Ok(vec![
        format!("{retained}, from {finest} s"),
        requests.to_string(),
        interval.to_string(),
        format!("{calls:.1}"),
        format!("{operations:.0}"),
        format!("{book:.0}"),
        part(calls),
        part(operations),
        format!("{:.2}", work.processor.as_secs_f64() * 1e3 / LOAD_SECONDS as f64),
    ])
}

async fn counters(server: &RedisServer) -> Result<Counters, Box<dyn Error>> {
    let store = RedisStore::connect(&server.url(), Namespace::default()).await?;
    Ok(Counters::builder(store).build()?)
}
