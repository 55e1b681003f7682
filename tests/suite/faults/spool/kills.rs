//! Kills processes repeatedly and compares the counts from outside.
//!
//! Set `COUNTER_STORM_KILLS` to change the number of kills (12 by default), and `COUNTER_STORM_SEED` to
//! repeat the random decisions.

use std::path::Path;
use std::process::Command;

use counter_core::{Counters, RedisStore};
use tests::sentinel::RedisSentinel;
use tests::{Process, RedisServer, process, until};
use tokio::time::sleep;

use super::{LIMIT, files, folder};
use crate::random::Random;
use crate::support::store;

const COUNTERS: [&str; 3] = ["a", "b", "c"];
const PAIRS: [&str; 3] =
    ["label:site@:a = a.example", "label:site@:b = a.example", "label:site@:c = a.example"];
const PRECISIONS: [u32; 7] = [1, 5, 60, 300, 3600, 18_000, 86_400];

fn kills() -> u64 {
    let output = std::env::var("COUNTER_STORM_KILLS").ok();
    output.map_or(12, |kills| kills.parse().expect("COUNTER_STORM_KILLS is a whole number"))
}

/// Output of the processes: the minimum and maximum number of hits to be counted.
#[derive(Clone, Copy, Debug, Default)]
struct Output {
    durable: u64,
    requested: u64,
    /// True if writing to a file has failed at some point.
    failing: bool,
}

/// A recording process.
struct Recording(Process);

impl Recording {
    async fn start(url: &str, folder: &Path, random: &mut Random) -> Self {
        Self::start_as(Command::new(env!("CARGO_BIN_EXE_recorder")), url, folder, random).await
    }

    /// Starts a process with this file size limit in KiB: writes past the limit fail, like on a full disk.
    async fn start_within(kib: u64, url: &str, folder: &Path, random: &mut Random) -> Self {
        let mut program = Command::new("bash");
        // The signal would end the process. It is ignored, and the process inherits this.
        program.args(["-c", r#"trap '' XFSZ; ulimit -f "$1"; shift; exec "$@""#, "bash", &kib.to_string()]);
        program.arg(env!("CARGO_BIN_EXE_recorder"));
        Self::start_as(program, url, folder, random).await
    }

    async fn start_as(mut program: Command, url: &str, folder: &Path, random: &mut Random) -> Self {
        program.arg(url).arg(folder).arg(random.next().to_string());
        program.arg(random.one_of(&["20", "150", "1000"]));
        let process = Process::start(&mut program);
        process.wait_line(|line| line.strip_prefix("announced ").map(drop), LIMIT).await;
        Self(process)
    }

    fn output(&self) -> Output {
        let (mut output, lines) = (Output::default(), self.0.lines());
        assert!(lines.len() < process::MAX_LINES, "the latest output is missing");
        for line in lines {
            let number = |prefix| line.strip_prefix(prefix).map(|number| number.parse().expect("a number"));
            output.durable = number("durable ").unwrap_or(output.durable).max(output.durable);
            output.requested = number("announced ").unwrap_or(output.requested);
            output.failing |= line == "failing";
        }
        output
    }

    /// Kills the process and adds the output.
    async fn kill(mut self, all: &mut Output) {
        self.0.kill();
        until("all is read", LIMIT, async || self.0.output_is_closed()).await;
        let output = self.output();
        assert!(output.durable <= output.requested, "{output:?}");
        (all.durable, all.requested) = (all.durable + output.durable, all.requested + output.requested);
        all.failing |= output.failing;
    }
}

/// Sends everything that is left, and returns the number of recovered hits.
async fn drain(store: RedisStore, folder: &Path) -> u64 {
    let mut counters = Counters::builder(store).spool(folder).build().expect("the folder is writable");
    let stats = counters.stats();
    until("all is recovered", LIMIT, async || {
        counters.flush().await.is_ok() && stats.health().spool.is_some_and(|spool| spool.leftovers == 0)
    })
    .await;
    counters.run(async {}).await.expect("nothing is left");
    assert!(files(folder).is_empty(), "{:?}", files(folder));
    let hits = stats.ledger().hits;
    assert!(hits.balance() && hits.pending == 0 && hits.recovered == hits.recorded, "{hits:?}");
    assert_eq!((hits.dropped.total(), hits.expired, hits.lost_by_server), (0, 0, 0), "{hits:?}");
    hits.recovered
}

/// Returns the hits on the server.
fn counted(server: &RedisServer) -> u64 {
    counted_of(server, &COUNTERS) + counted_of(server, &PAIRS)
}

/// Returns the hits of these counters, which must be equal in every precision.
fn counted_of(server: &RedisServer, counters: &[&str]) -> u64 {
    let sum = |precision: &u32| {
        let of = |counter: &&str| {
            let counts = server.strings(&["HVALS", &format!("access:count:{precision}:{counter}")]);
            counts.iter().map(|count| count.parse::<u64>().expect("an integer")).sum::<u64>()
        };
        counters.iter().map(of).sum::<u64>()
    };
    let sums: Vec<_> = PRECISIONS.iter().map(sum).collect();
    assert!(sums.iter().all(|sum| *sum == sums[0]), "{sums:?}");
    sums[0]
}

/// Returns the number of visitors on the server; each hit of a counter is from a different visitor.
fn visitors(server: &RedisServer) -> u64 {
    let keys = COUNTERS.map(|counter| server.strings(&["KEYS", &format!("access:unique:86400:{counter}:*")]));
    let keys = keys.concat();
    let words: Vec<_> = ["PFCOUNT".to_owned()].into_iter().chain(keys).collect();
    server.int(&words).cast_unsigned()
}

#[track_caller]
fn assert_counted(server: &RedisServer, output: Output, what: &str) {
    let counted = counted(server);
    assert!((output.durable..=output.requested).contains(&counted), "{what}: {counted} counted, {output:?}");
    let (hits, pairs) = (counted_of(server, &COUNTERS), counted_of(server, &PAIRS));
    assert!(pairs.abs_diff(counted / 4) <= counted / 20 + 20, "{what}: {pairs} hits of pairs of {counted}");
    let (visitors, few) = (visitors(server), hits / 20 + 20);
    assert!(visitors.abs_diff(hits) <= few, "{what}: {visitors} visitors of {hits} hits");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_killed_at_any_time_neither_loses_nor_doubles_written_hits() {
    let mut random = Random::storm("of kills over a spool");
    let (folder, mut output) = (folder(), Output::default());
    let mut redis = RedisServer::start_with(&["--appendonly", "yes", "--appendfsync", "always"]);
    let (mut away, mut concurrent) = (0, Vec::new());
    for kill in 0..kills() {
        match random.among(0..8) {
            // The server is unavailable for up to three lives, so some processes start and end without it.
            0 | 1 if away == 0 => {
                redis.kill();
                away = 1 + random.among(0..3);
            }
            2 if away == 0 => {
                redis.kill();
                redis.restart();
            }
            _ => {}
        }
        let recording = Recording::start(&redis.url(), folder.path(), &mut random).await;
        sleep(random.millis(0..400)).await;
        // Sometimes other processes run at the same time.
        if random.among(0..4) == 0 {
            concurrent.push(recording);
        } else {
            recording.kill(&mut output).await;
        }
        if concurrent.len() > 2 {
            concurrent.remove(0).kill(&mut output).await;
        }
        if away > 0 {
            away -= 1;
            if away == 0 {
                redis.restart();
            }
        }
        if kill % 20 == 19 && away == 0 && concurrent.is_empty() {
            drain(store(&redis.url()).await, folder.path()).await;
            assert_counted(&redis, output, "in between");
        }
    }
    for recording in concurrent {
        recording.kill(&mut output).await;
    }
    if away > 0 {
        redis.restart();
    }
    drain(store(&redis.url()).await, folder.path()).await;
    assert_counted(&redis, output, "at the end");
    eprintln!("{} counted of {output:?}", counted(&redis));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_killed_on_a_full_disk_loses_no_written_hits() {
    let mut random = Random::storm("of kills on full disks");
    let (folder, mut output) = (folder(), Output::default());
    let mut redis = RedisServer::start_with(&["--appendonly", "yes", "--appendfsync", "always"]);
    let mut is_unavailable = false;
    let mut lives = 0;
    // The longest lives are certain to fail because every write adds to the WAL.
    while lives < kills() || !output.failing {
        lives += 1;
        if random.among(0..3) == 0 {
            if is_unavailable {
                redis.restart();
            } else {
                redis.kill();
            }
            is_unavailable = !is_unavailable;
        }
        let kib = 20 + random.among(0..150);
        let recording = Recording::start_within(kib, &redis.url(), folder.path(), &mut random).await;
        sleep(random.millis(100..700)).await;
        recording.kill(&mut output).await;
    }
    if is_unavailable {
        redis.restart();
    }
    drain(store(&redis.url()).await, folder.path()).await;
    assert_counted(&redis, output, "at the end");
    eprintln!("{} counted of {output:?}", counted(&redis));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_killed_around_a_failover_loses_no_written_hits() {
    let mut random = Random::storm("of kills and failovers");
    let (folder, mut output) = (folder(), Output::default());
    let mut servers = RedisSentinel::start();
    for _ in 0..kills().div_ceil(4).min(50) {
        let recording = Recording::start(&servers.url(), folder.path(), &mut random).await;
        sleep(random.millis(0..400)).await;
        match random.among(0..3) {
            0 => {
                servers.kill_master();
                servers.restart_old();
                recording.kill(&mut output).await;
            }
            1 => {
                recording.kill(&mut output).await;
                servers.failover();
            }
            _ => {
                servers.failover();
                recording.kill(&mut output).await;
            }
        }
        servers.until_replicated();
    }
    drain(store(&servers.url()).await, folder.path()).await;
    let counted = counted(servers.master_server());
    assert!((output.durable..=output.requested).contains(&counted), "{counted} counted, {output:?}");
}
