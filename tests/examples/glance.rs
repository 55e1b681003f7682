//! Measures the response time of the dashboard for `tests/tools/glance`: with 2,000 counters in memory, in
//! Redis, and in a SQLite file with ten years of days. Does not include a network.

use std::error::Error;
use std::num::NonZeroU32;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use counter_admin::Access;
use counter_core::stores::Namespace;
use counter_core::time::Retention;
use counter_core::visitor::VisitorKey;
use counter_core::visits::store::{KnownQuery, Read};
use counter_core::{Counters, MemoryStore, Precision, Precisions, RedisStore, SqlStore, Store, Timestamp};
use http::Request;
use http_body_util::BodyExt;
use tests::{RedisServer, until};
use tower::ServiceExt;

const PAGES: [(&str, &str); 4] = [
    ("first page", "/"),
    ("by visitors", "/?sort=people"),
    ("with forecast", "/?period=24h&forecast=1"),
    ("what moves", "/parts"),
];

const YEAR_PAGES: [(&str, &str); 8] = [
    ("first page", "/"),
    ("what moves", "/parts"),
    ("a year", "/?period=365d"),
    ("what moves", "/parts?period=365d"),
    ("and visitors", "/?period=365d&show=people"),
    (
        "six counters",
        "/?period=365d&counter=hits&counter=/page/1&counter=/page/2&counter=/page/3&counter=/page/4&counter=/page/5",
    ),
    ("two years", "/?period=750d"),
    ("12 months", "/?period=12mo"),
];

/// Number of days in total, and with visitors.
const DAYS: u32 = 3660;
const DAYS_WITH_VISITORS: u64 = 730;

/// How often to request a page. The first request is only for warming up.
const REQUESTS_PER_PAGE: usize = 21;

/// Timeout for connecting to Redis.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    measure("memory", MemoryStore::new()).await?;
    let redis = RedisServer::start();
    let store = RedisStore::connect(&redis.url(), Namespace::default()).await?;
    let hour = Precision::try_from(3600)?;
    let first = KnownQuery { precisions: &[hour], from: "", limit: 1, since: Timestamp::MIN };
    until("Redis is connected", CONNECT_TIMEOUT, async || store.known(first).await.is_ok()).await;
    measure("Redis", store).await?;
    measure_years().await
}

async fn measure(name: &str, store: impl Store + Clone) -> Result<(), Box<dyn Error>> {
    let mut counters = Counters::builder(store).build()?;
    visit(&counters);
    counters.flush().await?;
    time(name, &counter_admin::router(counters.stats(), Access::open()), &PAGES).await
}

/// Measures a store that retains days for ten years and hours for two years.
async fn measure_years() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let url = format!("sqlite:{}", folder.path().join("counts.db").display());
    let store = SqlStore::builder().create_tables().connect(&url).await?;
    let day = Precision::try_from(86_400)?;
    let days = Retention { precision: day, samples: DAYS.try_into()? };
    let hours = Retention { precision: Precision::try_from(3600)?, samples: 17_568.try_into()? };
    let precisions =
        || Precisions::new([Precision::try_from(60)?.into(), hours, days]).map_err(Box::<dyn Error>::from);
    let mut counters = Counters::builder(store)
        .precisions(precisions()?)
        .visitor_precisions(Precisions::new([days])?)
        .build()?;
    visit(&counters);
    counters.flush().await?;
    let (recorder, now, key) = (counters.recorder(), Timestamp::now(), VisitorKey::new([7; 16]));
    let names = std::iter::once("hits".to_owned()).chain((1..2000).map(|number| format!("/page/{number}")));
    let all: Vec<_> = names.map(|name| recorder.counter(&name)).collect();
    for ago in 0..u64::from(DAYS) {
        let at = now.minus(86_400 * ago);
        for counter in &all {
            recorder.record_at(*counter, None, at, NonZeroU32::MIN);
        }
        // A sketch reaches its maximum size at about 2,000 visitors.
        for person in 0..if ago < DAYS_WITH_VISITORS { 3000_u64 } else { 0 } {
            let visitor = key.visitor(&[&(ago + person).to_le_bytes()]);
            recorder.record_at(all[0], Some(visitor), at, NonZeroU32::MIN);
        }
        if ago % 10 == 0 {
            counters.flush().await?;
        }
    }
    counters.flush().await?;
    time("SQLite", &counter_admin::router(counters.stats(), Access::open()), &YEAR_PAGES).await
}

#[expect(clippy::print_stdout, reason = "the program prints its results")]
async fn time(name: &str, router: &Router, pages: &[(&str, &str)]) -> Result<(), Box<dyn Error>> {
    for (label, path) in pages {
        let mut took = Vec::with_capacity(REQUESTS_PER_PAGE);
        let mut bytes = 0;
        for _ in 0..REQUESTS_PER_PAGE {
            let started = Instant::now();
            bytes = fetch(router, path).await?;
            took.push(started.elapsed());
        }
        took[1..].sort_unstable();
        let (fastest, median, slowest) =
            (took[1], took[REQUESTS_PER_PAGE / 2 + 1], took[REQUESTS_PER_PAGE - 1]);
        println!("{name:<7} {label:<14} {median:>9.1?} ({fastest:.1?} to {slowest:.1?}), {bytes} bytes");
    }
    Ok(())
}

/// Records hits on 2,000 counters in each of the previous 100 hours.
fn visit(counters: &Counters) {
    let (recorder, now, key) = (counters.recorder(), Timestamp::now(), VisitorKey::new([7; 16]));
    for number in 0..2000_u64 {
        let name = if number == 0 { "hits".to_owned() } else { format!("/page/{number}") };
        let counter = recorder.counter(&name);
        for hour in 0..100 {
            let visitor = key.visitor(&[&(number + hour).to_le_bytes()]);
            recorder.record_at(counter, Some(visitor), now.minus(3600 * hour), NonZeroU32::MIN);
        }
    }
}

async fn fetch(router: &Router, path: &str) -> Result<usize, Box<dyn Error>> {
    let request = Request::get(path).body(Body::empty())?;
    let response = router.clone().oneshot(request).await?;
    if !response.status().is_success() {
        return Err(format!("the response is {}", response.status()).into());
    }
    Ok(response.into_body().collect().await?.to_bytes().len())
}
