//! Requests that nobody made: those of programs, and those that a browser makes ahead of a visit.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::future::{Ready, ready};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use counter_core::visitor::VisitorKey;
use counter_core::visits::Agent;
use counter_core::{Counters, MemoryStore, Timestamp};
use counter_layer::{AccessCounterLayer, Facet, Identity, Rule, Rules};
use http::header::SET_COOKIE;
use http::{Request, Response, StatusCode};
use proptest::prelude::*;
use tower::{Layer, ServiceExt, service_fn};

use crate::support::{BOT, BROWSER, allocations, counted, fewest, name, precision};

#[tokio::test]
async fn a_bot_counts_everywhere_and_is_no_visitor() {
    let mut counters = counters();
    let layer = layer(&counters).rules(rules()).facets([Facet::Agent]);
    for agent in [BOT, "curl/8.5.0", "", BROWSER] {
        visit(&layer, "/articles/7", &[("user-agent", agent)]).await;
    }
    visit(&layer, "/articles/7", &[]).await;
    let expected = [("agent:bot", 4), ("agent:human", 1), ("articles", 5), ("hits", 5)];
    let expected: BTreeMap<_, _> = expected.map(|(counter, count)| (counter.to_owned(), count)).into();
    assert_eq!(counted(&mut counters).await, expected);
    assert_eq!([visitors(&counters, "hits").await, visitors(&counters, "articles").await], [1, 1]);
    let requests = counters.recorder().ledger().requests;
    assert_eq!((requests.observed, requests.recorded, requests.bots), (5, 5, 4));
}

#[tokio::test]
async fn a_bot_is_no_visitor_by_its_cookie_either() {
    let mut counters = counters();
    let identity = Identity::issued_cookie("visitor");
    let layer = layer(&counters).identity(identity).expect("a name of a cookie");
    let cookie = visit(&layer, "/", &[("user-agent", BROWSER)]).await.expect("a new visitor");
    let cookie = cookie.split(';').next().expect("a pair");
    let mut other = cookie.to_owned();
    other.replace_range(cookie.len() - 4.., "0000");
    assert_eq!(visit(&layer, "/", &[("user-agent", BOT), ("cookie", &other)]).await, None);
    assert_eq!(counted(&mut counters).await["hits"], 2);
    assert_eq!(visitors(&counters, "hits").await, 1);
}

#[tokio::test]
async fn bots_are_visitors_where_that_is_said() {
    let mut counters = counters();
    let by_address = layer(&counters).bots_are_visitors();
    for agent in [BOT, BOT, BROWSER] {
        visit(&by_address, "/", &[("user-agent", agent)]).await;
    }
    assert_eq!(counted(&mut counters).await["hits"], 3);
    assert_eq!(visitors(&counters, "hits").await, 2);
    assert_eq!(counters.recorder().ledger().requests.bots, 2);

    let identity = Identity::issued_cookie("visitor");
    let by_cookie = by_address.identity(identity).expect("a name of a cookie");
    assert!(visit(&by_cookie, "/", &[("user-agent", BOT)]).await.is_some());
}

#[tokio::test]
async fn a_closure_says_who_is_a_bot_and_is_asked_once_about_each_request_that_rules_leave() {
    let mut counters = counters();
    let asked = Arc::new(AtomicU64::new(0));
    let ask = Arc::clone(&asked);
    let layer = layer(&counters).rules(rules()).facets([Facet::Agent]).classify_agent(move |head| {
        ask.fetch_add(1, Ordering::SeqCst);
        if head.headers.contains_key("x-bot") { Agent::Bot } else { Agent::Human }
    });
    for path in ["/articles/7", "/healthz", "/nowhere"] {
        visit(&layer, path, &[("user-agent", BOT)]).await;
        visit(&layer, path, &[("user-agent", BROWSER), ("x-bot", "1")]).await;
    }
    assert_eq!(asked.load(Ordering::SeqCst), 2);
    let counted = counted(&mut counters).await;
    assert_eq!((counted["agent:bot"], counted["agent:human"]), (1, 1));
    assert_eq!(visitors(&counters, "hits").await, 1);
    assert_eq!(counters.recorder().ledger().requests.bots, 1);
}

#[tokio::test]
async fn a_prefetch_is_a_request_like_any_other_unless_a_rule_excludes_it() {
    let prefetch = [("user-agent", BROWSER), ("sec-purpose", "prefetch;prerender")];
    let (mut with, mut without) = (counters(), counters());
    let excluding = Rules::builder().exclude("/healthz").rule(articles()).exclude_prefetch();
    let excluding = layer(&with).rules(excluding.build().expect("one rule"));
    let plain = layer(&without).rules(rules());
    for layer in [&excluding, &plain] {
        for path in ["/articles/7", "/articles/8", "/healthz", "/nowhere"] {
            visit(layer, path, &prefetch).await;
        }
        visit(layer, "/articles/7", &[("user-agent", BROWSER)]).await;
    }
    for (counters, counts, visits) in [(&mut with, 2, 1), (&mut without, 0, 3)] {
        let requests = counters.recorder().ledger().requests;
        assert_eq!((requests.ignored.prefetch, requests.recorded), (counts, visits));
        assert_eq!((requests.excluded, requests.unmatched, requests.ignored.outcome), (1, 1, 0));
        assert_eq!(counted(counters).await["articles"], visits);
    }
}

#[test]
fn telling_bots_and_prefetches_apart_allocates_nothing() {
    let long = format!("{BROWSER}{}", "x".repeat(10_000));
    for agent in [BROWSER, BOT, &long, ""] {
        let counters = counters();
        let rules =
            Rules::builder().exclude_prefetch().default_counter("pages").build().expect("no patterns");
        let mut service = layer(&counters).rules(rules).layer(service_fn(|_| ok()));
        let mut visits = |n: u32| {
            let requests: Vec<_> = (0..n)
                .map(|n| {
                    let purpose = if n % 2 == 0 { "prefetch" } else { "a look" };
                    request("/", &[("user-agent", agent), ("sec-purpose", purpose)])
                })
                .collect();
            allocations(&mut service, requests)
        };
        visits(10);
        assert_eq!(fewest(|| visits(1000)), 0, "{agent}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]
    #[test]
    fn the_ledger_balances_whoever_asks_for_whatever_reason(
        visits in prop::collection::vec((0_usize..3, 0_usize..4, any::<bool>()), 0..40),
    ) {
        let mut counters = counters();
        let rules = Rules::builder().exclude("/healthz").rule(articles()).exclude_prefetch();
        let layer = layer(&counters).rules(rules.build().expect("two patterns"));
        let layer = layer.count_if(|outcome| outcome.is_success());
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        // Recorded, of bots, excluded, unmatched, ignored for a prefetch and for an outcome.
        let mut expected = [0_u64; 6];
        for (agent, path, prefetch) in &visits {
            let headers = [("user-agent", [BROWSER, BOT, ""][*agent]), ("sec-purpose", "prefetch")];
            let path = ["/articles/7", "/healthz", "/nowhere", "/articles/missing"][*path];
            runtime.block_on(visit(&layer, path, if *prefetch { &headers } else { &headers[..1] }));
            let place = match path {
                "/healthz" => 2,
                "/nowhere" => 3,
                _ if *prefetch => 4,
                "/articles/missing" => 5,
                _ => 0,
            };
            expected[place] += 1;
            expected[1] += u64::from(place == 0 && *agent > 0);
        }
        let check = |counters: &Counters| {
            let ledger = counters.recorder().ledger();
            prop_assert!(ledger.requests.balance() && ledger.hits.balance(), "{:?}", ledger);
            let requests = ledger.requests;
            prop_assert_eq!(requests.observed, visits.len() as u64);
            let ignored = requests.ignored;
            let made = [requests.recorded, requests.bots, requests.excluded, requests.unmatched];
            let seen = [&made[..], &[ignored.prefetch, ignored.outcome]].concat();
            prop_assert_eq!(&seen, &expected);
            Ok(())
        };
        check(&counters)?;
        runtime.block_on(counters.flush()).expect("memory takes all");
        check(&counters)?;
    }
}

type Answer = Result<Response<()>, Infallible>;

fn ok() -> Ready<Answer> {
    ready(Ok(Response::new(())))
}

fn counters() -> Counters {
    Counters::builder(MemoryStore::new()).build().expect("the defaults are fine")
}

fn layer(counters: &Counters) -> AccessCounterLayer {
    // Under this key the visitors here share no register.
    let identity = Identity::default().key(VisitorKey::new([7; 16]));
    AccessCounterLayer::new(counters.recorder()).identity(identity).expect("an address under a key")
}

fn articles() -> Rule {
    Rule::counter("articles").pattern("/articles/*")
}

fn rules() -> Rules {
    Rules::builder().exclude("/healthz").rule(articles()).build().expect("two patterns")
}

fn request(path: &str, headers: &[(&str, &str)]) -> Request<()> {
    let mut request = Request::get(path).extension(SocketAddr::from(([192, 0, 2, 1], 1000)));
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(()).expect("a request")
}

/// The cookie that the response sets.
async fn visit(layer: &AccessCounterLayer, path: &str, headers: &[(&str, &str)]) -> Option<String> {
    let service = layer.layer(service_fn(|request: Request<()>| {
        let mut response = Response::new(());
        if request.uri().path().ends_with("/missing") {
            *response.status_mut() = StatusCode::NOT_FOUND;
        }
        ready(Answer::Ok(response))
    }));
    let response = service.oneshot(request(path, headers)).await.expect("it answers");
    response.headers().get(SET_COOKIE).map(|cookie| cookie.to_str().expect("ASCII").to_owned())
}

/// As of the last flush.
async fn visitors(counters: &Counters, counter: &str) -> u64 {
    let range = Timestamp::now().minus(2 * 86_400)..Timestamp::now().plus(1);
    let uniques = counters.stats().uniques(&[name(counter)], precision(86_400), range).await;
    uniques.expect("memory can be read").visitors
}
