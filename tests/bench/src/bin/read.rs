//! Read benchmark: a single series, 1,000 series, and the overview page of the dashboard.

use std::error::Error;
use std::time::{Duration, Instant};

use bench::overview::{self, Overview};
use bench::server::Figures;
use bench::{past, processor, table};
use counter_core::unstable::OwnClient;
use counter_core::unstable::fred::clients::Client;
use counter_core::unstable::fred::interfaces::ClientLike;
use counter_core::unstable::fred::types::config::Config;
use counter_core::unstable::fred::types::{ClusterHash, CustomCommand, Value};
use counter_core::{CounterName, Counters, Precision, RedisStore, Timestamp};
use tests::RedisServer;

const COUNTERS: usize = 2000;
const SERIES: usize = 1000;
const ROUNDS: usize = 21;

fn main() -> Result<(), Box<dyn Error>> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(read())
}

async fn read() -> Result<(), Box<dyn Error>> {
    let server = RedisServer::start();
    let (now, names) = (Timestamp::now(), past::names(COUNTERS));
    past::write(&server, "access:", &names, &past::default_precisions(), 120, now);
    past::write(&server, "access:", &names, "86400", overview::DAYS.into(), now);
    let names: Vec<CounterName> = names.iter().map(|name| name.parse()).collect::<Result<_, _>>()?;
    let client = Client::new(Config::from_url(&server.url())?, None, None, None);
    client.init().await?;
    let store = RedisStore::builder().client(client.clone());
    let stats = Counters::builder(store).precisions(overview::precisions()).build()?.stats();

    let minute = Precision::try_from(60)?;
    let end = minute.bucket(now).end();
    let mut rows = Vec::new();
    for buckets in [10, 120] {
        let range = end.minus(60 * buckets)..end;
        let (mut times, before) = (Vec::new(), Figures::of(&server));
        for _ in 0..100 {
            let started = Instant::now();
            let series = stats.series(&names[0], minute, range.clone()).await?;
            times.push(started.elapsed().as_secs_f64() * 1e3);
            assert_eq!(series.samples.len() as u64, buckets);
        }
        let commands = Figures::of(&server).since(&before).operations() / 100;
        rows.push(row(
            &format!("a series of {buckets} buckets"),
            table::quantile(&mut times, 0.5),
            commands,
            "",
        ));
    }

    let (mut ours, mut bare, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    let (mut our_time, mut bare_time) = (Duration::ZERO, Duration::ZERO);
    let before = Figures::of(&server);
    for _ in 0..ROUNDS {
        let (started, time) = (Instant::now(), processor::time());
        let series = stats.series_many(&names[..SERIES], minute, end.minus(7200)..end).await?;
        let here = started.elapsed().as_secs_f64() * 1e3;
        our_time += processor::time() - time;
        assert_eq!(series.iter().flatten().map(|series| series.samples.len()).sum::<usize>(), 120 * SERIES);
        let (started, time) = (Instant::now(), processor::time());
        hashes(&client, &names[..SERIES]).await?;
        let there = started.elapsed().as_secs_f64() * 1e3;
        bare_time += processor::time() - time;
        ours.push(here);
        bare.push(there);
        ratios.push(here / there);
    }
    let commands = Figures::of(&server).since(&before).operations() / (2 * ROUNDS as u64);
    let client =
        |time: Duration| format!("{:.1} ms client CPU time", time.as_secs_f64() * 1e3 / ROUNDS as f64);
    let ratio = format!("{:.2} × the bare pipeline; {}", table::quantile(&mut ratios, 0.5), client(our_time));
    rows.push(row("1,000 series of 120 buckets", table::quantile(&mut ours, 0.5), commands, &ratio));
    let hgetall = "a bare pipeline of 1,000 HGETALL";
    rows.push(row(hgetall, table::quantile(&mut bare, 0.5), commands, &client(bare_time)));

    let overview = Overview::new(stats)?;
    for period in overview::PERIODS {
        let (mut times, before, time) = (Vec::new(), Figures::of(&server), processor::time());
        for _ in 0..ROUNDS {
            times.push(overview.render(period).await?.as_secs_f64() * 1e3);
        }
        let (figures, page) = (Figures::of(&server).since(&before), client(processor::time() - time));
        let page = format!("{page}, {:.1} ms server", figures.processor.as_secs_f64() * 1e3 / ROUNDS as f64);
        let label = format!("the overview of 2,000 counters for {period}");
        let commands = figures.operations() / ROUNDS as u64;
        rows.push(row(&label, table::quantile(&mut times, 0.5), commands, &page));
    }
    println!("Reading from one server, medians:\n");
    table::print(&["query", "ms", "commands", ""], &rows);
    Ok(())
}

fn row(label: &str, milliseconds: f64, commands: u64, note: &str) -> Vec<String> {
    vec![label.to_owned(), format!("{milliseconds:.2}"), commands.to_string(), note.to_owned()]
}

/// The minimum that a client needs to do. The replies are not parsed.
async fn hashes(client: &Client, names: &[CounterName]) -> Result<Vec<Value>, Box<dyn Error>> {
    let pipeline = client.pipeline();
    for name in names {
        let command = CustomCommand::new_static("HGETALL", ClusterHash::FirstKey, false);
        let () = pipeline.custom(command, vec![format!("access:count:60:{name}")]).await?;
    }
    Ok(pipeline.all().await?)
}
