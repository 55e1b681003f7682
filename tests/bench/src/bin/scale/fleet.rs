//! A fleet of instances, each in a separate process with a recorder, a flusher and connections.
//!
//! We use processes instead of threads, because threads would share the allocator, the caches and the
//! runtime, and because the kernel reports CPU time by process. All instances have the same counters, like
//! instances of a service, and the flushes are spread over the interval. There is a pass of the cleaner before
//! we measure, because a cleaner also moves the newest samples of busy counters to the front.

use std::error::Error;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use bench::server::Figures;
use bench::{past, processor, table};
use counter_core::stores::{Namespace, Shards};
use counter_core::{Counters, RedisStore, Timestamp};
use tests::{RedisCluster, RedisServer};
use tokio::runtime::Builder;
use tokio::time::{sleep, sleep_until};

const INSTANCES: [u32; 6] = [1, 4, 16, 32, 48, 64];

/// Interval between hits on a counter, i.e. there are ten hits in a second.
const HIT_INTERVAL: Duration = Duration::from_millis(100);

/// Latest second of a minute in which a row can start. There is only one pass of the cleaner, so everything should be in
/// the same minute.
const MAX_START_SECOND: u64 = 5;

/// Minimum time to measure a row.
const MIN_MEASURED_TIME: Duration = Duration::from_secs(10);

/// CPU percentage above which we consider a server saturated.
const FULL_PERCENT: f64 = 80.0;

/// Flush attempts before an instance gives up. An attempt takes at most five seconds.
const MAX_ATTEMPTS: u32 = 12;

/// The load from an instance.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    pub(crate) counters: usize,
    pub(crate) interval: Duration,
}

impl Load {
    /// Parses the arguments: the number of counters, and the flush interval in seconds.
    pub(crate) fn of(arguments: &[&str]) -> Result<Self, Box<dyn Error>> {
        let counters = arguments.first().map_or(Ok(1000), |word| word.parse())?;
        let seconds = arguments.get(1).map_or(Ok(1), |word| word.parse())?;
        if !(1..=2000).contains(&counters) || !(1..=30).contains(&seconds) {
            return Err("expected 1 to 2,000 counters and 1 to 30 seconds".into());
        }
        Ok(Self { counters, interval: Duration::from_secs(seconds) })
    }

    pub(crate) fn measured(self) -> Duration {
        MIN_MEASURED_TIME.max(2 * self.interval)
    }
}

/// The Redis servers that a fleet writes to.
#[derive(Debug)]
enum Servers {
    One(RedisServer),
    Cluster(RedisCluster),
}

/// Measurements for a fleet size.
#[derive(Debug)]
struct Row {
    instances: u32,
    /// Operations on all servers in a second.
    operations: f64,
    calls: f64,
    /// Server CPU time in a second, in milliseconds.
    server: f64,
    /// CPU percentage of the busiest server.
    busiest: f64,
    /// CPU time of an instance in a second, in milliseconds.
    instance: f64,
    /// Median and maximum time to acknowledgement in milliseconds.
    waits: [f64; 2],
    /// CPU percentage of the machine, including other processes.
    machine: f64,
}

/// Measures a single server and a cluster, and prints a table for both.
pub(crate) fn print(load: Load) -> Result<(), Box<dyn Error>> {
    let Load { counters, interval } = load;
    for (name, cluster) in [("one Redis", false), ("a cluster of three masters", true)] {
        let mut rows = Vec::new();
        for instances in INSTANCES {
            rows.push(row(&Servers::start(cluster), instances, load)?);
        }
        println!(
            "\nProcesses with ten hits per second on each of {counters} shared counters, and a \
             flush every {} s into {name}:\n",
            interval.as_secs()
        );
        table::print(
            &[
                "instances",
                "calls per second",
                "operations per second",
                "server CPU ms per second",
                "CPU % of the busiest server",
                "µs per operation",
                "CPU ms per second and instance",
                "time to acknowledgement, ms: median",
                "maximum",
                "CPU % of the machine",
            ],
            &rows.iter().map(Row::cells).collect::<Vec<_>>(),
        );
        println!("\n{}", saturation(&rows, interval));
    }
    Ok(())
}

/// Describes the saturation point: which row is too much for a server or for the machine, and how many
/// instances a server could handle.
fn saturation(rows: &[Row], interval: Duration) -> String {
    let interval = interval.as_secs_f64() * 1e3;
    let is_full = |row: &Row| row.busiest > FULL_PERCENT;
    let is_too_much = |row: &Row| is_full(row) || row.waits[0] > interval;
    let last_sustained = rows.iter().take_while(|row| !is_too_much(row)).last();
    let estimate = last_sustained.map_or_else(String::new, |row| {
        let max_instances = f64::from(row.instances) * FULL_PERCENT / row.busiest;
        format!(" Extrapolated from {}, {FULL_PERCENT:.0} % of a core would be reached at {max_instances:.0} instances.", row.instances)
    });
    let end = match rows.iter().find(|row| is_too_much(row)) {
        None => "No row is saturated.".to_owned(),
        Some(row) if is_full(row) => format!("{} instances saturate a core.", row.instances),
        Some(row) => format!(
            "With {} instances, flushes take longer than the interval, but no server core is saturated: the \
             machine is at {:.0} %.",
            row.instances, row.machine
        ),
    };
    end + &estimate
}

/// Measures a fleet with this number of instances.
fn row(servers: &Servers, instances: u32, load: Load) -> Result<Row, Box<dyn Error>> {
    let names = past::names(load.counters);
    let second = Timestamp::now().as_unix() % 60;
    if second > MAX_START_SECOND {
        std::thread::sleep(Duration::from_secs(60 - second));
    }
    servers.write_history(&names);
    servers.clean()?;
    let before = servers.total();
    let mut fleet = Vec::new();
    for number in 0..instances {
        fleet.push(Instance::start(&servers.url(), number, instances, load)?);
    }
    for instance in &mut fleet {
        instance.next_line()?;
    }
    for instance in &mut fleet {
        instance.start_load()?;
    }
    std::thread::sleep(load.interval);
    let (figures, machine, started) = (servers.figures(), machine(), Instant::now());
    std::thread::sleep(load.measured());
    let work: Vec<_> =
        servers.figures().into_iter().zip(&figures).map(|(now, before)| now.since(before)).collect();
    let (took, machine) = (started.elapsed().as_secs_f64(), [self::machine(), machine]);
    let Work { recorded, processor, mut waits } = Work::of(&mut fleet)?;
    assert_eq!(servers.total() - before, recorded, "every hit is counted exactly once");
    let sum = |of: fn(&Figures) -> f64| work.iter().map(of).sum::<f64>() / took;
    let seconds = |work: &Figures| work.processor.as_secs_f64();
    Ok(Row {
        instances,
        operations: sum(|work| work.operations() as f64),
        calls: sum(|work| work.calls("evalsha").count as f64),
        server: sum(seconds) * 1e3,
        busiest: work.iter().map(seconds).fold(0.0, f64::max) / took * 100.0,
        instance: processor / f64::from(instances),
        waits: [0.5, 1.0].map(|part| table::quantile(&mut waits, part)),
        machine: (machine[0].0 - machine[1].0) / (machine[0].1 - machine[1].1) * 100.0,
    })
}

/// Returns the CPU ticks of all cores since boot: busy and total.
pub(crate) fn machine() -> (f64, f64) {
    let output = fs::read_to_string("/proc/stat").expect("Linux");
    let first = output.lines().next().expect("a line of all cores");
    // user, nice, system, idle, iowait, irq, softirq, steal
    let ticks: Vec<f64> =
        first.split_whitespace().skip(1).take(8).filter_map(|tick| tick.parse().ok()).collect();
    let all: f64 = ticks.iter().sum();
    (all - ticks[3] - ticks[4], all)
}

/// The work of all instances of a fleet.
#[derive(Debug, Default)]
pub(crate) struct Work {
    pub(crate) recorded: u64,
    /// CPU time in a second, in milliseconds.
    processor: f64,
    /// Times to acknowledgement in milliseconds.
    waits: Vec<f64>,
}

impl Work {
    /// Waits until all instances have finished.
    pub(crate) fn of(fleet: &mut [Instance]) -> Result<Self, Box<dyn Error>> {
        let mut work = Self::default();
        for instance in fleet {
            let output = instance.next_line()?;
            let mut output = output.split(' ');
            work.recorded += output.next().ok_or("no hits")?.parse::<u64>()?;
            work.processor += output.next().ok_or("no time")?.parse::<f64>()?;
            for wait in output {
                work.waits.push(wait.parse()?);
            }
        }
        Ok(work)
    }
}

impl Servers {
    fn start(cluster: bool) -> Self {
        match cluster {
            // Redis' default timeout of 15 s, because a master should not be considered dead if it gets
            // descheduled for a second.
            true => Self::Cluster(RedisCluster::start_with(&[
                "--appendonly",
                "no",
                "--cluster-node-timeout",
                "15000",
            ])),
            false => Self::One(RedisServer::start()),
        }
    }

    fn url(&self) -> String {
        match self {
            Self::One(server) => server.url(),
            Self::Cluster(cluster) => cluster.url(),
        }
    }

    fn figures(&self) -> Vec<Figures> {
        match self {
            Self::One(server) => vec![Figures::of(server)],
            Self::Cluster(cluster) => cluster.nodes().iter().map(Figures::of).collect(),
        }
    }

    /// Runs a pass of the cleaner.
    fn clean(&self) -> Result<(), Box<dyn Error>> {
        Builder::new_current_thread().enable_all().build()?.block_on(async {
            let store = RedisStore::connect(&self.url(), Namespace::default()).await?;
            let (_flusher, mut cleaner) = Counters::builder(store).build()?.into_parts();
            cleaner.clean_once(Timestamp::now()).await?;
            Ok(())
        })
    }

    /// Returns the sharding, and the key prefix and server of the shards.
    fn shards(&self) -> (Shards, Vec<(String, &RedisServer)>) {
        match self {
            Self::One(server) => (Shards::ONE, vec![("access:".to_owned(), server)]),
            Self::Cluster(cluster) => {
                let shards = Shards::try_from(16).expect("the number of a cluster");
                let place = |n| {
                    let prefix = format!("{{access:{n}}}");
                    let server = cluster.node(cluster.owner_of(&prefix));
                    (prefix, server)
                };
                (shards, (0..shards.count()).map(place).collect())
            }
        }
    }

    /// Fills the store with history for these counters, to look like it would after long use.
    fn write_history(&self, names: &[String]) {
        let (shards, places) = self.shards();
        for (shard, (prefix, server)) in shards.iter().zip(places) {
            let shard_names: Vec<_> = names.iter().filter(|name| shards.of(name) == shard).cloned().collect();
            past::write(server, &prefix, &shard_names, &past::default_precisions(), 121, Timestamp::now());
        }
    }

    /// Returns the sum of lifetime totals.
    fn total(&self) -> u64 {
        let hits = |(prefix, server): (String, &RedisServer)| {
            let output = server.strings(&["HGETALL", &format!("{prefix}total")]);
            // The field with an empty name is a marker, not a counter.
            let counts = output.chunks_exact(2).filter(|pair| !pair[0].is_empty());
            counts.map(|pair| pair[1].parse::<u64>().expect("a count")).sum::<u64>()
        };
        self.shards().1.into_iter().map(hits).sum()
    }
}

impl Row {
    fn cells(&self) -> Vec<String> {
        vec![
            self.instances.to_string(),
            format!("{:.0}", self.calls),
            format!("{:.0}", self.operations),
            format!("{:.0}", self.server),
            format!("{:.0}", self.busiest),
            format!("{:.2}", self.server * 1e3 / self.operations),
            format!("{:.2}", self.instance),
            format!("{:.1}", self.waits[0]),
            format!("{:.1}", self.waits[1]),
            format!("{:.0}", self.machine),
        ]
    }
}

/// A process in the fleet. Dropping this will kill the process.
#[derive(Debug)]
pub(crate) struct Instance {
    process: Child,
    stdout_lines: BufReader<ChildStdout>,
}

impl Instance {
    pub(crate) fn start(url: &str, number: u32, of: u32, load: Load) -> Result<Self, Box<dyn Error>> {
        let mut process = Command::new(std::env::current_exe()?)
            .args(["instance", url, &number.to_string(), &of.to_string()])
            .args([load.counters.to_string(), load.interval.as_secs().to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let stdout_lines = BufReader::new(process.stdout.take().ok_or("no output")?);
        Ok(Self { process, stdout_lines })
    }

    /// Reads the next line from the process output.
    pub(crate) fn next_line(&mut self) -> Result<String, Box<dyn Error>> {
        let mut line = String::new();
        match self.stdout_lines.read_line(&mut line)? {
            0 => Err("an instance has exited".into()),
            _ => Ok(line.trim_end().to_owned()),
        }
    }

    pub(crate) fn start_load(&mut self) -> std::io::Result<()> {
        self.process.stdin.as_mut().map_or(Ok(()), |input| input.write_all(b"begin\n"))
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        // The process may have exited already.
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

/// Runs an instance. Prints a line when ready, waits for a line on stdin, generates load for the measurement
/// time, and prints the number of hits, the CPU milliseconds per second and the flush durations.
pub(crate) async fn instance(arguments: &[&str]) -> Result<(), Box<dyn Error>> {
    let [url, number, of, load @ ..] = arguments else {
        return Err("instance URL NUMBER OF COUNTERS SECONDS".into());
    };
    let (number, of, load): (u32, u32, Load) = (number.parse()?, of.parse()?, Load::of(load)?);
    let store = RedisStore::connect(url, Namespace::default()).await?;
    let mut site =
        Counters::builder(store).flush_interval(load.interval).max_counters(load.counters + 1).build()?;
    let recorder = site.recorder();
    let counters: Vec<_> = past::names(load.counters).iter().map(|name| recorder.counter(name)).collect();
    let record = || {
        for counter in &counters {
            recorder.record(*counter, None);
        }
    };
    // The first flush does additional work, so we don't measure it.
    record();
    flush(&mut site).await?;
    println!("ready");
    std::io::stdin().read_line(&mut String::new())?;

    let measure_from = tokio::time::Instant::now() + load.interval;
    let measure_until = measure_from + load.measured();
    let recording = async {
        let mut ticks = tokio::time::interval(HIT_INTERVAL);
        while ticks.tick().await < measure_until {
            record();
        }
    };
    let mut waits = String::new();
    let flushing = async {
        sleep(load.interval * number / of).await;
        loop {
            let started = tokio::time::Instant::now();
            if started >= measure_until {
                break Ok::<(), counter_core::Error>(());
            }
            flush(&mut site).await?;
            if started >= measure_from {
                waits += &format!(" {:.3}", started.elapsed().as_secs_f64() * 1e3);
            }
            sleep_until(started + load.interval).await;
        }
    };
    let watching = async {
        sleep_until(measure_from).await;
        let (started, time) = (Instant::now(), processor::time());
        sleep_until(measure_until).await;
        (processor::time() - time).as_secs_f64() * 1e3 / started.elapsed().as_secs_f64()
    };
    let ((), flushed, processor) = tokio::join!(recording, flushing, watching);
    flushed?;
    flush(&mut site).await?;
    let hits = site.stats().ledger().hits;
    assert_eq!(hits.applied, hits.recorded, "all hits are applied");
    println!("{} {processor:.3}{waits}", hits.recorded);
    Ok(())
}

/// Flushes, retrying if a call times out after five seconds because the server is overloaded.
pub(crate) async fn flush(site: &mut Counters) -> Result<(), counter_core::Error> {
    for _ in 1..MAX_ATTEMPTS {
        if site.flush().await.is_ok() {
            return Ok(());
        }
        sleep(HIT_INTERVAL).await;
    }
    site.flush().await
}
