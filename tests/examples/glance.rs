//! What `tests/glance` prints: how long the dashboard takes to answer when there are 2,000 counters, from
//! memory and from Redis, without a network to the browser.

use std::error::Error;
use std::num::NonZeroU32;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use counter_core::stores::Namespace;
use counter_core::visitor::VisitorKey;
use counter_core::{Counters, MemoryStore, RedisStore, Store, Timestamp};
use counter_layer::admin::{self, Access};
use http::Request;
use http_body_util::BodyExt;
use tests::{RedisServer, until};
use tower::ServiceExt;

const PAGES: [(&str, &str); 4] = [
    ("first page", "/"),
    ("by visitors", "/?sort=uniques"),
    ("with forecast", "/?precision=3600&forecast=1"),
    ("what moves", "/parts"),
];

/// How often each page is asked for; the first time warms up.
const TIMES: usize = 21;

/// How long Redis may take to be connected.
const LIMIT: Duration = Duration::from_secs(10);

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    measure("memory", MemoryStore::new()).await?;
    let redis = RedisServer::start();
    let store = RedisStore::connect(&redis.url(), Namespace::default()).await?;
    let hour = counter_core::Precision::try_from(3600)?;
    until("Redis is connected", LIMIT, async || store.known(&[hour], "", 1).await.is_ok()).await;
    measure("Redis", store).await
}

#[expect(clippy::print_stdout, reason = "this is what the program has to say to who starts it")]
async fn measure(name: &str, store: impl Store + Clone) -> Result<(), Box<dyn Error>> {
    let mut counters = Counters::builder(store).build()?;
    visit(&counters);
    counters.flush().await?;
    let router = admin::router(counters.stats(), Access::open());
    for (what, path) in PAGES {
        let mut took = Vec::with_capacity(TIMES);
        let mut bytes = 0;
        for _ in 0..TIMES {
            let begin = Instant::now();
            bytes = ask(&router, path).await?;
            took.push(begin.elapsed());
        }
        took[1..].sort_unstable();
        let (fastest, median, slowest) = (took[1], took[TIMES / 2 + 1], took[TIMES - 1]);
        println!("{name:<7} {what:<14} {median:>9.1?} ({fastest:.1?} to {slowest:.1?}), {bytes} bytes");
    }
    Ok(())
}

/// As many counters as there are places, each with a hit in every one of the last hundred hours.
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

async fn ask(router: &Router, path: &str) -> Result<usize, Box<dyn Error>> {
    let request = Request::get(path).body(Body::empty())?;
    let answer = router.clone().oneshot(request).await?;
    if !answer.status().is_success() {
        return Err(format!("the answer is {}", answer.status()).into());
    }
    Ok(answer.into_body().collect().await?.to_bytes().len())
}
