//! What watching costs: 2,000 rules about what is expected of as many counters, in every minute, over Redis.

use std::error::Error;
use std::time::Instant;

use bench::server::Figures;
use bench::{past, processor, table};
use counter_core::alert::{AlertRule, Watch};
use counter_core::{Counters, Precision, RedisStore, Timestamp};
use tests::RedisServer;

const COUNTERS: usize = 2000;
/// The minutes that are watched one after the other, of the two hours that there are.
const MINUTES: u64 = 50;

fn main() -> Result<(), Box<dyn Error>> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(watch())
}

async fn watch() -> Result<(), Box<dyn Error>> {
    let server = RedisServer::start();
    let (now, names) = (Timestamp::now(), past::names(COUNTERS));
    past::write(&server, "access:", &names, &past::every_precision(), 120, now);
    let store = RedisStore::connect(&server.url()).await?;
    let counters = Counters::builder(store.clone()).build()?;
    let minute = Precision::try_from(60)?;
    let rule =
        |name: &String| Ok::<_, Box<dyn Error>>(AlertRule::unusual(name.as_str(), name.parse()?, minute));
    let rules: Vec<_> = names.iter().map(rule).collect::<Result<_, _>>()?;
    let mut watch = Watch::builder(counters.stats(), store).rules(rules).build()?;
    let begin = minute.bucket(now).start.minus(60 * (MINUTES + 1)).plus(Watch::LATENESS.as_secs());

    let (mut rows, mut judged) = (Vec::new(), 0);
    let (mut times, time, before) = (Vec::new(), processor::time(), Figures::of(&server));
    while judged < COUNTERS as u64 {
        let began = Instant::now();
        judged += watch.check_once(begin).await?.judged;
        times.push(began.elapsed().as_secs_f64() * 1e3);
    }
    rows.push(row(
        "a pass that begins, of 250 counters",
        times,
        processor::time() - time,
        Figures::of(&server).since(&before),
    ));
    let (mut times, time, before) = (Vec::new(), processor::time(), Figures::of(&server));
    for minutes in 1..=MINUTES {
        let began = Instant::now();
        let checked = watch.check_once(begin.plus(60 * minutes)).await?;
        times.push(began.elapsed().as_secs_f64() * 1e3);
        assert_eq!(checked.judged, COUNTERS as u64);
    }
    rows.push(row(
        "a minute of all counters",
        times,
        processor::time() - time,
        Figures::of(&server).since(&before),
    ));
    let head = ["pass", "ms", "ms at most", "ms of processor", "ms of processor of Redis"];
    table::print(&head, &rows);
    Ok(())
}

fn row(name: &str, mut times: Vec<f64>, processor: std::time::Duration, figures: Figures) -> Vec<String> {
    let passes = times.len() as f64;
    let each = |time: std::time::Duration| format!("{:.1}", time.as_secs_f64() * 1e3 / passes);
    let most = table::quantile(&mut times, 1.0);
    let median = table::quantile(&mut times, 0.5);
    vec![
        name.to_owned(),
        format!("{median:.1}"),
        format!("{most:.1}"),
        each(processor),
        each(figures.processor),
    ]
}
