//! Law 1 for hits from other programs: with multiple producers, killed instances, lost replies, and a server
//! that restarts without the latest counts.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use counter_admin::{Access, Options};
use counter_core::{Counters, Timestamp};
use counter_layer::AccessCounterLayer;
use counter_log::LogCounter;
use http::{Request, StatusCode};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tests::{FaultProxy, LIMIT, RedisServer, until};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};
use tower::ServiceExt;

use crate::random::Random;
use crate::support::{name, store, storm_seconds};

const PRODUCERS: u64 = 5;

/// Reproducible requests of a producer.
#[derive(Clone, Copy)]
struct Requests {
    producer: u64,
    seed: u64,
    started: Timestamp,
}

impl Requests {
    fn records(self, number: u64) -> Vec<(String, u64, u64)> {
        let mut random = Random::new(self.seed ^ (self.producer << 32) ^ number);
        let most = random.one_of(&[1, 5, 40, 700]);
        let record = |_| (format!("c{}", random.among(0..60)), random.among(0..120), random.among(1..4));
        (0..most).map(record).collect()
    }

    fn body(self, number: u64) -> String {
        let line = |(counter, ago, n): (String, u64, u64)| {
            let at = self.started.minus(ago).as_unix();
            format!(
                "{}\n",
                json!({"counter": counter, "at": at, "n": n, "visitor": format!("v{}", n * 7 + ago)})
            )
        };
        self.records(number).into_iter().map(line).collect()
    }

    async fn send(self, router: Router, number: u64) -> (StatusCode, Value) {
        let address = format!("/api/hits?producer=p{}&number={number}", self.producer);
        let request = Request::post(address).body(Body::from(self.body(number))).expect("an address");
        let response = router.oneshot(request).await.expect("a router answers");
        let status = response.status();
        let body = response.into_body().collect().await.expect("a body").to_bytes();
        (status, serde_json::from_slice(&body).expect("JSON"))
    }
}

async fn instance(url: &str) -> Router {
    let counters = Counters::builder(store(url).await).build().expect("the defaults are fine");
    let layer = AccessCounterLayer::new(counters.recorder());
    let options = Options::new().hits(counters.sources(), LogCounter::new(&layer));
    counter_admin::router_with(counters.stats(), Access::open().may_record(), options)
}

/// State shared by the producers and the storm.
#[derive(Clone)]
struct Instances {
    routers: Arc<Mutex<Vec<Router>>>,
    until: Instant,
}

impl Instances {
    fn one(&self, random: &mut Random) -> Router {
        let routers = self.routers.lock().expect("no panic");
        routers[usize::try_from(random.next() % routers.len() as u64).expect("a place")].clone()
    }
}

/// Sends requests until the storm ends, retries them until there is a response, and returns the number of
/// requests.
async fn produce(requests: Requests, instances: Instances, mut random: Random) -> u64 {
    let (mut next, mut last) = (1, 0);
    while Instant::now() < instances.until || next <= last {
        last = last.max(next);
        // The request is dropped midway, like with an impatient client or a killed instance.
        let limit = if Instant::now() < instances.until { random.millis(1..300) } else { LIMIT };
        let repeated = random.among(0..4) == 0;
        let duplicate =
            repeated.then(|| tokio::spawn(timeout(limit, requests.send(instances.one(&mut random), next))));
        let sent = timeout(limit, requests.send(instances.one(&mut random), next)).await;
        if let Some(duplicate) = duplicate {
            _ = duplicate.await.expect("no panic");
        }
        next = match sent {
            Ok((StatusCode::OK, _)) => next + 1,
            Ok((StatusCode::CONFLICT, reply)) => reply["number"].as_u64().expect("a number") + 1,
            Ok((StatusCode::SERVICE_UNAVAILABLE, _)) | Err(_) => {
                sleep(random.millis(5..40)).await;
                next
            }
            Ok(other) => panic!("{other:?}"),
        };
    }
    last
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn totals_are_exact_after_a_storm_on_producers_instances_and_server() {
    let mut server = RedisServer::start();
    let proxy = FaultProxy::start(server.address()).await;
    let mut random = Random::storm("of producers");
    let (seed, started) = (random.next(), Timestamp::now());
    let routers = vec![instance(&proxy.url()).await, instance(&proxy.url()).await];
    let end = Instant::now() + Duration::from_secs(storm_seconds());
    let instances = Instances { routers: Arc::new(Mutex::new(routers)), until: end };
    let of = move |producer| Requests { producer, seed, started };
    let mut producers = JoinSet::new();
    for producer in 0..PRODUCERS {
        let (instances, random) = (instances.clone(), random.fork());
        producers.spawn(async move { (producer, produce(of(producer), instances, random).await) });
    }
    while Instant::now() < end {
        sleep(random.millis(50..300)).await;
        match random.among(0..12) {
            0..=3 => proxy.swallow_replies(1),
            4..=5 => proxy.drop_requests(1),
            6..=8 => _ = server.command(&["SAVE"]),
            9 => {
                // Counts since the latest save are lost.
                server.kill();
                sleep(random.millis(0..40)).await;
                server.restart();
            }
            _ => {
                let new = instance(&proxy.url()).await;
                let place = usize::try_from(random.among(0..2)).expect("one of two");
                instances.routers.lock().expect("no panic")[place] = new;
            }
        }
    }
    let sent = producers.join_all().await;
    eprintln!("requests of each producer: {sent:?}");
    let fresh = instance(&server.url()).await;
    let mut expected = BTreeMap::<String, u64>::new();
    for (producer, last) in sent {
        // The server may have lost data after the final response to this producer.
        let mut next = last;
        until("its requests are counted", LIMIT, async || {
            let (status, reply) = of(producer).send(fresh.clone(), next).await;
            next = match status {
                StatusCode::OK => next + 1,
                StatusCode::CONFLICT => reply["number"].as_u64().expect("a number") + 1,
                _ => next,
            };
            next > last
        })
        .await;
        for (counter, _, n) in (1..=last).flat_map(|number| of(producer).records(number)) {
            *expected.entry(counter).or_default() += n;
        }
    }
    assert!(!expected.is_empty());
    let counters = Counters::builder(store(&server.url()).await).build().expect("the defaults are fine");
    let names: Vec<_> = expected.keys().map(|counter| name(counter)).collect();
    let totals = counters.stats().lifetimes(&names).await.expect("readable");
    assert_eq!(names.iter().map(ToString::to_string).zip(totals).collect::<BTreeMap<_, _>>(), expected);
}
