//! Visitor identification: not spoofable, the same across instances, and not linkable across epochs.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::pin::pin;
use std::task::{Context, Waker};
use std::time::Duration;

use counter_core::{Counters, MemoryStore, Precisions, Timestamp, VisitorId};
use counter_layer::{AccessCounterLayer, Forwarded, Identity};
use http::{Request, Response};
use tests::{RedisServer, until};
use tower::{Layer, ServiceExt, service_fn};

use crate::support::{BROWSER, allocations, expiry, fewest, name, precision, store};

const LIMIT: Duration = tests::LIMIT;

#[tokio::test]
async fn a_visitor_of_two_instances_counts_once() {
    let server = RedisServer::start();
    let (mut one, mut other) = (instance(&server).await, instance(&server).await);
    for identity in [Identity::default(), Identity::cookie("visitor")] {
        let layers = [layer(&one, identity.clone()), layer(&other, identity)];
        one.flush().await.expect("the server is there");
        other.flush().await.expect("the server is there");
        for layer in layers {
            visit(&layer, "192.0.2.1").await;
            visit(&layer, "192.0.2.1").await;
        }
    }
    one.flush().await.expect("the server is there");
    other.flush().await.expect("the server is there");
    // By address and by cookie.
    assert_eq!(uniques(&one, 86_400).await, 2);
}

#[tokio::test]
async fn instances_agree_on_the_salt_at_startup() {
    let server = RedisServer::start();
    let (mut one, mut other) = (instance(&server).await, instance(&server).await);
    let salts = [&one, &other].map(|counters| counters.recorder().salt().expect("days are fine"));
    let ids = || salts.each_ref().map(|salt| salt.visitor(&[b"ann"]));
    assert_ne!(ids()[0], ids()[1]);
    let agreed = || until("both have the salt", LIMIT, async || ids()[0] == ids()[1]);
    let (first, second) = tokio::join!(one.run(agreed()), other.run(agreed()));
    first.and(second).expect("nothing is pending");
}

#[tokio::test]
async fn a_local_salt_is_used_until_the_store_is_back() {
    let mut server = RedisServer::start();
    let (mut one, mut other) = (instance(&server).await, instance(&server).await);
    let (first, second) = (layer(&one, Identity::default()), layer(&other, Identity::default()));
    server.kill();
    for layer in [&first, &second] {
        visit(layer, "192.0.2.1").await;
        visit(layer, "192.0.2.1").await;
    }
    assert!(one.flush().await.is_err());
    server.restart();
    for counters in [&mut one, &mut other] {
        until("the store is back", LIMIT, async || counters.flush().await.is_ok()).await;
    }
    // Both instances count the visitor with a local salt. The salt that reaches the store earlier will then
    // be used by both.
    assert_eq!(uniques(&one, 86_400).await, 2);
    for layer in [&first, &second] {
        visit(layer, "192.0.2.1").await;
        visit(layer, "192.0.2.7").await;
    }
    one.flush().await.expect("the server is there");
    other.flush().await.expect("the server is there");
    assert_eq!(uniques(&one, 86_400).await, 3);
}

#[tokio::test]
async fn the_shared_salt_expires_an_epoch_after_it_ends() {
    let server = RedisServer::start();
    let mut counters = instance(&server).await;
    let recorder = counters.recorder();
    counters.flush().await.expect("the server is there");
    assert!(server.strings(&["KEYS", "access:salt:*"]).is_empty(), "nobody needs one yet");
    let _salt = recorder.salt().expect("days are fine");
    let before = precision(86_400).bucket(Timestamp::now()).start;
    counters.flush().await.expect("the server is there");
    let keys = server.strings(&["KEYS", "access:salt:*"]);
    assert!(!keys.is_empty() && keys.len() <= 2, "{keys:?}");
    for key in &keys {
        let start: u64 = key.strip_prefix("access:salt:86400:").expect(key).parse().expect("a start");
        assert!(start >= before.as_unix() && start.is_multiple_of(86_400), "{key}");
        assert_eq!(expiry(&server, key), start + 2 * 86_400, "{key}");
        assert_eq!(server.int(&["STRLEN", key]), 16, "{key}");
    }
}

#[tokio::test]
async fn an_invalid_stored_salt_does_not_block_hits() {
    let server = RedisServer::start();
    let mut counters = instance(&server).await;
    let layer = layer(&counters, Identity::default());
    let day = precision(86_400).bucket(Timestamp::now()).start;
    for (start, poison) in [(day, "SET"), (day.plus(86_400), "SADD")] {
        server.command(&[poison, &format!("access:salt:86400:{start}"), "seven"]);
    }
    visit(&layer, "192.0.2.1").await;
    counters.flush().await.expect("the batch is taken");
    visit(&layer, "192.0.2.1").await;
    counters.flush().await.expect("the batch is taken");
    assert_eq!(uniques(&counters, 86_400).await, 1);
}

#[tokio::test]
async fn visitors_are_not_recognized_in_the_next_epoch() {
    let two = precision(2);
    let builder = Counters::builder(MemoryStore::new()).salt_epoch(two);
    let mut counters =
        builder.visitor_precisions(Precisions::new([two]).expect("a set")).build().expect("alike");
    let salt = counters.recorder().salt().expect("alike");
    let epoch = || two.bucket(Timestamp::now()).start;
    let mut seen: BTreeSet<[u8; 16]> = BTreeSet::new();
    for _ in 0..3 {
        counters.flush().await.expect("memory takes all");
        let id = loop {
            let before = epoch();
            let ids: [VisitorId; 2] = [(), ()].map(|()| salt.visitor(&[b"ann"]));
            if epoch() == before {
                assert_eq!(ids[0], ids[1]);
                break ids[0];
            }
        };
        assert!(seen.insert(*id.as_bytes()));
        let now = epoch();
        until("the epoch ends", LIMIT, async || epoch() > now).await;
    }
}

#[test]
fn uniques_over_several_epochs_need_a_stable_identity() {
    let weekly = || Precisions::new([precision(604_800)]).expect("a set");
    let builder = || Counters::builder(MemoryStore::new()).visitor_precisions(weekly());
    let error = builder().build().expect_err("a week has seven epochs").to_string();
    assert!(error.contains("choose a stable identity, a longer epoch, or finer"), "{error}");
    assert!(builder().salt_epoch(precision(604_800)).build().is_ok());

    let counters = builder().stable_visitors().build().expect("configured as stable");
    let layer = || AccessCounterLayer::new(counters.recorder());
    assert!(layer().identity(Identity::cookie("visitor")).is_ok());
    for identity in [Identity::peer(), Identity::forwarded(Forwarded::X_FORWARDED_FOR).trusted_networks([])] {
        let error = layer().identity(identity).expect_err("an address is not stable").to_string();
        assert!(error.contains("604800") && error.contains("86400"), "{error}");
    }
}

#[tokio::test]
async fn an_address_is_not_a_visitor_if_buckets_are_longer_than_the_epoch() {
    let builder = Counters::builder(MemoryStore::new()).stable_visitors();
    let weekly = Precisions::new([precision(604_800)]).expect("a set");
    let mut counters = builder.visitor_precisions(weekly).build().expect("configured as stable");
    let nobody = AccessCounterLayer::new(counters.recorder());
    visit(&nobody, "192.0.2.1").await;
    counters.flush().await.expect("memory takes all");
    assert_eq!(uniques(&counters, 604_800).await, 0);
    visit(&layer(&counters, Identity::cookie("visitor")), "192.0.2.1").await;
    counters.flush().await.expect("memory takes all");
    assert_eq!(uniques(&counters, 604_800).await, 1);
}

#[tokio::test]
async fn a_request_across_an_epoch_boundary_counts_in_the_earlier_epoch() {
    let second = precision(1);
    let seconds = Precisions::new([second]).expect("a set");
    let builder = Counters::builder(MemoryStore::new()).visitor_precisions(seconds).salt_epoch(second);
    let mut counters = builder.build().expect("buckets are as wide as epochs");
    let layer = layer(&counters, Identity::default());
    let (end, ended) = tokio::sync::oneshot::channel::<()>();
    let inner = async { ended.await.map(|()| Response::new(())) };
    let service = layer.layer(service_fn({
        let mut inner = Some(inner);
        move |_: Request<()>| inner.take().expect("one request")
    }));
    let first = Timestamp::now();
    let mut response = pin!(service.oneshot(request("192.0.2.1")));
    assert!(response.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    let last = Timestamp::now();
    until("the epoch is over", LIMIT, async || Timestamp::now() > last.plus(1)).await;
    end.send(()).expect("it waits");
    response.await.expect("it answers");
    visit(&layer, "192.0.2.1").await;
    counters.flush().await.expect("memory takes all");
    let (stats, hits) = (counters.stats(), [name("hits")]);
    for (range, expected) in [(first..last.plus(1), 1), (last.plus(1)..Timestamp::now().plus(1), 1)] {
        let total = stats.total(&hits[0], second, range.clone()).await.expect("memory can be read");
        let uniques = stats.uniques(&hits, second, range).await.expect("memory can be read");
        assert_eq!((total, uniques.visitors), (expected, expected));
    }
}

#[test]
fn identifying_visitors_does_not_allocate() {
    let identities = [
        Identity::default(),
        Identity::forwarded(Forwarded::X_FORWARDED_FOR).trusted_hops(1).into(),
        Identity::forwarded(Forwarded::RFC7239).trusted_networks(["10.0.0.0/8".parse().expect("one")]).into(),
        Identity::cookie("visitor"),
        Identity::extension(|peer: &SocketAddr| Some(peer.port().to_be_bytes())).into(),
    ];
    for identity in identities {
        let counters = Counters::builder(MemoryStore::new()).build().expect("the defaults are fine");
        let description = format!("{identity:?}");
        let mut service = layer(&counters, identity).layer(service_fn(|_: Request<()>| ok()));
        let mut visits = |n: u32| {
            let requests: Vec<_> =
                (0..n).map(|n| request(&format!("10.0.{}.{}", n / 250, n % 250))).collect();
            allocations(&mut service, requests)
        };
        visits(10);
        assert_eq!(fewest(|| visits(1000)), 0, "{description}");
    }
}

type Answer = Result<Response<()>, std::convert::Infallible>;

fn ok() -> std::future::Ready<Answer> {
    std::future::ready(Ok(Response::new(())))
}

async fn instance(server: &RedisServer) -> Counters {
    Counters::builder(store(&server.url()).await).build().expect("the defaults are fine")
}

fn layer(counters: &Counters, identity: impl Into<Identity>) -> AccessCounterLayer {
    AccessCounterLayer::new(counters.recorder()).identity(identity).expect("it is alike")
}

fn request(address: &str) -> Request<()> {
    let request = Request::builder()
        .header("user-agent", BROWSER)
        .header("cookie", format!("visitor={address}"))
        .header("x-forwarded-for", address)
        .header("forwarded", format!("for={address};proto=https"))
        .extension(SocketAddr::new(address.parse().expect("an address"), 1000));
    request.body(()).expect("a request")
}

async fn visit(layer: &AccessCounterLayer, address: &str) {
    let service = layer.layer(service_fn(|_: Request<()>| ok()));
    service.oneshot(request(address)).await.expect("it answers");
}

async fn uniques(counters: &Counters, width: u32) -> u64 {
    let now = Timestamp::now();
    let range = now.minus(2 * u64::from(width))..now.plus(1);
    let uniques = counters.stats().uniques(&[name("hits")], precision(width), range).await;
    uniques.expect("the store is there").visitors
}
