//! Compares sketches with HyperLogLogs of the server, and tests how visitors get to the store.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::num::NonZeroU32;

use counter_core::sketch::Sketch;
use counter_core::visitor::VisitorKey;
use counter_core::{Counters, Precision, Timestamp, VisitorId};
use counter_layer::{AccessCounterLayer, Forwarded, Identity};
use http::{HeaderValue, Request, Response};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use tests::{RedisServer, Value};
use tower::{Layer, Service, service_fn};

use crate::support::{expiry, name, precision, store};

fn add(server: &RedisServer, key: &str, elements: impl Iterator<Item = Vec<u8>>) {
    let elements: Vec<_> = elements.collect();
    for chunk in elements.chunks(5000) {
        let words: Vec<_> =
            [b"PFADD".to_vec(), key.into()].into_iter().chain(chunk.iter().cloned()).collect();
        server.int(&words);
    }
}

fn stored(server: &RedisServer, key: &str) -> Sketch {
    let bytes = server.bytes(&["GET", key]).expect("the key exists");
    Sketch::from_redis(&bytes).expect("a HyperLogLog")
}

fn visitor(n: u32) -> VisitorId {
    VisitorKey::new([10; 16]).visitor(&[&n.to_le_bytes()])
}

#[track_caller]
fn agree(server: &RedisServer, n: usize, seed: u64) {
    server.command(&["DEL", "theirs", "ours"]);
    let elements = || (0..n as u64).map(|n| format!("{seed}/{n}").into_bytes());
    let mut ours = Sketch::new();
    elements().for_each(|element| {
        ours.insert_element(&element);
    });
    add(server, "theirs", elements());
    let counted = server.int(&["PFCOUNT", "theirs"]);
    assert_eq!(i64::try_from(ours.estimate()), Ok(counted), "our estimate of {n}");
    let value = [b"SET".to_vec(), b"ours".to_vec(), ours.to_redis()];
    assert_eq!(server.command(&value), Value::Simple("OK".to_owned()));
    assert_eq!(server.int(&["PFCOUNT", "ours"]), counted, "their count of our {n}");
    assert_eq!(server.int(&["PFCOUNT", "ours", "theirs"]), counted, "their union with our {n}");
    if n > 0 {
        assert_eq!(stored(server, "theirs"), ours, "the registers of {n}");
    }
}

#[test]
fn a_sketch_equals_the_redis_hyperloglog_bit_for_bit() {
    let server = RedisServer::start();
    for n in [0, 1, 2, 10, 100, 1000, 1_800, 3_000, 10_000, 100_000] {
        agree(&server, n, 0);
    }
}

#[test]
fn a_sketch_of_any_size_equals_the_redis_hyperloglog() {
    let server = RedisServer::start();
    let mut runner = TestRunner::new(ProptestConfig { cases: 24, ..ProptestConfig::default() });
    let sizes = prop_oneof![0_usize..3000, 0_usize..30_000, 0_usize..100_000];
    let checked = runner.run(&(sizes, any::<u64>()), |(n, seed)| {
        agree(&server, n, seed);
        Ok(())
    });
    checked.expect("every size agrees");
}

struct Site {
    server: RedisServer,
    counters: Counters,
    hour: Timestamp,
}

impl Site {
    async fn start() -> Self {
        let server = RedisServer::start();
        let counters = Counters::builder(store(&server.url()).await).build().expect("good settings");
        Self { server, counters, hour: precision(3600).bucket(Timestamp::now()).start }
    }

    /// Records visits in the current hour and flushes.
    async fn visits(&mut self, visitors: std::ops::Range<u32>) {
        let recorder = self.counters.recorder();
        let page = recorder.counter("page");
        for n in visitors {
            recorder.record_at(page, visitor(n), self.hour, NonZeroU32::MIN);
        }
        self.counters.flush().await.expect("the store is available");
    }

    fn key(&self, width: Precision) -> String {
        format!("access:unique:{width}:page:{}", width.bucket(self.hour).start)
    }
}

#[tokio::test]
async fn raising_registers_gives_the_same_key_as_adding_visitors() {
    let mut site = Site::start().await;
    let steps = [0..1, 1..10, 5..300, 0..300, 300..20_000, 20_000..20_050, 0..20_050];
    for step in steps {
        site.visits(step.clone()).await;
        add(&site.server, "reference", step.map(|n| visitor(n).as_bytes().to_vec()));
        for width in [precision(3600), precision(86_400)] {
            assert_eq!(stored(&site.server, &site.key(width)), stored(&site.server, "reference"));
        }
    }
    let range = site.hour..site.hour.plus(1);
    let uniques = site.counters.stats().uniques(&[name("page")], precision(3600), range).await;
    let counted = site.server.int(&["PFCOUNT", "reference"]);
    assert_eq!(i64::try_from(uniques.expect("readable").visitors), Ok(counted));
}

#[tokio::test]
async fn known_visitors_are_not_sent_again() {
    let mut site = Site::start().await;
    let written = |site: &Site| {
        let stats = site.server.command(&["INFO", "commandstats"]).text().expect("a text");
        stats.lines().filter(|line| line.starts_with("cmdstat_pf")).map(str::to_owned).collect::<Vec<_>>()
    };
    site.visits(0..2000).await;
    let before = written(&site);
    assert!(!before.is_empty());
    site.visits(0..2000).await;
    assert_eq!(written(&site), before);
    site.visits(0..2100).await;
    assert_ne!(written(&site), before);
}

#[tokio::test]
async fn a_visitor_bucket_expires_after_its_retention() {
    let mut site = Site::start().await;
    site.visits(0..5).await;
    site.visits(5..9000).await;
    for width in [3600_u32, 86_400] {
        let end = precision(width).bucket(site.hour).start.plus((120 + 4) * u64::from(width));
        assert_eq!(expiry(&site.server, &site.key(precision(width))), end.as_unix());
    }
}

#[tokio::test]
async fn late_visitors_are_counted_in_closed_buckets() {
    let mut site = Site::start().await;
    let now = site.hour;
    site.visits(0..100).await;
    for hours_ago in [1, 5, 30, 1] {
        site.hour = now.minus(3600 * hours_ago);
        site.visits(0..50).await;
        site.hour = now;
        site.visits(100..101).await;
    }
    let uniques = async |from: Timestamp| {
        let range = from..from.plus(1);
        let uniques = site.counters.stats().uniques(&[name("page")], precision(3600), range).await;
        uniques.expect("readable").visitors
    };
    for (hours_ago, expected) in [(0, 101), (1, 50), (2, 0), (5, 50), (30, 50)] {
        let counted = uniques(now.minus(3600 * hours_ago)).await;
        assert!(counted.abs_diff(expected) <= expected / 50, "{counted} of {expected}");
    }
}

#[tokio::test]
async fn visitors_past_the_hourly_retention_count_for_their_day() {
    let mut site = Site::start().await;
    site.hour = site.hour.minus(130 * 3600);
    site.visits(0..40).await;
    assert_eq!(site.server.int(&["EXISTS", &site.key(precision(3600))]), 0);
    assert_eq!(site.server.int(&["PFCOUNT", &site.key(precision(86_400))]), 40);
}

#[tokio::test]
async fn no_visitor_identity_reaches_the_store() {
    const AGENT: &str = "Mozilla/5.0 (X11; SecretOs x86_64; rv:140.0) Gecko/20100101 Firefox/140.0";
    let mut site = Site::start().await;
    let client = Identity::forwarded(Forwarded::X_FORWARDED_FOR).trusted_hops(1);
    let layer = AccessCounterLayer::new(site.counters.recorder());
    let layer = layer.identity(client).expect("an address lasts for an epoch");
    let mut service = layer.layer(service_fn(async |_: Request<()>| Ok::<_, Infallible>(Response::new(()))));
    for n in 0..50 {
        let mut request = Request::get("/people/ann?mail=ann@example.org").body(()).expect("a request");
        let headers = request.headers_mut();
        headers.insert("user-agent", HeaderValue::from_static(AGENT));
        headers.insert("cookie", HeaderValue::from_static("session=s3cr3t"));
        headers.insert("x-forwarded-for", format!("203.0.113.{n}").parse().expect("a value"));
        request.extensions_mut().insert(SocketAddr::from(([198, 51, 100, 7], 4711)));
        service.call(request).await.expect("infallible");
    }
    site.counters.flush().await.expect("the store is available");
    let keys = site.server.strings(&["KEYS", "*"]);
    assert!(keys.iter().any(|key| key.starts_with("access:unique:")), "{keys:?}");
    let binary = [&[203, 0, 113][..], &[198, 51, 100, 7]];
    let text = ["203.0.113", "198.51.100", "SecretOs", "s3cr3t", "ann"].map(str::as_bytes);
    for key in keys {
        let value = site.server.bytes(&["DUMP", &key]).expect("the key exists");
        for secret in binary.iter().chain(&text) {
            let found = |bytes: &[u8]| bytes.windows(secret.len()).any(|window| window == *secret);
            assert!(!found(key.as_bytes()) && !found(&value), "{secret:?} under {key}");
        }
    }
}
