//! The layer that limits: what passes, what is answered, and what happens without its store.

use std::convert::Infallible;
use std::future::pending;
use std::net::SocketAddr;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::routing::get;
use counter_core::{
    Addition, Counters, Dimensions, Error, MemoryStore, Timestamp, VisitorId, VisitorKey, Window,
    WindowCounters, WindowKey, WindowStore,
};
use counter_layer::{AccessCounterLayer, Facet, Identity, LimitKey, StoreAway, WindowLimitLayer};
use http::{HeaderMap, Request, Response, StatusCode};
use tests::{RedisServer, until};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tower::{Layer, Service, ServiceExt, service_fn};

use crate::support::{counted, store};

const LIMIT: Duration = tests::LIMIT;

/// The headers of a response that this layer writes.
fn told(headers: &HeaderMap) -> Vec<(&str, &str)> {
    ["ratelimit", "ratelimit-policy", "retry-after"]
        .iter()
        .flat_map(|name| headers.get_all(*name).iter().map(|value| (*name, value.to_str().expect("ASCII"))))
        .collect()
}

/// Windows that have still half an hour to go when a test begins.
fn hours<S: WindowStore>(store: S) -> WindowCounters<S> {
    let offset = u32::try_from(Timestamp::now().minus(1800).as_unix() % 3600).expect("less than an hour");
    WindowCounters::new(store, Window::HOUR.beginning_at(offset).expect("less"))
}

/// The seconds that are left of the window of `hours`, as a header tells them.
#[track_caller]
fn assert_half_an_hour(seconds: &str) {
    let seconds: u64 = seconds.parse().expect("seconds");
    assert!((1700..=1800).contains(&seconds), "{seconds}");
}

fn everybody() -> LimitKey {
    LimitKey::by(|_| Some(Dimensions::new()))
}

fn request(path: &str) -> Request<Body> {
    Request::get(path).body(Body::empty()).expect("a request")
}

#[tokio::test]
async fn a_site_on_axum_tells_what_is_left_and_refuses_what_is_beyond() {
    let limit = WindowLimitLayer::new(hours(MemoryStore::new()), 2, everybody(), StoreAway::Open);
    let site: Router = Router::new().route("/", get(async || "home")).layer(limit);
    for (status, left, body) in
        [(StatusCode::OK, 1, "home"), (StatusCode::OK, 0, "home"), (StatusCode::TOO_MANY_REQUESTS, 0, "")]
    {
        let response = site.clone().oneshot(request("/")).await.expect("it answers");
        assert_eq!(response.status(), status);
        let (head, answer) = response.into_parts();
        let told = told(&head.headers);
        let seconds = told[0].1.strip_prefix(&format!("\"default\";r={left};t=")).expect("what is left");
        assert_half_an_hour(seconds);
        assert_eq!(told[1], ("ratelimit-policy", "\"default\";q=2;w=3600"));
        let refused = status == StatusCode::TOO_MANY_REQUESTS;
        assert_eq!(told.get(2), refused.then_some(&("retry-after", seconds)));
        let answer = http_body_util::BodyExt::collect(answer).await.expect("a body").to_bytes();
        assert_eq!(answer, body);
    }
}

#[tokio::test]
async fn a_plain_service_with_any_body_is_limited_by_each_key_and_without_one_not_at_all() {
    let key = LimitKey::by(|head| {
        let app = head.headers.get("x-app")?;
        Some(Dimensions::new().text("app", app.to_str().unwrap_or_default()))
    });
    let limit = WindowLimitLayer::new(hours(MemoryStore::new()), 1, key, StoreAway::Closed);
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
async fn the_error_of_a_service_passes_unchanged() {
    #[derive(Debug, PartialEq)]
    struct Failure(&'static str);

    let limit = WindowLimitLayer::new(hours(MemoryStore::new()), 1, everybody(), StoreAway::Open);
    let failing = service_fn(async |_: Request<()>| Err::<Response<()>, _>(Failure("its own")));
    let service = limit.layer(failing);
    assert_eq!(service.clone().oneshot(Request::new(())).await.expect_err("it fails"), Failure("its own"));
    let refused = service.oneshot(Request::new(())).await.expect("an answer");
    assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
}

/// A service that answers only when it has been asked whether it is ready, as `Service` wants it.
#[derive(Debug, Default)]
struct Asked(bool);

impl Clone for Asked {
    fn clone(&self) -> Self {
        Self(false)
    }
}

impl Service<Request<()>> for Asked {
    type Response = Response<()>;
    type Error = Infallible;
    type Future = std::future::Ready<Result<Response<()>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.0 = true;
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<()>) -> Self::Future {
        assert!(std::mem::take(&mut self.0), "not asked whether it is ready");
        std::future::ready(Ok(Response::new(())))
    }
}

#[tokio::test]
async fn the_service_that_is_called_is_the_one_that_said_it_is_ready() {
    let limit = WindowLimitLayer::new(hours(MemoryStore::new()), 9, everybody(), StoreAway::Open);
    let mut service = limit.layer(Asked::default());
    for _ in 0..3 {
        let answer = service.ready().await.expect("ready").call(Request::new(())).await;
        assert_eq!(answer.expect("it answers").status(), StatusCode::OK);
    }
}

#[tokio::test]
async fn limits_of_different_names_count_apart_and_tell_of_both() {
    let hours = hours(MemoryStore::new());
    let limit = |limit, name| {
        let layer = WindowLimitLayer::new(hours.clone(), limit, everybody(), StoreAway::Open);
        layer.policy(name).expect("a name")
    };
    let site: Router =
        Router::new().route("/", get(async || "home")).layer(limit(1, "inner")).layer(limit(3, "outer"));
    for (status, outer, inner) in [(200, 2, 0), (429, 1, 0), (429, 0, 0)] {
        let response = site.clone().oneshot(request("/")).await.expect("it answers");
        assert_eq!(response.status().as_u16(), status);
        let told = told(response.headers());
        assert!(told[0].1.starts_with(&format!("\"inner\";r={inner};t=")), "{told:?}");
        assert!(told[1].1.starts_with(&format!("\"outer\";r={outer};t=")), "{told:?}");
        assert_eq!((told[2].1, told[3].1), ("\"inner\";q=1;w=3600", "\"outer\";q=3;w=3600"));
    }
    let response = site.oneshot(request("/")).await.expect("it answers");
    let told = told(response.headers());
    assert!(told.len() == 3 && told[0].1.starts_with("\"outer\";r=0;t="), "{told:?}");
}

#[tokio::test]
async fn visitors_are_limited_apart_and_nobody_gets_around_it_by_showing_nothing() {
    let counters = Counters::builder(MemoryStore::new()).build().expect("the defaults are fine");
    let recorder = counters.recorder();
    let own = |identity: Identity| LimitKey::identity(identity.key(VisitorKey::new([1; 16])), &recorder);
    let statuses = async |key: LimitKey, requests: &[(&str, &str)]| {
        let limit = WindowLimitLayer::new(hours(MemoryStore::new()), 1, key, StoreAway::Open);
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
async fn of_four_instances_together_exactly_the_limit_passes() {
    let server = RedisServer::start();
    let offset = hours(MemoryStore::new()).window();
    let mut clients = JoinSet::new();
    for _ in 0..4 {
        let hours = WindowCounters::new(store(&server.url()).await, offset);
        let limit = WindowLimitLayer::new(hours, 100, everybody(), StoreAway::Closed).timeout(LIMIT);
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
async fn without_its_store_a_limit_is_open_or_closed_as_it_was_told_and_comes_back() {
    let mut server = RedisServer::start();
    let hours = hours(store(&server.url()).await);
    let site = |away| -> Router {
        let limit = WindowLimitLayer::new(hours.clone(), 1000, everybody(), away).timeout(LIMIT);
        Router::new().route("/", get(async || "home")).layer(limit)
    };
    let (open, closed) = (site(StoreAway::Open), site(StoreAway::Closed));
    let answer = async |site: &Router| {
        let response = site.clone().oneshot(request("/")).await.expect("it answers");
        let headers =
            told(response.headers()).iter().map(|(name, value)| format!("{name}: {value}")).collect();
        (response.status().as_u16(), headers)
    };
    let nothing: Vec<String> = Vec::new();
    assert_eq!(answer(&closed).await.0, 200);
    server.kill();
    assert_eq!(answer(&open).await, (200, nothing));
    assert_eq!(answer(&closed).await, (503, vec!["retry-after: 2".to_owned()]));
    server.restart();
    until("the limit is back", LIMIT, async || answer(&closed).await.0 == 200).await;
    assert_eq!(answer(&open).await.1.len(), 2);
}

/// A store that never answers.
#[derive(Clone)]
struct Silent;

impl WindowStore for Silent {
    async fn add(&self, _: &[Addition]) -> Vec<Result<u64, Error>> {
        pending().await
    }

    async fn add_once(&self, _: &WindowKey, _: VisitorId) -> Result<(bool, u64), Error> {
        pending().await
    }

    async fn add_within(&self, _: &Addition, _: u64) -> Result<(bool, u64), Error> {
        pending().await
    }

    async fn counts(&self, _: &[WindowKey]) -> Result<Vec<u64>, Error> {
        pending().await
    }
}

#[tokio::test(start_paused = true)]
async fn a_store_that_does_not_answer_costs_the_timeout_and_no_more() {
    for (away, status) in [(StoreAway::Open, 200), (StoreAway::Closed, 503)] {
        let timeout = Duration::from_millis(70);
        let limit = WindowLimitLayer::new(hours(Silent), 1000, everybody(), away).timeout(timeout);
        let service = limit.layer(service_fn(async |_: Request<()>| Ok::<_, Infallible>(Response::new(()))));
        let began = Instant::now();
        let response = service.oneshot(Request::new(())).await.expect("it answers");
        assert_eq!((response.status().as_u16(), began.elapsed()), (status, timeout));
    }
}

#[tokio::test]
async fn refusals_inside_of_the_counter_are_counted() {
    let mut counters = Counters::builder(MemoryStore::new()).build().expect("the defaults are fine");
    let limit = WindowLimitLayer::new(hours(MemoryStore::new()), 2, everybody(), StoreAway::Open);
    let counting = AccessCounterLayer::new(counters.recorder()).facets([Facet::Status]);
    let site: Router = Router::new().route("/", get(async || "home")).layer(limit).layer(counting);
    for _ in 0..5 {
        site.clone().oneshot(request("/")).await.expect("it answers");
    }
    let counted = counted(&mut counters).await;
    assert_eq!((counted["status:2xx"], counted["status:4xx"], counted["hits"]), (2, 3, 5));
}
