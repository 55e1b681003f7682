//! A small site to be served with each of the compared middlewares.

use std::error::Error;
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{MatchedPath, Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;
use axum::routing::get;
use axum_otel_metrics::HttpMetricsLayerBuilder;
use axum_prometheus::PrometheusMetricLayerBuilder;
use axum_prometheus::metrics_exporter_prometheus::PrometheusHandle;
use counter_core::visits::{Distribution, Measure};
use counter_core::window::{Window, WindowCounters};
use counter_core::{Counters, MemoryStore, Secret, Timestamp};
use counter_layer::{
    AccessCounterLayer, Delivery, Facet, Identity, LimitKey, OnStoreError, Rule, Rules, WindowLimitLayer,
};
use opentelemetry_sdk::metrics::{ManualReader, SdkMeterProvider};
use redis::aio::ConnectionManager;
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tower::layer::util::Identity as IdentityLayer;
use tower_governor::GovernorLayer;
use tower_governor::governor::GovernorConfigBuilder;
use tower_http::trace::TraceLayer;

use crate::work::hundred_rules;

/// The compared middlewares. The bare router must come first because it is the baseline, followed by the
/// no-op layer.
pub const KINDS: [&str; 17] = [
    "bare router",
    IDENTITY,
    "this, without visitors",
    "this, default settings",
    "this, all facets",
    "this, 1 rule",
    "this, 100 rules",
    "this, before response (in memory)",
    "tower-http TraceLayer, no subscriber",
    "axum-prometheus 0.10",
    "axum-otel-metrics 0.14",
    "awaited Redis INCR",
    "awaited Redis pipeline of 14 commands",
    MEASURED,
    "this, limit by address (in memory)",
    "tower_governor 0.8, by address",
    "tower_governor 0.8, by address, with headers",
];

/// The layer with distributions enabled.
const MEASURED: &str = "this, with times and statuses";

/// A layer that does nothing, to measure the cost of having a layer.
pub const IDENTITY: &str = "identity layer";

/// Serves the site on this listener until `/stop` is requested.
///
/// # Errors
/// If the kind is unknown, or if Redis is needed but can't be reached.
pub async fn serve(kind: &str, listener: TcpListener, redis: &str) -> Result<(), Box<dyn Error>> {
    let site =
        Router::new().route("/", get(async || "home")).route("/articles/{id}", get(async || "an article"));
    let mut builder = Counters::builder(MemoryStore::new());
    if kind == MEASURED {
        builder = builder.distributions(Distribution::precisions());
    }
    let mut counters = builder.build()?;
    let counting = AccessCounterLayer::new(counters.recorder());
    let timeout = Duration::from_secs(1);
    // A limit that can't be reached, because a permit is replenished every nanosecond.
    let mut governor = GovernorConfigBuilder::default();
    governor.per_nanosecond(1).burst_size(1_000_000_000);
    let site = match kind {
        "bare router" => site,
        IDENTITY => site.layer(IdentityLayer::new()),
        "this, without visitors" => site.layer(counting.identity(Identity::none())?),
        "this, default settings" => site.layer(counting),
        "this, all facets" => site.layer(counting.facets([Facet::Status, Facet::Method, Facet::Agent])),
        "this, 1 rule" => site.layer(counting.rules(one_rule())),
        "this, 100 rules" => site.layer(counting.rules(hundred_rules())),
        "this, before response (in memory)" => {
            site.layer(counting.delivery(Delivery::BeforeResponse { timeout }))
        }
        MEASURED => site.layer(counting.distributions([Measure::Time, Measure::Status])),
        "tower-http TraceLayer, no subscriber" => site.layer(TraceLayer::new_for_http()),
        "axum-prometheus 0.10" => site.layer(prometheus().0),
        "axum-otel-metrics 0.14" => {
            let provider = SdkMeterProvider::builder().with_reader(ManualReader::builder().build()).build();
            site.layer(HttpMetricsLayerBuilder::new().with_provider(provider).build())
        }
        "awaited Redis INCR" => {
            let redis = redis::Client::open(redis)?.get_connection_manager().await?;
            site.layer(from_fn_with_state(redis, await_incr))
        }
        "awaited Redis pipeline of 14 commands" => {
            let redis = redis::Client::open(redis)?.get_connection_manager().await?;
            site.layer(from_fn_with_state(redis, await_redis))
        }
        "this, limit by address (in memory)" => site.layer(limit()?),
        "tower_governor 0.8, by address" => {
            let quota = governor.finish().ok_or("invalid quota")?;
            site.layer(GovernorLayer::new(quota))
        }
        "tower_governor 0.8, by address, with headers" => {
            let quota = governor.use_headers().finish().ok_or("invalid quota")?;
            site.layer(GovernorLayer::new(quota))
        }
        _ => return Err(format!("unknown kind {kind:?}").into()),
    };
    let stop = Arc::new(Notify::new());
    let stopped = Arc::clone(&stop);
    // Added after the layers, so that this route isn't counted.
    let site = site.route("/stop", get(async move || stop.notify_one()));
    let loops = tokio::spawn(async move { counters.run(std::future::pending()).await });
    let service = site.into_make_service_with_connect_info::<SocketAddr>();
    axum::serve(listener, service).with_graceful_shutdown(async move { stopped.notified().await }).await?;
    loops.abort();
    Ok(())
}

/// The shortest implementation: a lifetime total of each route.
async fn await_incr(State(mut redis): State<ConnectionManager>, request: Request, next: Next) -> Response {
    let route = request.extensions().get::<MatchedPath>().map_or("", |path| path.as_str()).to_owned();
    let response = next.run(request).await;
    let counted: Result<(), _> = redis::cmd("INCR").arg(route).query_async(&mut redis).await;
    counted.expect("Redis answers");
    response
}

/// A naive implementation: for each precision, increment a counter and add it to the set of known counters.
async fn await_redis(State(mut redis): State<ConnectionManager>, request: Request, next: Next) -> Response {
    let route = request.extensions().get::<MatchedPath>().map_or("", |path| path.as_str()).to_owned();
    let response = next.run(request).await;
    let now = Timestamp::now().as_unix();
    let mut pipeline = redis::pipe();
    for precision in [1, 5, 60, 300, 3600, 18_000, 86_400] {
        let key = format!("count:{precision}:{route}");
        pipeline.hincr(key, now / precision * precision, 1).ignore();
        pipeline.zadd("known:", format!("{precision}:{route}"), 0).ignore();
    }
    let counted: Result<(), _> = pipeline.query_async(&mut redis).await;
    counted.expect("Redis answers");
    response
}

fn one_rule() -> Rules {
    let rule = Rule::counter("articles").pattern("/articles/{id}");
    Rules::builder().rule(rule).build().expect("a single rule")
}

/// A limit that can't be reached. The window ends in 2065, so that the headers always have the same length.
fn limit() -> Result<WindowLimitLayer, Box<dyn Error>> {
    let window = Window::new(NonZeroU32::new(3_000_000_000).ok_or("not 0")?);
    let counters = WindowCounters::new(MemoryStore::new(), window);
    let address = Identity::peer().without_user_agent();
    let key = LimitKey::identity(address, Secret::process_local())?;
    Ok(WindowLimitLayer::new(counters, u32::MAX, key, OnStoreError::Allow))
}

fn prometheus() -> (axum_prometheus::PrometheusMetricLayer<'static>, PrometheusHandle) {
    PrometheusMetricLayerBuilder::new().with_default_metrics().build_pair()
}
