//! Measures how many window increments are possible in a second, either waiting for a script call, or folded.
//!
//! `cargo run --release -p tests --example window` starts a Redis server and lets 256 tasks increment 100
//! counters. Both strategies run in turns of a second. Prints the medians and the ratio.

use std::error::Error;
use std::num::NonZeroU32;
use std::time::{Duration, Instant};

use counter_core::RedisStore;
use counter_core::window::{Dimensions, FoldingFront, Window, WindowCounters};
use tests::RedisServer;
use tokio::task::JoinSet;

const TASKS: usize = 256;
const COUNTERS: usize = 100;
const TURNS: usize = 9;
const TURN_TIME: Duration = Duration::from_secs(1);

/// How to count.
#[derive(Clone)]
enum Strategy {
    Awaited(WindowCounters),
    Folded(FoldingFront),
}

#[tokio::main]
#[expect(clippy::print_stdout, reason = "the program prints its results")]
async fn main() -> Result<(), Box<dyn Error>> {
    let server = RedisServer::start();
    let store = RedisStore::connect(&server.url(), "bench:".parse()?).await?;
    let counters = WindowCounters::new(store, Window::DAY);
    let (front, worker) = counters.folding();
    tokio::spawn(worker.run());
    let (awaited, folded) = (Strategy::Awaited(counters.clone()), Strategy::Folded(front));
    let mut counted = turn(&awaited).await + turn(&folded).await;
    let mut rates: [Vec<f64>; 2] = Default::default();
    for _ in 0..TURNS {
        for (rates, strategy) in rates.iter_mut().zip([&awaited, &folded]) {
            let started = Instant::now();
            let increments = turn(strategy).await;
            rates.push(increments as f64 / started.elapsed().as_secs_f64());
            counted += increments;
        }
    }
    let mut stored = 0;
    for dimensions in all() {
        stored += counters.current(&dimensions).await?;
    }
    let [awaited, folded] = rates.map(median);
    println!("awaited: {awaited:.0} increments per second (median of {TURNS} turns)");
    println!("folded:  {folded:.0}");
    println!("folded / awaited: {:.1}", folded / awaited);
    println!("stored {stored} of {counted} acknowledged");
    Ok(())
}

/// Counts for a turn, and returns the number of increments.
async fn turn(strategy: &Strategy) -> u64 {
    let end = Instant::now() + TURN_TIME;
    let mut tasks = JoinSet::new();
    for task in 0..TASKS {
        let strategy = strategy.clone();
        tasks.spawn(async move {
            let mut increments = 0;
            for dimensions in all().iter().cycle().skip(task) {
                if Instant::now() >= end {
                    break;
                }
                let result = match &strategy {
                    Strategy::Awaited(counters) => counters.increment(dimensions, NonZeroU32::MIN).await,
                    Strategy::Folded(front) => front.increment(dimensions, NonZeroU32::MIN).await,
                };
                increments += u64::from(result.is_ok());
            }
            increments
        });
    }
    tasks.join_all().await.into_iter().sum()
}

fn all() -> Vec<Dimensions> {
    let application = |number: usize| Dimensions::new().text("app", &number.to_string());
    (0..COUNTERS).map(application).collect()
}

fn median(mut rates: Vec<f64>) -> f64 {
    rates.sort_unstable_by(f64::total_cmp);
    rates[rates.len() / 2]
}
