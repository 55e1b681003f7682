//! Requests that the owner of a site ignores.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use counter_core::{Counters, MemoryStore};
use counter_layer::{AccessCounterLayer, Forwarded, Identity, Ignore, Label, Outcome, Rules};
use http::{HeaderName, Request, Response};
use tower::{Layer, ServiceExt, service_fn};

use crate::support::{BROWSER, allocations, counted, fewest};

fn counters() -> Counters {
    Counters::builder(MemoryStore::new()).build().expect("the defaults are fine")
}

fn request(target: &str, peer: &str, headers: &[(&str, &str)]) -> Request<()> {
    let peer: IpAddr = peer.parse().expect("an address");
    let mut request =
        Request::get(target).extension(SocketAddr::new(peer, 1000)).header("user-agent", BROWSER);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(()).expect("a request")
}

/// All kinds of conditions.
fn conditions() -> [Ignore; 5] {
    let network = |text: &str| text.parse().expect("a network");
    let proxied = Identity::forwarded(Forwarded::X_FORWARDED_FOR).trusted_networks([network("10.0.0.0/8")]);
    [
        Ignore::networks(Identity::peer(), [network("192.0.2.0/24"), network("2001:db8::/48")]),
        Ignore::networks(proxied, [network("203.0.113.0/24")]),
        Ignore::header(HeaderName::from_static("x-staff")),
        Ignore::cookie(),
        Ignore::from_fn(|head| head.uri.query() == Some("preview")),
    ]
}

#[tokio::test]
async fn ignored_requests_are_only_in_the_ledger() {
    for (is_ignored, target, peer, headers) in [
        (false, "/", "198.51.100.1", &[][..]),
        (true, "/", "192.0.2.1", &[]),
        (true, "/", "::ffff:192.0.2.1", &[]),
        (true, "/", "2001:db8::1", &[]),
        // The significant bits of an identity end before the part that distinguishes this from the network.
        (false, "/", "2001:db8:1::1", &[]),
        (true, "/", "10.0.0.1", &[("x-forwarded-for", "203.0.113.7")]),
        (false, "/", "10.0.0.1", &[("x-forwarded-for", "203.0.113.7, 198.51.100.1")]),
        // The peer is not a trusted proxy.
        (false, "/", "198.51.100.1", &[("x-forwarded-for", "203.0.113.7")]),
        (true, "/", "198.51.100.1", &[("x-staff", "")]),
        (true, "/", "198.51.100.1", &[("cookie", "a=b; access-counter-ignore=1")]),
        (false, "/", "198.51.100.1", &[("cookie", "access-counter-ignore=; access-counter-ignored=1")]),
        (true, "/?preview", "198.51.100.1", &[]),
    ] {
        let mut counters = counters();
        let was_counted = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&was_counted);
        let layer = AccessCounterLayer::new(counters.recorder())
            .labels([Label::referrer()])
            .expect("a label")
            .on_count(move |_| {
                let flag = Arc::clone(&flag);
                Some(move |_: Outcome| flag.store(true, Ordering::Relaxed))
            })
            .ignore(conditions());
        let service = layer.layer(service_fn(|_| async { Ok::<_, Infallible>(Response::new(())) }));
        service.oneshot(request(target, peer, headers)).await.expect("infallible");
        let requests = counters.recorder().ledger().requests;
        let shown = format!("{target} {peer} {headers:?}: {requests:?}");
        assert_eq!(
            (requests.ignored.own, requests.recorded),
            (is_ignored.into(), (!is_ignored).into()),
            "{shown}"
        );
        assert!(requests.balance() && requests.observed == 1, "{shown}");
        assert_eq!(was_counted.load(Ordering::Relaxed), !is_ignored, "{shown}");
        let counts = counted(&mut counters).await;
        assert_eq!(counts.is_empty(), is_ignored, "{shown} {counts:?}");
        let labels = counters.stats().labels().await.expect("memory can be read");
        assert_eq!(labels.is_empty(), is_ignored, "{shown} {labels:?}");
    }
}

#[tokio::test]
async fn excluded_requests_are_not_ignored_and_a_panicking_closure_counts() {
    let mut counters = counters();
    let rules = Rules::builder().exclude("/healthz").default_counter("pages").build().expect("rules");
    let layer = AccessCounterLayer::new(counters.recorder())
        .rules(rules)
        .ignore([Ignore::cookie(), Ignore::from_fn(|head| panic!("of a request to {}", head.uri))]);
    let cookie = [("cookie", "access-counter-ignore=1")];
    for (target, headers) in [("/healthz", &cookie[..]), ("/", &cookie), ("/", &[])] {
        let service = layer.layer(service_fn(|_| async { Ok::<_, Infallible>(Response::new(())) }));
        service.oneshot(request(target, "192.0.2.1", headers)).await.expect("infallible");
    }
    let requests = counters.recorder().ledger().requests;
    assert_eq!((requests.excluded, requests.ignored.own, requests.recorded), (1, 1, 1), "{requests:?}");
    let expected: BTreeMap<_, _> = [("hits".to_owned(), 1), ("pages".to_owned(), 1)].into();
    assert_eq!(counted(&mut counters).await, expected);
}

#[test]
fn conditions_do_not_allocate() {
    let counters = counters();
    let layer = AccessCounterLayer::new(counters.recorder()).ignore(conditions());
    let mut service = layer.layer(service_fn(|_| std::future::ready(Ok::<_, Infallible>(Response::new(())))));
    let mut visits = |n: u32| {
        let forwarded = [("x-forwarded-for", "203.0.113.7, 198.51.100.1"), ("cookie", "a=1; b=2")];
        let requests = (0..n).map(|n| request("/", ["192.0.2.1", "10.0.0.1"][n as usize % 2], &forwarded));
        let requests = requests.collect();
        allocations(&mut service, requests)
    };
    visits(10);
    assert_eq!(fewest(|| visits(1000)), 0);
}
