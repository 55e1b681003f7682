//! Alert benchmark: a rule for each of 2,000 counters, evaluated every minute over Redis.

use std::error::Error;
use std::time::{Duration, Instant};

use bench::server::Figures;
use bench::{past, processor, table};
use counter_alert::{AlertRule, Watch};
use counter_core::stores::Namespace;
use counter_core::{CounterName, Counters, Precision, RedisStore, Timestamp};
use tests::{FaultProxy, RedisServer};

const COUNTERS: usize = 2000;

/// Minutes to evaluate, within the two hours of data.
const MINUTES: u64 = 50;

/// Minutes to evaluate through a proxy, in order to count round trips. The proxy also uses CPU time in this
/// process, so we don't measure time here.
const PROXIED_MINUTES: u64 = 10;

/// Idle time after which a round trip is considered complete.
const IDLE_TIME: Duration = Duration::from_millis(100);

type Rule = fn(String, CounterName, Precision) -> AlertRule;

fn main() -> Result<(), Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut rows = Vec::new();
    for (name, rule) in [
        (
            "above a number",
            (|name, counter, minute| AlertRule::above(name, counter, minute, 1_000_000)) as Rule,
        ),
        ("unusual", |name, counter, minute| AlertRule::unusual(name, counter, minute)),
    ] {
        rows.push(runtime.block_on(passes(name, rule))?);
    }
    println!(
        "Evaluating a rule for each of {COUNTERS} counters (medians of {}):\n",
        MINUTES - PROXIED_MINUTES
    );
    let head =
        ["rule", "warm-up, ms", "ms", "maximum, ms", "CPU ms", "round trips", "Redis CPU ms", "document, KB"];
    table::print(&head, &rows);
    Ok(())
}

async fn passes(name: &str, rule: Rule) -> Result<Vec<String>, Box<dyn Error>> {
    let (server, now, names) = (RedisServer::start(), Timestamp::now(), past::names(COUNTERS));
    past::write(&server, "access:", &names, &past::default_precisions(), 120, now);
    let proxy = FaultProxy::start(server.address()).await;
    proxy.reply_when_idle(IDLE_TIME);
    let mut counted = watch(&proxy.url(), &names, rule).await?;
    let mut direct = watch(&server.url(), &names, rule).await?;
    let start =
        Precision::try_from(60)?.bucket(now).start.minus(60 * (MINUTES + 1)).plus(Watch::LATENESS.as_secs());

    let mut exchanges = Vec::new();
    warm_up(&mut counted, start).await?;
    for minutes in 1..=PROXIED_MINUTES {
        let before = proxy.round_trips();
        assert_eq!(counted.check_once(start.plus(60 * minutes)).await?.judged, COUNTERS as u64);
        exchanges.push((proxy.round_trips() - before) as f64);
    }
    let before = processor::time();
    warm_up(&mut direct, start.plus(60 * (PROXIED_MINUTES + 1))).await?;
    let warm_up_time = (processor::time() - before).as_secs_f64() * 1e3;
    let (mut times, mut processors, mut of_server) = (Vec::new(), Vec::new(), Vec::new());
    for minutes in PROXIED_MINUTES + 2..=MINUTES {
        let (started, before, figures) = (Instant::now(), processor::time(), Figures::of(&server));
        assert_eq!(direct.check_once(start.plus(60 * minutes)).await?.judged, COUNTERS as u64);
        times.push(started.elapsed().as_secs_f64() * 1e3);
        processors.push((processor::time() - before).as_secs_f64() * 1e3);
        of_server.push(Figures::of(&server).since(&figures).processor.as_secs_f64() * 1e3);
    }
    let document = server.int(&["HSTRLEN", "access:document:alerts", "content"]);
    let median = |values: &mut [f64]| format!("{:.1}", table::quantile(values, 0.5));
    Ok(vec![
        name.to_owned(),
        format!("{warm_up_time:.0}"),
        median(&mut times),
        format!("{:.1}", table::quantile(&mut times, 1.0)),
        median(&mut processors),
        format!("{:.0}", table::quantile(&mut exchanges, 1.0)),
        median(&mut of_server),
        format!("{:.0}", document as f64 / 1e3),
    ])
}

/// Runs passes until all counters have been evaluated, because the first passes only start with some of the
/// counters.
async fn warm_up(watch: &mut Watch, at: Timestamp) -> Result<(), Box<dyn Error>> {
    let mut judged = 0;
    while judged < COUNTERS as u64 {
        judged += watch.check_once(at).await?.judged;
    }
    Ok(())
}

async fn watch(url: &str, names: &[String], rule: Rule) -> Result<Watch, Box<dyn Error>> {
    let store = RedisStore::connect(url, Namespace::default()).await?;
    let counters = Counters::builder(store.clone()).build()?;
    let minute = Precision::try_from(60)?;
    let rule = |name: &String| Ok::<_, Box<dyn Error>>(rule(name.clone(), name.parse()?, minute));
    let rules: Vec<_> = names.iter().map(rule).collect::<Result<_, _>>()?;
    let builder = Watch::builder(counters.stats(), store).rules(rules);
    Ok(builder.deliver(|_| std::future::ready(Ok(()))).build()?)
}
