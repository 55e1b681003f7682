//! The rate limit layer: allowed and rejected requests, headers, and store failures.

mod acquiring;
mod sliding;
mod store;

use std::convert::Infallible;
use std::future::ready;
use std::net::SocketAddr;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::routing::get;
use counter_core::visitor::VisitorKey;
use counter_core::window::{Dimensions, Window, WindowCounters, WindowStore};
use counter_core::{Counters, MemoryStore, Recorder, Secret, Timestamp};
use counter_layer::{
    AccessCounterLayer, Facet, Forwarded, Identity, LimitKey, OnStoreError, Rejection, WindowLimitLayer,
};
use http::{HeaderMap, Request, Response, StatusCode};
use tests::RedisServer;
use tokio::task::JoinSet;
use tower::{Layer, Service, ServiceExt, service_fn};

use crate::support::{BROWSER, counted, store};
use acquiring::unresponsive;

const LIMIT: Duration = tests::LIMIT;

/// Returns the response headers written by the layer.
fn limit_headers(headers: &HeaderMap) -> Vec<(&str, &str)> {
    ["ratelimit", "ratelimit-policy", "retry-after"]
        .iter()
        .flat_map(|name| headers.get_all(*name).iter().map(|value| (*name, value.to_str().expect("ASCII"))))
        .collect()
}

/// Creates windows of an hour. The current window ends half an hour from now.
fn hours(store: impl WindowStore + Clone) -> WindowCounters {
    let offset = u32::try_from(Timestamp::now().minus(1800).as_unix() % 3600).expect("less than an hour");
    WindowCounters::new(store, Window::HOUR.starting_at(offset).expect("less"))
}

/// Checks the number of seconds until the end of a window of `hours`, as reported by a header.
#[track_caller]
fn assert_half_an_hour(seconds: &str) {
    let seconds: u64 = seconds.parse().expect("seconds");
    assert!((1700..=1800).contains(&seconds), "{seconds}");
}

fn shared_key() -> LimitKey {
    LimitKey::from_fn(|_| Some(Dimensions::new()))
}

fn request(path: &str) -> Request<Body> {
    Request::get(path).body(Body::empty()).expect("a request")
}

#[tokio::test]
async fn an_axum_site_reports_the_remaining_quota_and_rejects_excess_requests() {
    let limit = WindowLimitLayer::new(hours(MemoryStore::new()), 2, shared_key(), OnStoreError::Allow);
    let site: Router = Router::new().route("/", get(async || "home")).layer(limit);
    for (status, left, body) in
        [(StatusCode::OK, 1, "home"), (StatusCode::OK, 0, "home"), (StatusCode::TOO_MANY_REQUESTS, 0, "")]
    {
        let response = site.clone().oneshot(request("/")).await.expect("it answers");
        assert_eq!(response.status(), status);
        let (head, answer) = response.into_parts();
        let limit_headers = limit_headers(&head.headers);
        let seconds =
            limit_headers[0].1.strip_prefix(&format!("\"default\";r={left};t=")).expect("what is left");
        assert_half_an_hour(seconds);
        assert_eq!(limit_headers[1], ("ratelimit-policy", "\"default\";q=2;w=3600"));
        let rejected = status == StatusCode::TOO_MANY_REQUESTS;
        assert_eq!(limit_headers.get(2), rejected.then_some(&("retry-after", seconds)));
        let answer = http_body_util::BodyExt::collect(answer).await.expect("a body").to_bytes();
        assert_eq!(answer, body);
    }
}

#[tokio::test]
async fn a_plain_service_is_limited_per_key_and_not_limited_without_a_key() {
    let key = LimitKey::from_fn(|head| {
        let app = head.headers.get("x-app")?;
        Some(Dimensions::new().text("app", app.to_str().unwrap_or_default()))
    });
    let limit = WindowLimitLayer::new(hours(MemoryStore::new()), 1, key, OnStoreError::Deny);
    let service =
        limit.layer(service_fn(async |_: Request<u8>| Ok::<_, Infallible>(Response::new(vec![7_u8]))));
    let answer = async |app: Option<&str>| {
        let mut request = Request::new(0);
        if let Some(app) = app {
            request.headers_mut().insert("x-app", app.parse().expect("a value"));
        }
        let response = service.clone().oneshot(request).await.expect("it answers");
        (response.status().as_u16(), response.headers().len(), response.into_body())
    };
    assert_eq!(answer(Some("a")).await, (200, 2, vec![7]));
    assert_eq!(answer(Some("a")).await, (429, 3, vec![]));
    assert_eq!(answer(Some("b")).await, (200, 2, vec![7]));
    for _ in 0..3 {
        assert_eq!(answer(None).await, (200, 0, vec![7]));
    }
}

#[tokio::test]
async fn a_service_error_passes_unchanged() {
    #[derive(Debug, PartialEq)]
    struct Failure(&'static str);

    let limit = WindowLimitLayer::new(hours(MemoryStore::new()), 1, shared_key(), OnStoreError::Allow);
    let failing = service_fn(async |_: Request<()>| Err::<Response<()>, _>(Failure("its own")));
    let service = limit.layer(failing);
    assert_eq!(service.clone().oneshot(Request::new(())).await.expect_err("it fails"), Failure("its own"));
    let rejected = service.oneshot(Request::new(())).await.expect("an answer");
    assert_eq!(rejected.status(), StatusCode::TOO_MANY_REQUESTS);
}

/// A service that panics if it is called, but was not polled to be ready.
#[derive(Debug, Default)]
struct ReadyCheck(bool);

impl Clone for ReadyCheck {
    fn clone(&self) -> Self {
        Self(false)
    }
}

impl Service<Request<()>> for ReadyCheck {
    type Response = Response<()>;
    type Error = Infallible;
    type Future = std::future::Ready<Result<Response<()>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.0 = true;
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<()>) -> Self::Future {
        assert!(std::mem::take(&mut self.0), "called without `poll_ready`");
        std::future::ready(Ok(Response::new(())))
    }
}

#[tokio::test]
async fn the_called_service_is_the_same_that_was_polled_ready() {
    let limit = WindowLimitLayer::new(hours(MemoryStore::new()), 9, shared_key(), OnStoreError::Allow);
    let mut service = limit.layer(ReadyCheck::default());
    for _ in 0..3 {
        let answer = service.ready().await.expect("ready").call(Request::new(())).await;
        assert_eq!(answer.expect("it answers").status(), StatusCode::OK);
    }
}

#[tokio::test]
async fn named_limits_count_separately_and_both_are_reported() {
    let hours = hours(MemoryStore::new());
    let limit = |limit, name| {
        let layer = WindowLimitLayer::new(hours.clone(), limit, shared_key(), OnStoreError::Allow);
        layer.policy(name).expect("a name")
    };
    let site: Router =
        Router::new().route("/", get(async || "home")).layer(limit(1, "inner")).layer(limit(3, "outer"));
    for (status, outer, inner) in [(200, 2, 0), (429, 1, 0), (429, 0, 0)] {
        let response = site.clone().oneshot(request("/")).await.expect("it answers");
        assert_eq!(response.status().as_u16(), status);
        let limit_headers = limit_headers(response.headers());
        assert!(limit_headers[0].1.starts_with(&format!("\"inner\";r={inner};t=")), "{limit_headers:?}");
        assert!(limit_headers[1].1.starts_with(&format!("\"outer\";r={outer};t=")), "{limit_headers:?}");
        assert_eq!(
            (limit_headers[2].1, limit_headers[3].1),
            ("\"inner\";q=1;w=3600", "\"outer\";q=3;w=3600")
        );
    }
    let response = site.oneshot(request("/")).await.expect("it answers");
    let limit_headers = limit_headers(response.headers());
    assert!(
        limit_headers.len() == 3 && limit_headers[0].1.starts_with("\"outer\";r=0;t="),
        "{limit_headers:?}"
    );
}

#[tokio::test]
async fn visitors_have_separate_limits_and_unidentified_clients_share_a_limit() {
    let counters = Counters::builder(MemoryStore::new()).build().expect("the defaults are fine");
    let recorder = counters.recorder();
    let own = |identity: Identity| LimitKey::identity(identity.key(VisitorKey::new([1; 16])), &recorder);
    let statuses = async |key: LimitKey, requests: &[(&str, &str)]| {
        let limit = WindowLimitLayer::new(hours(MemoryStore::new()), 1, key, OnStoreError::Allow);
        let service = limit.layer(service_fn(async |_: Request<()>| Ok::<_, Infallible>(Response::new(()))));
        let mut statuses = Vec::new();
        for (address, cookie) in requests {
            let mut request = Request::new(());
            if !address.is_empty() {
                let address = SocketAddr::new(address.parse().expect("an address"), 1000);
                request.extensions_mut().insert(address);
            }
            if !cookie.is_empty() {
                request.headers_mut().insert("cookie", cookie.parse().expect("a value"));
            }
            let response = service.clone().oneshot(request).await.expect("it answers");
            assert!(!response.headers().contains_key("set-cookie"));
            statuses.push(response.status().as_u16());
        }
        statuses
    };
    let address = own(Identity::peer().into()).expect("an identity");
    let one = ("192.0.2.1", "");
    let requests = [one, one, ("192.0.2.2", ""), ("", ""), ("", "")];
    assert_eq!(statuses(address, &requests).await, [200, 429, 200, 200, 429]);
    let cookie = own(Identity::cookie("account")).expect("an identity");
    let requests = [("", "account=a"), ("", "account=a"), ("", "account=b"), one, ("192.0.2.2", "")];
    assert_eq!(statuses(cookie, &requests).await, [200, 429, 200, 200, 429]);
    let issued = own(Identity::issued_cookie("visitor").into()).expect("an identity");
    assert_eq!(statuses(issued, &[one, one]).await, [200, 429]);
}

#[tokio::test]
async fn exactly_the_limit_passes_across_four_instances() {
    let server = RedisServer::start();
    let offset = hours(MemoryStore::new()).window();
    let mut clients = JoinSet::new();
    for _ in 0..4 {
        let hours = WindowCounters::new(store(&server.url()).await, offset);
        let limit = WindowLimitLayer::new(hours, 100, shared_key(), OnStoreError::Deny).timeout(LIMIT);
        let site: Router = Router::new().route("/", get(async || "home")).layer(limit);
        for _ in 0..16 {
            let site = site.clone();
            clients.spawn(async move {
                let mut statuses = Vec::new();
                for _ in 0..5 {
                    statuses.push(
                        site.clone().oneshot(request("/")).await.expect("it answers").status().as_u16(),
                    );
                }
                statuses
            });
        }
    }
    let statuses = clients.join_all().await.concat();
    let of = |status| statuses.iter().filter(|one| **one == status).count();
    assert_eq!((of(200), of(429)), (100, 220));
}

#[tokio::test]
async fn rejections_of_an_inner_limit_are_counted() {
    let mut counters = Counters::builder(MemoryStore::new()).build().expect("the defaults are fine");
    let limit = WindowLimitLayer::new(hours(MemoryStore::new()), 2, shared_key(), OnStoreError::Allow);
    let counting = AccessCounterLayer::new(counters.recorder()).facets([Facet::Status]);
    let site: Router = Router::new().route("/", get(async || "home")).layer(limit).layer(counting);
    for _ in 0..5 {
        site.clone().oneshot(request("/")).await.expect("it answers");
    }
    let counted = counted(&mut counters).await;
    assert_eq!((counted["status:2xx"], counted["status:4xx"], counted["hits"]), (2, 3, 5));
}

/// Returns the response statuses of requests with these addresses and cookies.
async fn statuses(limit: &WindowLimitLayer, requests: &[(&str, &str)]) -> Vec<u16> {
    let service = limit.layer(service_fn(async |_: Request<()>| Ok::<_, Infallible>(Response::new(()))));
    let mut statuses = Vec::new();
    for (address, cookie) in requests {
        let mut request = Request::new(());
        if !address.is_empty() {
            request.extensions_mut().insert(SocketAddr::new(address.parse().expect("an address"), 1000));
        }
        request.headers_mut().insert("cookie", cookie.parse().expect("a value"));
        statuses.push(service.clone().oneshot(request).await.expect("it answers").status().as_u16());
    }
    statuses
}

fn by_address(secret: &Secret) -> LimitKey {
    LimitKey::identity(Identity::peer(), secret).expect("an identity")
}

#[tokio::test]
async fn clients_with_the_same_address_share_a_limit_across_user_agents() {
    let secret = Secret::process_local();
    let forwarded = Identity::forwarded(Forwarded::X_FORWARDED_FOR).trusted_hops(1);
    for identity in [Identity::peer(), forwarded] {
        let key = LimitKey::identity(identity, &secret).expect("an identity");
        let limit = WindowLimitLayer::new(hours(MemoryStore::new()), 1, key, OnStoreError::Deny);
        let service = limit.layer(service_fn(async |_: Request<()>| Ok::<_, Infallible>(Response::new(()))));
        for (user_agent, status) in [("one", 200), ("one", 429), ("another", 429)] {
            let request = Request::builder().header("user-agent", user_agent);
            let mut request = request.header("x-forwarded-for", "192.0.2.1").body(()).expect("a request");
            request.extensions_mut().insert(SocketAddr::from(([192, 0, 2, 1], 1000)));
            let response = service.clone().oneshot(request).await.expect("it answers");
            assert_eq!(response.status(), status, "{user_agent}");
        }
    }
}

#[tokio::test]
async fn dimension_names_are_not_reserved() {
    let key = LimitKey::from_fn(|head| Some(Dimensions::new().text("limit", head.uri.path())));
    let limit = WindowLimitLayer::new(hours(MemoryStore::new()), 1, key, OnStoreError::Deny);
    let site: Router = Router::new().fallback(async || "here").layer(limit);
    for (path, status) in [("/one", 200), ("/other", 200), ("/one", 429)] {
        assert_eq!(site.clone().oneshot(request(path)).await.expect("it answers").status(), status);
    }
}

#[tokio::test]
async fn an_id_made_up_by_the_client_is_ignored() {
    let secret = Secret::from_bytes([1; 16]);
    let counters = Counters::builder(MemoryStore::new()).secret(&secret).build().expect("as by default");
    let of = |recorder: &Recorder| {
        let key = LimitKey::identity(Identity::issued_cookie("visitor"), recorder).expect("a name");
        WindowLimitLayer::new(hours(MemoryStore::new()), 2, key, OnStoreError::Deny)
    };
    let limit = of(&counters.recorder());
    let made_up: Vec<_> = (0..10).map(|n| format!("visitor={n:032x}.{n:032x}")).collect();
    let made_up: Vec<_> = made_up.iter().map(|cookie| ("", &**cookie)).collect();
    assert_eq!(statuses(&limit, &made_up).await.iter().filter(|status| **status == 200).count(), 2);
    // Visitors with an issued cookie have separate limits on all instances that share the secret.
    let layer = AccessCounterLayer::new(counters.recorder()).identity(Identity::issued_cookie("visitor"));
    let layer = layer.expect("a name");
    let issued = async || {
        let service = layer.layer(service_fn(async |_: Request<()>| Ok::<_, Infallible>(Response::new(()))));
        let request = Request::builder().header("user-agent", BROWSER).body(()).expect("a request");
        let response = service.oneshot(request).await.expect("it answers");
        let cookie = response.headers()["set-cookie"].to_str().expect("ASCII").to_owned();
        cookie.split(';').next().expect("a pair").to_owned()
    };
    let (one, other) = (issued().await, issued().await);
    let requests = [("", &*one), ("", &*one), ("", &*one), ("", &*other)];
    assert_eq!(statuses(&limit, &requests).await, [200, 200, 429, 200]);
    let changed = one.replace("visitor=", "visitor=0");
    assert_eq!(statuses(&limit, &[("", &changed[..one.len()])]).await, [429]);
    // Without a secret, cookies aren't signed, so a client can make up any id.
    let without = Counters::builder(MemoryStore::new()).build().expect("the defaults are fine");
    let made_up: Vec<_> = (0..10).map(|n| format!("visitor={n:032x}")).collect();
    let made_up: Vec<_> = made_up.iter().map(|cookie| ("", &**cookie)).collect();
    let passed = statuses(&of(&without.recorder()), &made_up).await;
    assert_eq!(passed.iter().filter(|status| **status == 200).count(), 2);
}

#[tokio::test]
async fn ipv6_addresses_are_limited_by_a_56_bit_prefix_by_default() {
    let limit = |identity: counter_layer::Address| {
        let key = LimitKey::identity(identity, Secret::process_local()).expect("an identity");
        WindowLimitLayer::new(hours(MemoryStore::new()), 1, key, OnStoreError::Deny)
    };
    let requests =
        [("2001:db8::1", ""), ("2001:db8:0:ff::1", ""), ("2001:db8:0:100::1", ""), ("2001:db9::1", "")];
    for (identity, expected) in [
        (Identity::peer(), [200, 429, 200, 200]),
        (Identity::peer().ipv6_prefix(64), [200, 200, 200, 200]),
        (Identity::peer().ipv6_prefix(48), [200, 429, 429, 200]),
    ] {
        assert_eq!(statuses(&limit(identity), &requests).await, expected);
    }
}

#[tokio::test]
async fn instances_with_a_shared_secret_share_limits_regardless_of_salts() {
    let server = RedisServer::start();
    let secret = Secret::from_bytes([1; 16]);
    let window = hours(MemoryStore::new()).window();
    let mut limits = Vec::new();
    for _ in 0..3 {
        let store = store(&server.url()).await;
        let mut counters = Counters::builder(store.clone()).secret(&secret).build().expect("as by default");
        let _salt = counters.recorder().salt().expect("days are fine");
        counters.flush().await.expect("the server is there");
        let key = LimitKey::identity(Identity::peer(), &counters.recorder());
        limits.push(WindowLimitLayer::new(
            WindowCounters::new(store, window),
            5,
            key.expect("an identity"),
            OnStoreError::Deny,
        ));
        for (salt, poison) in
            server.strings(&["KEYS", "access:salt:*"]).iter().zip(["del", "set"].iter().cycle())
        {
            server.command(&["DEL", salt]);
            if *poison == "set" {
                server.command(&["SADD", salt, "of a wrong type"]);
            }
        }
    }
    let mut passed = 0;
    for limit in limits.iter().map(|limit| limit.clone().timeout(LIMIT)) {
        let requests = [("192.0.2.1", ""); 5];
        passed += statuses(&limit, &requests).await.iter().filter(|status| **status == 200).count();
    }
    assert_eq!(passed, 5);
}

#[tokio::test]
async fn redis_does_not_reveal_limited_addresses() {
    let server = RedisServer::start();
    let store = store(&server.url()).await;
    let mut counters = Counters::builder(store.clone()).build().expect("the defaults are fine");
    let _salts = (counters.recorder().salt().expect("days are fine"), counters.recorder().stable_salt());
    counters.flush().await.expect("the server is there");
    let address = "198.51.100.77";
    for secret in [Secret::from_bytes([1; 16]), counters.recorder().secret().clone()] {
        let limit = WindowLimitLayer::new(hours(store.clone()), 10, by_address(&secret), OnStoreError::Deny);
        assert_eq!(statuses(&limit.timeout(LIMIT), &[(address, "")]).await, [200]);
    }
    let windows = server.strings(&["KEYS", "access:window:*"]);
    assert_eq!(windows.len(), 2, "{windows:?}");
    let mut visitor = [0; 24];
    let bits = address.parse::<std::net::Ipv4Addr>().expect("an address").to_ipv6_mapped().to_bits();
    visitor[..16].copy_from_slice(&bits.to_le_bytes());
    let salts = server.strings(&["KEYS", "access:salt:*"]);
    assert!(salts.len() >= 2, "{salts:?}");
    for salt in salts {
        let salt = server.bytes(&["GET", &salt]).expect("a salt").try_into().expect("16 bytes");
        let id = VisitorKey::new(salt).visitor(&[&visitor]);
        for window in &windows {
            // The salted id, and the id derived from it for this window.
            let (_, start) = window.rsplit_once(':').expect("a start");
            let start: u64 = start.parse().expect("a start");
            let parts: [&[u8]; 2] = [&3600_u32.to_le_bytes(), &start.to_le_bytes()];
            for id in [id, VisitorKey::new(*id.as_bytes()).visitor(&parts)] {
                let id = format!("{:032x}", u128::from_be_bytes(*id.as_bytes()));
                assert!(!window.contains(&id), "{window}");
            }
        }
    }
}

#[tokio::test]
async fn a_rejection_has_problem_details_if_configured() {
    let hours = hours(MemoryStore::new());
    let limit = WindowLimitLayer::new(hours, 0, shared_key(), OnStoreError::Allow);
    let limit = limit.policy("a \"b\"").expect("a name").problem_details();
    let site: Router = Router::new().fallback(async || "here").layer(limit);
    let rejected = site.oneshot(request("/")).await.expect("it answers");
    assert_eq!(
        (rejected.status().as_u16(), rejected.headers()["content-type"].as_bytes()),
        (429, &b"application/problem+json"[..])
    );
    assert!(rejected.headers().contains_key("retry-after") && rejected.headers().contains_key("ratelimit"));
    let body = http_body_util::BodyExt::collect(rejected.into_body()).await.expect("a body").to_bytes();
    let problem: serde_json::Value = serde_json::from_slice(&body).expect("JSON");
    assert_eq!(problem["type"], "https://iana.org/assignments/http-problem-types#quota-exceeded");
    assert_eq!(problem["violated-policies"], serde_json::json!(["a \"b\""]));
    assert_eq!(problem["status"], 429);

    let limit = WindowLimitLayer::new(self::hours(unresponsive()), 1, shared_key(), OnStoreError::Deny);
    let limit = limit.timeout(Duration::from_millis(5)).problem_details();
    let site: Router = Router::new().fallback(async || "here").layer(limit);
    let unavailable = site.oneshot(request("/")).await.expect("it answers");
    assert_eq!(
        (unavailable.status().as_u16(), &unavailable.headers()["retry-after"]),
        (503, &http::HeaderValue::from(2))
    );
    let body = http_body_util::BodyExt::collect(unavailable.into_body()).await.expect("a body").to_bytes();
    let problem: serde_json::Value = serde_json::from_slice(&body).expect("JSON");
    assert_eq!(problem["type"], "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity");
}

/// A body type with no `Default`.
#[derive(Debug, PartialEq)]
enum Page {
    Article,
    Rejected(String),
    Away,
}

#[derive(Clone)]
struct CustomRejection;

impl Rejection<Page> for CustomRejection {
    fn limited(&self, policy: &str) -> Response<Page> {
        Response::builder().status(429).body(Page::Rejected(policy.to_owned())).expect("a response")
    }

    fn unavailable(&self) -> Response<Page> {
        Response::builder().status(503).body(Page::Away).expect("a response")
    }
}

#[tokio::test]
async fn a_body_without_default_can_have_custom_rejections() {
    let article = service_fn(|_: Request<()>| ready(Ok::<_, Infallible>(Response::new(Page::Article))));
    let visit = async |limit: &WindowLimitLayer<CustomRejection>| {
        let request = Request::get("/").body(()).expect("a request");
        limit.layer(article).oneshot(request).await.expect("it answers")
    };
    let limit = WindowLimitLayer::new(hours(MemoryStore::new()), 1, shared_key(), OnStoreError::Allow);
    let limit = limit.rejection(CustomRejection).policy("pages").expect("a name");
    assert_eq!(visit(&limit).await.into_body(), Page::Article);
    let rejected = visit(&limit).await;
    assert!(rejected.headers().contains_key("retry-after") && rejected.headers().contains_key("ratelimit"));
    assert_eq!(rejected.into_body(), Page::Rejected("pages".to_owned()));

    let limit = WindowLimitLayer::new(hours(unresponsive()), 1, shared_key(), OnStoreError::Deny);
    let limit = limit.timeout(Duration::from_millis(5)).rejection(CustomRejection);
    assert_eq!(visit(&limit).await.into_body(), Page::Away);
}
