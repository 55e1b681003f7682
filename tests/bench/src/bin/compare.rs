//! Throughput of the same site with different middlewares, in the same process and in turns.
//!
//! A thread serves while another thread sends requests over 64 keep-alive connections to each site. Turns are
//! short and in alternating order, so that other load on the machine affects the sites equally. Sites are
//! compared with the bare router in the same round.

use std::error::Error;
use std::net::SocketAddr;
use std::sync::mpsc;
use std::time::Duration;
use std::{fs, io, thread};

use bench::load::Load;
use bench::site::{self, KINDS};
use bench::table;
use tests::RedisServer;
use tokio::net::TcpListener;
use tokio::runtime::{self, Runtime};

const CONNECTIONS: usize = 64;
const TURN_TIME: Duration = Duration::from_millis(250);

/// About three and a half minutes.
const ROUNDS: usize = 70;

struct Turn {
    /// Responses in a second, as measured by the client.
    throughput: f64,
    /// CPU time of the serving thread for a response, in microseconds.
    work: f64,
    /// 99th percentile of the latency in microseconds.
    slowest: f64,
}

fn main() -> Result<(), Box<dyn Error>> {
    let rounds = std::env::args().nth(1).map_or(Ok(ROUNDS), |rounds| rounds.parse())?;
    let redis = RedisServer::start();
    let (sender, receiver) = mpsc::channel();
    let url = redis.url();
    thread::spawn(move || serve(&url, &sender));
    let serving = receiver.recv()?;
    let mut servers: Vec<SocketAddr> = Vec::new();
    for _ in KINDS {
        servers.push(receiver.recv()?.parse()?);
    }

    let mut turns: Vec<Vec<Turn>> = KINDS.iter().map(|_| Vec::new()).collect();
    runtime()?.block_on(async {
        let mut loads = Vec::new();
        for server in servers {
            loads.push(Load::open(server, CONNECTIONS).await?);
        }
        for round in 0..=rounds {
            for turn in 0..KINDS.len() {
                // Reverse the order in odd rounds, so that a site isn't always preceded by the same site.
                let kind = if round % 2 == 0 { turn } else { KINDS.len() - 1 - turn };
                let before = cpu_nanos(&serving)?;
                let latencies = loads[kind].run(TURN_TIME).await?;
                let cpu_nanos = cpu_nanos(&serving)? - before;
                // The first round is for warming up.
                if round > 0 {
                    turns[kind].push(Turn::of(&latencies, cpu_nanos));
                }
            }
        }
        io::Result::Ok(())
    })?;
    print(&turns);
    Ok(())
}

/// Serves all sites. Sends the path of this thread's CPU statistics, followed by the addresses.
fn serve(redis: &str, sender: &mpsc::Sender<String>) {
    let send_line = |word: String| sender.send(word).expect("the receiver exists");
    let thread = fs::read_link("/proc/thread-self").expect("Linux");
    send_line(format!("/proc/{}/schedstat", thread.display()));
    runtime().expect("a runtime").block_on(async {
        for kind in KINDS {
            let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
            send_line(listener.local_addr().expect("it is bound").to_string());
            let redis = redis.to_owned();
            tokio::spawn(async move {
                let served = site::serve(kind, listener, &redis).await;
                served.unwrap_or_else(|error| panic!("{kind}: {error}"));
            });
        }
        std::future::pending::<()>().await;
    });
}

fn runtime() -> io::Result<Runtime> {
    runtime::Builder::new_current_thread().enable_all().build()
}

/// Returns the CPU time of a thread in nanoseconds.
fn cpu_nanos(thread: &str) -> io::Result<f64> {
    let text = fs::read_to_string(thread)?;
    let first = text.split(' ').next().and_then(|first| first.parse().ok());
    first.ok_or_else(|| io::Error::other("no CPU time for the thread"))
}

impl Turn {
    fn of(latencies: &[Duration], cpu_nanos: f64) -> Self {
        let mut took: Vec<f64> = latencies.iter().map(|took| took.as_secs_f64() * 1e6).collect();
        let count = latencies.len() as f64;
        let slowest = table::quantile(&mut took, 0.99);
        Self { throughput: count / TURN_TIME.as_secs_f64(), work: cpu_nanos / 1e3 / count, slowest }
    }
}

fn print(turns: &[Vec<Turn>]) {
    let median = |values: Vec<f64>| table::quantile(&mut { values }, 0.5);
    let rows: Vec<_> = KINDS
        .iter()
        .zip(turns)
        .map(|(kind, measured)| {
            let of = |figure: fn(&Turn) -> f64| median(measured.iter().map(figure).collect());
            let mut ratios: Vec<f64> = measured
                .iter()
                .zip(&turns[0])
                .map(|(measured, bare)| measured.throughput / bare.throughput)
                .collect();
            let mut work: Vec<f64> =
                measured.iter().zip(&turns[0]).map(|(measured, bare)| bare.work / measured.work).collect();
            let [low, middle, high] = [0.25, 0.5, 0.75].map(|at| table::quantile(&mut ratios, at));
            vec![
                (*kind).to_owned(),
                format!("{:.0}", of(|turn| turn.throughput)),
                format!("{middle:.3} ({low:.3}–{high:.3})"),
                format!("{:.2}", of(|turn| turn.work)),
                format!("{:.3}", table::quantile(&mut work, 0.5)),
                format!("{:.0}", of(|turn| turn.slowest)),
            ]
        })
        .collect();
    let head = [
        "middleware",
        "responses per second",
        "× bare, median (quartiles)",
        "CPU time, µs per response",
        "bare ÷ CPU time",
        "p99, µs",
    ];
    table::print(&head, &rows);
}
