//! Setups that would silently produce wrong counts: they should be reported once, with a fix.

use std::convert::Infallible;
use std::future::ready;
use std::net::{IpAddr, SocketAddr};

use axum::Router;
use axum::body::Body;
use axum::routing::get;
use counter_core::visitor::VisitorKey;
use counter_core::visits::Requests;
use counter_core::{Counters, MemoryStore, Timestamp};
use counter_layer::{AccessCounterLayer, Forwarded, Identity, Rule, Rules};
use http::header::{COOKIE, SET_COOKIE, USER_AGENT};
use http::{Request, Response};
use tower::{Layer, ServiceExt, service_fn};

use crate::log::Log;
use crate::support::{BOT, BROWSER, counted, name, precision};

fn counters() -> Counters {
    Counters::builder(MemoryStore::new()).build().expect("the defaults are fine")
}

fn layer(counters: &Counters) -> AccessCounterLayer {
    AccessCounterLayer::new(counters.recorder())
}

fn by(counters: &Counters, identity: impl Into<Identity>) -> AccessCounterLayer {
    // With a fixed key, visitor ids are the same in all runs, and so are the sketch registers.
    layer(counters).identity(identity.into().key(VisitorKey::new([7; 16]))).expect("it needs no salt")
}

fn hints(counters: &Counters) -> Vec<&'static str> {
    counters.stats().health().hints.iter().map(|hint| hint.name).collect()
}

fn requests(counters: &Counters) -> Requests {
    counters.stats().ledger().requests
}

async fn visitors(counters: &mut Counters) -> u64 {
    counters.flush().await.expect("memory takes all");
    let range = Timestamp::now().minus(2 * 86_400)..Timestamp::now().plus(1);
    let uniques = counters.stats().uniques(&[name("hits")], precision(86_400), range).await;
    uniques.expect("memory can be read").visitors
}

/// Creates a browser request from the last address, with the other addresses in `X-Forwarded-For`.
fn from(addresses: &[&str]) -> Request<()> {
    let (peer, forwarded) = addresses.split_last().expect("a peer");
    let mut request = Request::get("/").header(USER_AGENT, BROWSER);
    if !forwarded.is_empty() {
        request = request.header("x-forwarded-for", forwarded.join(", "));
    }
    let peer: IpAddr = peer.parse().expect("an address");
    request.extension(SocketAddr::new(peer, 1000)).body(()).expect("a request")
}

/// Sends a request through the layer, and returns the cookie set by the response.
async fn visit(layer: &AccessCounterLayer, request: Request<()>) -> Option<String> {
    let inner = service_fn(|_: Request<()>| ready(Ok::<_, Infallible>(Response::new(()))));
    let response = layer.layer(inner).oneshot(request).await.expect("it answers");
    let cookie = response.headers().get(SET_COOKIE)?.to_str().expect("ASCII");
    Some(cookie.split(';').next().expect("a pair").to_owned())
}

fn another_site(layer: AccessCounterLayer) -> axum_07::Router {
    axum_07::Router::new()
        .route("/articles/:id", axum_07::routing::get(|| async { "an article" }))
        .layer(layer)
}

async fn visit_another(site: &axum_07::Router, person: u8) {
    let peer = axum_07::extract::ConnectInfo(SocketAddr::from(([192, 0, 2, person], 1000)));
    let request = Request::get("/articles/7").header(USER_AGENT, BROWSER).extension(peer);
    let request = request.body(axum_07::body::Body::empty()).expect("a request");
    site.clone().into_service().oneshot(request).await.expect("a router answers");
}

#[tokio::test]
async fn a_different_axum_version_is_detected_and_logged_once() {
    let mut counters = counters();
    let (log, _guard) = Log::capture();
    let site = another_site(layer(&counters));
    for n in 0..99 {
        visit_another(&site, n % 3).await;
    }
    assert_eq!(hints(&counters), [""; 0]);
    for n in 0..200 {
        visit_another(&site, n % 3).await;
    }
    assert_eq!(hints(&counters), ["no_matched_path", "no_peer_address"]);
    assert_eq!((requests(&counters).recorded, requests(&counters).unidentified), (299, 299));
    assert_eq!(counted(&mut counters).await.into_iter().collect::<Vec<_>>(), [("hits".to_owned(), 299)]);
    for phrase in ["had a matched path", "had a client address"] {
        assert_eq!(log.text().matches(phrase).count(), 1, "{phrase}: {}", log.text());
    }
}

#[tokio::test]
async fn closures_provide_the_route_and_address_of_a_different_axum_version() {
    let mut counters = counters();
    let peer = Identity::peer().peer_from_fn(|head| {
        Some(head.extensions.get::<axum_07::extract::ConnectInfo<SocketAddr>>()?.0.ip())
    });
    let layer = by(&counters, peer)
        .matched_path(|head| Some(head.extensions.get::<axum_07::extract::MatchedPath>()?.as_str()));
    let site = another_site(layer);
    for n in 0..200 {
        visit_another(&site, n % 3).await;
    }
    let expected = [("/articles/:id".to_owned(), 200), ("hits".to_owned(), 200)];
    assert_eq!(counted(&mut counters).await.into_iter().collect::<Vec<_>>(), expected);
    assert_eq!(visitors(&mut counters).await, 3);
    assert_eq!((requests(&counters).unidentified, hints(&counters)), (0, vec![]));
}

#[tokio::test]
async fn rules_count_by_the_path_returned_by_a_closure() {
    let mut counters = counters();
    let rules = Rules::builder().by_matched_path().default_counter("rest").build().expect("good rules");
    let layer = layer(&counters).rules(rules).matched_path(|head| head.uri.query());
    for query in ["/?/a/{id}", "/", "/?/{*__private__axum_fallback}", "/?hits", "/?status:2xx"] {
        visit(&layer, Request::get(query).body(()).expect("a request")).await;
    }
    let expected = [("(other)", 2), ("/a/{id}", 1), ("hits", 5), ("rest", 2)];
    let expected: Vec<_> = expected.map(|(counter, count)| (counter.to_owned(), count)).into();
    assert_eq!(counted(&mut counters).await.into_iter().collect::<Vec<_>>(), expected);
}

#[tokio::test]
async fn a_closure_that_returns_a_reserved_counter_loses_no_hits_and_is_logged_once() {
    let mut counters = counters();
    let (log, _guard) = Log::capture();
    let taken = ["hits", "status:2xx", "(other)"].map(|name| counters.recorder().counter(name));
    let fallback = layer(&counters).fallback(move |head| {
        let n: usize = head.uri.query()?.parse().ok()?;
        taken.get(n).copied()
    });
    for query in ["/?0", "/?1", "/?1", "/?2"] {
        visit(&fallback, Request::get(query).body(()).expect("a request")).await;
    }
    let closure = layer(&counters).matched_path(|head| head.uri.query());
    for query in ["/?hits", "/?agent:bot"] {
        visit(&closure, Request::get(query).body(()).expect("a request")).await;
    }
    let expected = [("(other)".to_owned(), 5), ("hits".to_owned(), 6)];
    assert_eq!(counted(&mut counters).await.into_iter().collect::<Vec<_>>(), expected);
    // Once per layer.
    assert_eq!(log.text().matches("a closure returned a reserved counter name").count(), 2, "{}", log.text());
}

#[tokio::test]
async fn a_hint_is_cleared_when_the_missing_data_arrives() {
    let counters = counters();
    let service = layer(&counters);
    let site: Router = Router::new().route("/articles/{id}", get(async || "an article")).layer(service);
    let send = async |path: &str| {
        let request = Request::get(path).header(USER_AGENT, BOT).body(Body::empty()).expect("a request");
        site.clone().oneshot(request).await.expect("a router answers");
    };
    for _ in 0..100 {
        send("/nothing").await;
    }
    assert_eq!(hints(&counters), ["no_matched_path"]);
    send("/articles/7").await;
    assert_eq!(hints(&counters), [""; 0]);
    for _ in 0..200 {
        send("/nothing").await;
    }
    assert_eq!(hints(&counters), [""; 0]);
}

#[tokio::test]
async fn a_layer_that_does_not_use_routes_has_no_route_hint() {
    let counters = counters();
    let feeds = counters.recorder().counter("feeds");
    let rules = Rules::builder().rule(Rule::counter("all").pattern("/*")).build().expect("good rules");
    for layer in [layer(&counters).rules(rules), layer(&counters).fallback(move |_| Some(feeds))] {
        for _ in 0..200 {
            visit(&layer, Request::get("/").header(USER_AGENT, BOT).body(()).expect("a request")).await;
        }
    }
    assert_eq!(hints(&counters), [""; 0]);
}

#[tokio::test]
async fn visitors_behind_an_untrusted_proxy_are_detected() {
    let (log, _guard) = Log::capture();
    let people = ["192.0.2.1", "192.0.2.2", "192.0.2.3"];
    let mut trusting = counters();
    let mut trustful = counters();
    let trusted = Identity::forwarded(Forwarded::X_FORWARDED_FOR).trusted_hops(1);
    for (counters, layer) in
        [(&mut trusting, None), (&mut trustful, Some(trusted))].map(|(counters, identity)| {
            let layer = by(counters, identity.unwrap_or_else(Identity::peer)).fallback(|_| None);
            (counters, layer)
        })
    {
        for n in 0..30 {
            visit(&layer, from(&[people[n % 3], "10.0.0.1"])).await;
        }
        _ = visitors(counters).await;
    }
    assert_eq!((visitors(&mut trusting).await, hints(&trusting)), (1, vec!["untrusted_forwarding"]));
    assert_eq!((visitors(&mut trustful).await, hints(&trustful)), (3, vec![]));
    assert_eq!(log.text().matches("no proxy is trusted").count(), 1, "{}", log.text());
    assert!(people.iter().all(|person| !log.text().contains(person)), "{}", log.text());
}

#[tokio::test]
async fn a_single_address_for_all_visitors_is_reported_until_a_second_appears() {
    let counters = counters();
    let layer = by(&counters, Identity::peer()).fallback(|_| None);
    for _ in 0..1000 {
        assert_eq!(hints(&counters), [""; 0]);
        visit(&layer, from(&["10.0.0.1"])).await;
    }
    assert_eq!(hints(&counters), ["one_address"]);
    visit(&layer, from(&["10.0.0.2"])).await;
    assert_eq!(hints(&counters), [""; 0]);
}

#[tokio::test]
async fn a_cookie_that_is_never_returned_is_reported_until_it_is() {
    let counters = counters();
    let layer = by(&counters, Identity::issued_cookie("visitor")).fallback(|_| None);
    let mut cookie = None;
    for _ in 0..100 {
        assert_eq!(hints(&counters), [""; 0]);
        cookie = visit(&layer, from(&["192.0.2.1"])).await;
    }
    assert_eq!(hints(&counters), ["no_cookie_returned"]);
    let mut back = from(&["192.0.2.1"]);
    let value = cookie.expect("it is given one").parse().expect("a value");
    back.headers_mut().insert(COOKIE, value);
    assert_eq!(visit(&layer, back).await, None);
    assert_eq!(hints(&counters), [""; 0]);
}

#[tokio::test]
async fn only_visitors_that_return_the_cookie_count_if_configured() {
    let mut counters = counters();
    let layer = by(&counters, Identity::issued_cookie("visitor").only_returned());
    for _ in 0..20 {
        assert!(visit(&layer, from(&["192.0.2.1"])).await.is_some());
    }
    assert_eq!((visitors(&mut counters).await, requests(&counters).unidentified), (0, 20));
    let cookie = visit(&layer, from(&["192.0.2.1"])).await.expect("a new visitor");
    for _ in 0..3 {
        let mut back = from(&["192.0.2.1"]);
        back.headers_mut().insert(COOKIE, cookie.parse().expect("a value"));
        assert_eq!(visit(&layer, back).await, None);
    }
    assert_eq!((visitors(&mut counters).await, requests(&counters).unidentified), (1, 21));
}

#[tokio::test]
async fn a_missing_identity_is_reported() {
    let counters = counters();
    let layer = by(&counters, Identity::cookie("session")).fallback(|_| None);
    for _ in 0..100 {
        visit(&layer, from(&["192.0.2.1"])).await;
    }
    assert_eq!(hints(&counters), ["no_identity"]);
}

#[tokio::test]
async fn without_visitors_there_are_no_hints_and_bots_are_not_unidentified() {
    let counters = counters();
    let layer = layer(&counters).identity(Identity::none()).expect("it needs no salt").fallback(|_| None);
    for _ in 0..1200 {
        visit(&layer, from(&["192.0.2.1", "10.0.0.1"])).await;
    }
    visit(&layer, Request::get("/").header(USER_AGENT, BOT).body(()).expect("a request")).await;
    assert_eq!(hints(&counters), [""; 0]);
    let Requests { recorded, bots, unidentified, .. } = requests(&counters);
    assert_eq!((recorded, bots, unidentified), (1201, 1, 1200));
}

#[tokio::test]
async fn names_over_the_counter_limit_are_logged_once() {
    let (log, _guard) = Log::capture();
    let counters = Counters::builder(MemoryStore::new()).max_counters(3).build().expect("good settings");
    let layer = layer(&counters).matched_path(|head| Some(head.uri.path()));
    for path in ["/a", "/b", "/a"] {
        visit(&layer, Request::get(path).body(()).expect("a request")).await;
    }
    assert_eq!(hints(&counters), [""; 0]);
    for path in ["/c", "/d", "/c"] {
        visit(&layer, Request::get(path).body(()).expect("a request")).await;
    }
    assert_eq!((hints(&counters), counters.stats().ledger().hits.overflow), (vec!["counters_full"], 3));
    assert_eq!(log.text().matches("more counter names").count(), 1, "{}", log.text());
}

#[test]
fn detecting_setup_problems_does_not_allocate() {
    let counters = counters();
    let mut service = by(&counters, Identity::peer())
        .layer(service_fn(|_: Request<()>| ready(Ok::<_, Infallible>(Response::new(())))));
    let mut run = |n: usize| {
        let requests = (0..n).map(|_| from(&["192.0.2.7", "10.0.0.1"])).collect();
        crate::support::allocations(&mut service, requests)
    };
    // This raises the hints, which allocates a list for them.
    run(2000);
    assert_eq!(hints(&counters).len(), 3);
    assert_eq!(crate::support::fewest(|| run(500)), 0);
}
