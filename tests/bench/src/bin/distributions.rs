//! Distribution benchmark: accuracy of percentiles across instances, and the cost of bins in Redis and in a
//! flush.
//!
//! Eight instances record ten million times (or as many as the argument says) in four shapes to Redis with
//! Sentinel. The master fails over during the run. We then compare the stored percentiles with exact ones.
//! Fails if a percentile exceeds the error bound, or if times are missing or counted twice.

use std::error::Error;
use std::f64::consts::TAU;
use std::num::NonZeroU32;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use bench::server::Figures;
use bench::{past, processor, table};
use counter_core::stores::Namespace;
use counter_core::visits::{Bin, Distribution, Measure, Measured};
use counter_core::{Counters, Precision, RedisStore, Timestamp};
use tests::{LIMIT, RedisSentinel, RedisServer, Value, until};
use tokio::sync::watch;
use tokio::task::block_in_place;

const DEFAULT_TIMES: usize = 10_000_000;
const INSTANCES: usize = 8;

/// Times that an instance records before yielding to other instances.
const CHUNK: usize = 1000;

/// How long recording the final quarter takes.
const LAST_QUARTER_TIME: Duration = Duration::from_secs(20);

const QUANTILES: [f64; 4] = [0.5, 0.9, 0.99, 0.999];

/// Requests per second and route. The times are spread over a factor of ten.
const REQUESTS_PER_SECOND: u64 = 20;

type Shape = (&'static str, fn(&mut Random) -> f64);

/// Distributions of times in seconds.
const SHAPES: [Shape; 4] = [
    ("lognormal, median 20 ms", |random| 0.02 * random.normal().exp()),
    ("two peaks, 3 ms and 1 s", |random| {
        let peak = if random.unit() < 0.9 { 0.003 } else { 1.0 };
        peak * (0.3 * random.normal()).exp()
    }),
    ("Pareto, from 1 ms", |random| (0.001 * random.unit().powf(-1.0 / 1.2)).min(60.0)),
    ("even, 100 µs to 60 s", |random| 0.0001 + random.unit() * 59.9999),
];

/// Deterministic random numbers (SplitMix64).
struct Random(u64);

impl Random {
    /// Returns a number in (0, 1].
    fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (((mixed ^ (mixed >> 31)) >> 11) + 1) as f64 / (1_u64 << 53) as f64
    }

    fn normal(&mut self) -> f64 {
        (-2.0 * self.unit().ln()).sqrt() * (TAU * self.unit()).cos()
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let times = std::env::args().nth(1).map_or(Ok(DEFAULT_TIMES), |times| times.parse())?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(percentiles(times / SHAPES.len()))?;
    runtime.block_on(memory())?;
    let mut rows = Vec::new();
    for counters in [1, 100, 1000] {
        for measures in [false, true] {
            rows.push(runtime.block_on(flush(counters, measures))?);
        }
    }
    println!("A flush of {REQUESTS_PER_SECOND} requests per counter (medians of 60):\n");
    table::print(&["counters", "distributions", "client, CPU ms", "operations", "server, ms"], &rows);
    Ok(())
}

/// Records and checks `per_shape` times for each shape.
async fn percentiles(per_shape: usize) -> Result<(), Box<dyn Error>> {
    let servers = RedisSentinel::start();
    servers.until_replicated();
    let mut random = Random(42);
    let shapes = SHAPES.map(|(name, shape)| {
        (name, (0..per_shape).map(|_| Duration::from_secs_f64(shape(&mut random))).collect::<Vec<_>>())
    });
    let (stop, stopped) = watch::channel(());
    let (mut instances, mut recorders) = (Vec::new(), Vec::new());
    for _ in 0..INSTANCES {
        let mut counters = counters(&servers.url(), true).await?;
        recorders.push(counters.recorder());
        let mut stopped = stopped.clone();
        instances
            .push(tokio::spawn(async move { counters.run(async { drop(stopped.changed().await) }).await }));
    }
    let started = Timestamp::now();
    // The failover loses the latest writes to the old master. These will be sent again with later flushes.
    let (half, reached_half) = mpsc::channel::<()>();
    let (failed_over, has_failed_over) = mpsc::channel::<()>();
    let (shapes_of_all, recorders) = (&shapes, &recorders);
    let record = move || {
        let mut half = Some(half);
        for from in (0..per_shape).step_by(CHUNK) {
            for ((name, times), n) in shapes_of_all.iter().zip(0..) {
                let recorder = &recorders[(from / CHUNK + n) % INSTANCES];
                let hits = [recorder.counter(name).hit()];
                for time in &times[from..(from + CHUNK).min(per_shape)] {
                    recorder
                        .measure_at(Measured { hits: &hits, bins: &[Bin::time(*time)] }, Timestamp::now());
                }
            }
            half.take_if(|_| from >= per_shape / 2);
            if from >= per_shape / 4 * 3 {
                _ = has_failed_over.recv();
                // The instances need to have something to send, because they only notice the failover when
                // they write.
                thread::sleep(LAST_QUARTER_TIME.mul_f64(4.0 * CHUNK as f64 / per_shape as f64));
            }
        }
    };
    block_in_place(|| {
        thread::scope(|scope| {
            scope.spawn(record);
            // Returns when the other side is dropped.
            _ = reached_half.recv();
            servers.failover();
            drop(failed_over);
        });
    });
    let counters = counters(&servers.url(), true).await?;
    let (hour, range) = (Precision::try_from(3600)?, started.minus(3600)..started.plus(3600));
    let names: Vec<_> = shapes.iter().map(|(name, _)| name.parse()).collect::<Result<_, _>>()?;
    let is_complete = async || {
        let stored = counters.stats().distribution(&names, hour, range.clone(), Measure::Time).await;
        stored.is_ok_and(|stored| stored.merged().count() >= (shapes.len() * per_shape) as u64)
    };
    until("all times are in the store", LIMIT, is_complete).await;
    drop(stop);
    for instance in instances {
        instance.await??;
    }
    let mut rows = Vec::new();
    for (name, mut times) in shapes {
        let stored = counters
            .stats()
            .distribution(&[name.parse()?], hour, range.clone(), Measure::Time)
            .await?
            .merged();
        if stored.count() != times.len() as u64 {
            return Err(format!("{name}: {} of {} times", stored.count(), times.len()).into());
        }
        times.sort_unstable();
        let mut row = vec![name.to_owned()];
        for q in QUANTILES {
            let rank = (q * times.len() as f64).ceil() as usize;
            let exact = times[rank.max(1) - 1].as_secs_f64();
            let off = stored.quantile(q).ok_or("no times")? / exact - 1.0;
            if off.abs() > Measure::RELATIVE_ERROR {
                return Err(format!("{name}: the quantile {q} is off by {off}").into());
            }
            row.push(format!("{:+.1} %", 100.0 * off));
        }
        rows.push(row);
    }
    println!(
        "{} times counted exactly once, over {INSTANCES} instances and a failover; deviation from the exact percentile:\n",
        4 * per_shape
    );
    table::print(&["shape", "50 %", "90 %", "99 %", "99.9 %"], &rows);
    Ok(())
}

/// Measures the memory for routes that are busy throughout the retention period.
async fn memory() -> Result<(), Box<dyn Error>> {
    const ROUTES: usize = 10;
    let server = RedisServer::start();
    let mut counters = counters(&server.url(), true).await?;
    let recorder = counters.recorder();
    let routes: Vec<_> = past::names(ROUTES).iter().map(|name| recorder.counter(name)).collect();
    let (now, mut random) = (Timestamp::now(), Random(7));
    for retention in Distribution::precisions().iter() {
        let width = u64::from(retention.precision.as_seconds());
        for back in (0..120).rev() {
            for route in &routes {
                for request in 0..1000 {
                    let (hits, status) = ([route.hit()], if request % 50 == 0 { 404 } else { 200 });
                    let bins =
                        [Bin::time(Duration::from_secs_f64(SHAPES[0].1(&mut random))), Bin::status(status)];
                    recorder.measure_at(Measured { hits: &hits, bins: &bins }, now.minus(back * width));
                }
            }
            counters.flush().await?;
        }
    }
    let (mut bytes, mut keys, mut bins) = (0, 0, 0);
    let Value::Array(found) = server.command(&["KEYS", "access:bins:*:/articles/0:*"]) else {
        return Err("KEYS did not return a list".into());
    };
    for key in found {
        let key = key.text().ok_or("a key is not text")?;
        let number = |words: &[&str]| match server.command(words) {
            Value::Int(number) => number,
            _ => 0,
        };
        bytes += number(&["MEMORY", "USAGE", &key]);
        bins += number(&["HLEN", &key]);
        keys += 1;
    }
    println!("A busy route with times and statuses at three precisions (lognormal):\n");
    println!("{keys} keys, {bins} bins, {:.1} KB\n", bytes as f64 / 1e3);
    Ok(())
}

async fn flush(count: usize, measures: bool) -> Result<Vec<String>, Box<dyn Error>> {
    let server = RedisServer::start();
    let mut site = counters(&server.url(), measures).await?;
    let (recorder, start, mut random) = (site.recorder(), Timestamp::now(), Random(7));
    let routes: Vec<_> = past::names(count).iter().map(|name| recorder.counter(name)).collect();
    let (mut client, before) = (Vec::new(), Figures::of(&server));
    for second in 0..60 {
        for route in &routes {
            let hits = [route.hit()];
            recorder.record_at(
                *route,
                None,
                start.plus(second),
                NonZeroU32::new(REQUESTS_PER_SECOND as u32).expect("some"),
            );
            for _ in 0..REQUESTS_PER_SECOND {
                let bins = [Bin::time(Duration::from_secs_f64(SHAPES[0].1(&mut random))), Bin::status(200)];
                recorder.measure_at(Measured { hits: &hits, bins: &bins }, start.plus(second));
            }
        }
        let time = processor::time();
        site.flush().await?;
        client.push((processor::time() - time).as_secs_f64() * 1e3);
    }
    let work = Figures::of(&server).since(&before);
    Ok(vec![
        count.to_string(),
        if measures { "time and status" } else { "none" }.to_owned(),
        format!("{:.2}", table::quantile(&mut client, 0.5)),
        format!("{:.0}", work.operations() as f64 / 60.0),
        format!("{:.2}", work.processor.as_secs_f64() * 1e3 / 60.0),
    ])
}

async fn counters(url: &str, measures: bool) -> Result<Counters, Box<dyn Error>> {
    let builder = Counters::builder(RedisStore::connect(url, Namespace::default()).await?);
    let builder = if measures { builder.distributions(Distribution::precisions()) } else { builder };
    Ok(builder.build()?)
}
