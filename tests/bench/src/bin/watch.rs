//! Alerts: what a pass of a watch over two thousand counters takes, every minute.
//!
//! An hour of minutes of 2,000 counters is in a Redis, and a watch judges it minute by minute, with a rule for each counter.

use std::error::Error;
use std::num::NonZeroU32;

use bench::server::Figures;
use bench::{processor, table};
use counter_core::alert::{AlertRule, Watch};
use counter_core::stores::Namespace;
use counter_core::{CounterName, Counters, Precision, RedisStore, Timestamp};
use tests::{FaultProxy, RedisServer};

const COUNTERS: u64 = 2000;
const MINUTES: u64 = 60;
const THROUGH_PROXY: u64 = 10;

type Rule = (&'static str, fn(String, CounterName, Precision) -> AlertRule);

const RULES: [Rule; 2] = [
    ("above a number", |name, counter, minute| AlertRule::above(name, counter, minute, 1000)),
    ("unusual", |name, counter, minute| AlertRule::unusual(name, counter, minute)),
];

fn main() -> Result<(), Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let mut rows = Vec::new();
    for rule in RULES {
        rows.push(runtime.block_on(passes(rule))?);
    }
    println!("A pass over {COUNTERS} counters, every minute (medians of {}):\n", MINUTES - THROUGH_PROXY);
    table::print(
        &["rule of each", "client, ms of processor", "worst", "exchanges", "server, ms", "document, KB"],
        &rows,
    );
    Ok(())
}

async fn passes((name, rule): Rule) -> Result<Vec<String>, Box<dyn Error>> {
    let server = RedisServer::start();
    let proxy = FaultProxy::start(server.address()).await;
    let (minute, hour) = (Precision::try_from(60)?, 60 * MINUTES);
    let end = minute.bucket(Timestamp::now()).start;
    let mut counters =
        Counters::builder(RedisStore::connect(&server.url(), Namespace::default()).await?).build()?;
    let recorder = counters.recorder();
    for n in 0..COUNTERS {
        let counter = recorder.counter(&format!("/pages/{n}"));
        for ago in 0..=MINUTES {
            let hits = 1 + (n * 7 + ago * 13) % 40;
            recorder.record_at(
                counter,
                None,
                end.minus(60 * (ago + 1)),
                NonZeroU32::new(hits as u32).ok_or("not 0")?,
            );
        }
    }
    while counters.flush().await.is_err() || counters.stats().health().pending > 0 {}

    // The proxy takes processor time of this process, so only exchanges are counted through it.
    let mut counted = watch(&proxy.url(), rule, minute).await?;
    let mut direct = watch(&server.url(), rule, minute).await?;
    let first = end.minus(hour).plus(Watch::LATENESS.as_secs());
    let (mut client, mut exchanges, mut of_server) = (Vec::new(), Vec::new(), Vec::new());
    for minutes in 0..MINUTES {
        let now = first.plus(60 * minutes);
        let watch = if minutes < THROUGH_PROXY { &mut counted } else { &mut direct };
        if minutes == 0 || minutes == THROUGH_PROXY {
            begin(watch, now).await?;
            continue;
        }
        let checked = if minutes < THROUGH_PROXY {
            let trips = proxy.round_trips();
            let checked = counted.check_once(now).await?;
            exchanges.push((proxy.round_trips() - trips) as f64);
            checked
        } else {
            let (before, figures) = (processor::time(), Figures::of(&server));
            let checked = direct.check_once(now).await?;
            client.push((processor::time() - before).as_secs_f64() * 1e3);
            of_server.push(Figures::of(&server).since(&figures).processor.as_secs_f64() * 1e3);
            checked
        };
        assert_eq!(checked.judged, COUNTERS, "a bucket of each");
    }
    let document = server.int(&["HSTRLEN", "access:document:alerts", "content"]);
    Ok(vec![
        name.to_owned(),
        format!("{:.1}", table::quantile(&mut client, 0.5)),
        format!("{:.1}", table::quantile(&mut client, 1.0)),
        format!("{:.0}", table::quantile(&mut exchanges, 0.5)),
        format!("{:.2}", table::quantile(&mut of_server, 0.5)),
        format!("{:.0}", document as f64 / 1e3),
    ])
}

/// Makes passes until all rules have been judged: what is expected begins with a part of the counters in each.
async fn begin(watch: &mut Watch, now: Timestamp) -> Result<(), Box<dyn Error>> {
    let mut judged = 0;
    while judged < COUNTERS {
        judged += watch.check_once(now).await?.judged;
    }
    Ok(())
}

/// A watch with a rule for each counter.
async fn watch(
    url: &str,
    rule: fn(String, CounterName, Precision) -> AlertRule,
    minute: Precision,
) -> Result<Watch, Box<dyn Error>> {
    let store = RedisStore::connect(url, Namespace::default()).await?;
    let counters = Counters::builder(store.clone()).build()?;
    let mut builder = Watch::builder(counters.stats(), store).deliver(|_| std::future::ready(Ok(())));
    for n in 0..COUNTERS {
        builder = builder.rule(rule(format!("page {n}"), format!("/pages/{n}").parse()?, minute));
    }
    Ok(builder.build()?)
}
