//! Scanner requests: paths that don't exist, and bytes that browsers don't send.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::process::Command;

use axum::Router;
use axum::body::Body;
use axum::extract::MatchedPath;
use axum::routing::{self, get};
use counter_core::visitor::VisitorKey;
use counter_core::{Counters, MemoryStore, Recorder, Timestamp};
use counter_layer::{AccessCounterLayer, Facet, Forwarded, Identity, Rule, Rules, RulesBuilder};
use http::{HeaderName, HeaderValue, Method, Request, Response, Uri};
use proptest::prelude::*;
use proptest::sample::select;
use tower::ServiceExt;

use crate::support::{counted, name, precision};

/// Maximum growth of the process, in KiB.
const MAX_GROWTH_KIB: u64 = 8 * 1024;

#[tokio::test]
async fn two_hundred_thousand_unknown_paths_add_no_counters_or_memory() {
    if !is_isolated("two_hundred_thousand_unknown_paths_add_no_counters_or_memory") {
        return;
    }
    let mut counters = counters();
    let recorder = counters.recorder();
    let layer = AccessCounterLayer::new(recorder.clone());
    let layer = layer.facets([Facet::Status, Facet::Method, Facet::Agent]);
    let site = Router::new().route("/articles/{id}", get(async || "an article")).layer(layer);
    scan(&mut counters, &site, 0..10_000).await;
    let (before, known) = (resident_kib(), counted(&mut counters).await.len());
    scan(&mut counters, &site, 10_000..210_000).await;
    let grown = resident_kib().saturating_sub(before);

    let expected =
        [("agent:bot", 210_000), ("hits", 210_000), ("method:GET", 210_000), ("status:4xx", 210_000)];
    assert_eq!(counted(&mut counters).await, owned(&expected));
    assert_eq!(known, expected.len());
    assert_balance(&recorder, 210_000);
    assert!(grown < MAX_GROWTH_KIB, "it grew by {grown} KiB");
}

#[tokio::test]
async fn a_million_names_over_the_limit_add_no_counters_or_memory() {
    if !is_isolated("a_million_names_over_the_limit_add_no_counters_or_memory") {
        return;
    }
    let mut counters = counters();
    let recorder = counters.recorder();
    let record = |n: u32| recorder.record(recorder.counter(&format!("/page/{n}")), None);
    (0..10_000).for_each(record);
    counters.flush().await.expect("memory takes all");
    let (before, known) = (resident_kib(), counters_known(&counters).await);
    (10_000..1_010_000).for_each(record);
    counters.flush().await.expect("memory takes all");
    let grown = resident_kib().saturating_sub(before);

    // The default limit, and `(other)`.
    assert_eq!((known, counters_known(&counters).await), (2001, 2001));
    assert_eq!(total(&counters, "(other)").await, 1_008_000);
    let ledger = recorder.ledger();
    assert_eq!((ledger.hits.recorded, ledger.hits.overflow), (1_010_000, 1_008_000));
    assert_balance(&recorder, 0);
    assert!(grown < MAX_GROWTH_KIB, "it grew by {grown} KiB");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]
    #[test]
    fn any_request_is_observed_once_and_counted_as_explained(
        builder in any_rules(),
        identity in any_identity(),
        requests in prop::collection::vec(any_request(), 1..16),
    ) {
        let rules = builder.build().expect("rules that stand together");
        let mut counters = counters();
        let layer = AccessCounterLayer::new(counters.recorder());
        let layer = layer.rules(rules.clone()).facets([Facet::Status, Facet::Method, Facet::Agent]);
        let site = site().layer(layer.identity(identity.key(VisitorKey::new([7; 16]))).expect("an identity that can be"));
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let [mut recorded, mut hits, mut excluded, mut unmatched] = [0_u64; 4];
        let mut pages = BTreeMap::new();
        for parts in &requests {
            let before = counters.recorder().ledger().requests.observed;
            let answer = runtime.block_on(site.clone().oneshot(parts.build())).expect("a router answers");
            prop_assert_eq!(counters.recorder().ledger().requests.observed, before + 1);
            let template = answer.extensions().get::<MatchedPath>().map(MatchedPath::as_str);
            let explained = rules.explain(&parts.method, parts.uri.path(), template);
            prop_assert!(!explained.to_string().is_empty());
            let decision = explained.decision;
            match decision.counter() {
                Some(counter) => {
                    let weight = u64::from(decision.weight().get());
                    recorded += 1;
                    hits += weight;
                    *pages.entry(counter.to_owned()).or_insert(0) += weight;
                }
                None if decision.is_excluded() => excluded += 1,
                None => unmatched += 1,
            }
        }
        let requests = counters.recorder().ledger().requests;
        prop_assert!(requests.balance(), "{:?}", requests);
        let seen = [requests.recorded, requests.excluded, requests.unmatched, requests.ignored.total()];
        prop_assert_eq!(seen, [recorded, excluded, unmatched, 0]);
        runtime.block_on(counters.flush()).expect("memory takes all");
        let counted = runtime.block_on(counted(&mut counters));
        for facet in ["status:", "method:", "agent:", "hits"] {
            let of_facet = counted.iter().filter(|(counter, _)| counter.starts_with(facet));
            prop_assert_eq!(of_facet.map(|(_, count)| count).sum::<u64>(), hits, "{}", facet);
        }
        let is_page = |counter: &str| counter != "hits" && !counter.contains(':');
        let counted: BTreeMap<_, _> = counted.into_iter().filter(|(counter, _)| is_page(counter)).collect();
        prop_assert_eq!(counted, pages);
    }
}

/// A request as data.
#[derive(Clone, Debug)]
struct RequestParts {
    method: Method,
    uri: Uri,
    headers: Vec<(HeaderName, HeaderValue)>,
}

impl RequestParts {
    fn build(&self) -> Request<Body> {
        let mut request = Request::new(Body::empty());
        *request.method_mut() = self.method.clone();
        *request.uri_mut() = self.uri.clone();
        for (header, value) in &self.headers {
            request.headers_mut().append(header, value.clone());
        }
        let peer = std::net::SocketAddr::from(([10, 0, 0, 1], 1000));
        request.extensions_mut().insert(peer);
        request
    }
}

fn any_request() -> impl Strategy<Value = RequestParts> {
    let header = select(vec!["x-forwarded-for", "forwarded", "cookie", "user-agent"]);
    let header = (header.prop_map(HeaderName::from_static), any_value());
    (any_method(), any_uri(), prop::collection::vec(header, 0..6))
        .prop_map(|(method, uri, headers)| RequestParts { method, uri, headers })
}

fn any_method() -> impl Strategy<Value = Method> {
    let known = select(vec![Method::GET, Method::HEAD, Method::POST, Method::OPTIONS, Method::CONNECT]);
    let token = "[!#$%&'*+.^_`|~0-9A-Za-z-]{1,20}";
    let unknown = token.prop_map(|token| Method::from_bytes(token.as_bytes()).expect("a token"));
    prop_oneof![3 => known, 1 => unknown]
}

fn any_uri() -> impl Strategy<Value = Uri> {
    let byte = prop_oneof![3 => select(b"/.;%*{}:ab261cC\xc3?".to_vec()), 1 => any::<u8>()];
    let path = prop::collection::vec(byte, 0..60).prop_map(|mut bytes| {
        bytes.retain(|byte| Uri::try_from([b'/', *byte].as_slice()).is_ok());
        [b"/".as_slice(), &bytes].concat()
    });
    let long = (path.clone(), 8000_usize..8400)
        .prop_map(|(path, length)| path.into_iter().cycle().take(length).collect::<Vec<_>>());
    let other = select(vec!["*", "example.org:80", "http://example.org", "http://example.org/a/b?c"]);
    let other = other.prop_map(|uri| uri.as_bytes().to_vec());
    prop_oneof![20 => path, 1 => long, 2 => other]
        .prop_filter_map("no URI", |bytes| Uri::try_from(bytes.as_slice()).ok())
}

fn any_value() -> impl Strategy<Value = HeaderValue> {
    let signs = b"for=\";\\,:[] 0123.af%".to_vec();
    let byte = prop_oneof![2 => select(signs), 1 => any::<u8>()];
    let bytes = prop::collection::vec(byte, 0..80);
    let text = select(vec!["192.0.2.1, 10.0.0.2", "for=\"[2001:db8::1]:4711\"", "visitor=a1; b", "a bot"]);
    prop_oneof![bytes, text.prop_map(|text| text.as_bytes().to_vec())].prop_filter_map(
        "no value",
        |mut bytes| {
            bytes.retain(|byte| HeaderValue::from_bytes(&[*byte]).is_ok());
            HeaderValue::from_bytes(&bytes).ok()
        },
    )
}

fn any_identity() -> impl Strategy<Value = Identity> {
    let forwarded = select(vec![Forwarded::X_FORWARDED_FOR, Forwarded::RFC7239]);
    (forwarded, 0_usize..4, 0_u8..6).prop_map(|(forwarded, hops, kind)| match kind {
        0 => Identity::peer().into(),
        1 => Identity::cookie("visitor"),
        2 => Identity::header(http::header::USER_AGENT),
        3 => {
            let networks = ["10.0.0.0/8", "192.0.2.0/24"].map(|text| text.parse().expect("a network"));
            Identity::forwarded(forwarded).trusted_networks(networks).into()
        }
        _ => Identity::forwarded(forwarded).trusted_hops(hops).into(),
    })
}

/// Generates random rules, and drops those that conflict with earlier rules.
fn any_rules() -> impl Strategy<Value = RulesBuilder> {
    let like_a_path = "(/(a|b|\\{x\\}|\\{y\\}|a\\{z\\}|%61|\\.\\.|c;d|é|\\{\\*r\\}|\\*)?){0,4}";
    let pattern =
        prop_oneof![4 => like_a_path, 1 => "\\*\\.(a|b|1)", 1 => "\\PC{0,12}", 1 => Just("/*".to_owned())];
    let rule = (pattern, prop::option::of(any_method()), 1_u32..100, any::<bool>(), 0_u8..8);
    let rules = prop::collection::vec(rule, 0..10);
    (rules, any::<bool>(), any::<bool>()).prop_map(|(rules, by_matched_path, otherwise)| {
        let mut builder = Rules::builder();
        for (number, (pattern, method, weight, visitors, kind)) in rules.into_iter().enumerate() {
            let rule = Rule::counter(format!("rule {}", number % 5)).pattern(pattern.clone());
            let rule = method.into_iter().fold(rule, Rule::method);
            let rule = rule.weight(NonZeroU32::new(weight).expect("not 0"));
            let more = match (kind, visitors) {
                (0, _) => builder.clone().exclude(pattern),
                (_, true) => builder.clone().rule(rule),
                (_, false) => builder.clone().rule(rule.without_visitors()),
            };
            if more.clone().build().is_ok() {
                builder = more;
            }
        }
        let builder = if by_matched_path { builder.by_matched_path() } else { builder };
        if otherwise { builder.default_counter("rest") } else { builder }
    })
}

/// Returns the matched template in the response.
async fn matched(request: Request<Body>) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    if let Some(template) = request.extensions().get::<MatchedPath>() {
        response.extensions_mut().insert(template.clone());
    }
    response
}

fn site() -> Router {
    let site =
        Router::new().route("/a/{id}", routing::any(matched)).route("/b/{*rest}", routing::any(matched));
    site.route("/", routing::any(matched)).fallback(matched)
}

fn counters() -> Counters {
    Counters::builder(MemoryStore::new()).build().expect("the defaults are fine")
}

/// Requests a new path for each number, and flushes now and then like a server.
async fn scan(counters: &mut Counters, site: &Router, paths: std::ops::Range<u32>) {
    for n in paths {
        let request = Request::get(format!("/{n:x}/wp-login.php")).body(Body::empty()).expect("a path");
        let response = site.clone().oneshot(request).await.expect("a router answers");
        assert_eq!(response.status(), http::StatusCode::NOT_FOUND);
        if n % 10_000 == 9_999 {
            counters.flush().await.expect("memory takes all");
        }
    }
}

/// Returns whether this process runs only this test. We need this because memory can only be measured for a
/// process as a whole. Otherwise this starts such a process, and checks that the test passes.
fn is_isolated(test: &str) -> bool {
    const ISOLATED_ENV: &str = "COUNTER_TEST_ALONE";
    if std::env::var_os(ISOLATED_ENV).is_some() {
        return true;
    }
    let suite = std::env::current_exe().expect("this is a program");
    let (_, module) = module_path!().split_once("::").expect("a module of the suite");
    let test = format!("{module}::{test}");
    let output =
        Command::new(suite).args(["--exact", &test]).env(ISOLATED_ENV, "1").output().expect("it starts");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
    false
}

/// Returns the resident memory of this process, or 0 if it is unknown.
fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.trim().strip_suffix(" kB")?.parse().ok()).unwrap_or(0)
}

#[track_caller]
fn assert_balance(recorder: &Recorder, requests: u64) {
    let ledger = recorder.ledger();
    assert!(ledger.requests.balance() && ledger.hits.balance(), "{ledger:?}");
    assert_eq!((ledger.requests.observed, ledger.requests.recorded), (requests, requests));
    assert_eq!(ledger.hits.applied, ledger.hits.recorded);
}

async fn counters_known(counters: &Counters) -> usize {
    let (stats, mut number, mut after) = (counters.stats(), 0, None);
    loop {
        let page = stats.list_counters(after.as_ref(), 1000).await.expect("memory can be read");
        number += page.counters.len();
        let Some(last) = page.next else { return number };
        after = Some(last);
    }
}

async fn total(counters: &Counters, counter: &str) -> u64 {
    let now = Timestamp::now();
    let range = now.minus(2 * 86_400)..now.plus(1);
    let total = counters.stats().total(&name(counter), precision(86_400), range).await;
    total.expect("memory can be read")
}

fn owned(counts: &[(&str, u64)]) -> BTreeMap<String, u64> {
    counts.iter().map(|(counter, count)| ((*counter).to_owned(), *count)).collect()
}
