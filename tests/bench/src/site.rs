//! One small site behind each of the middlewares that are compared.

use std::error::Error;
use std::net::SocketAddr;
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
use counter_core::{Counters, MemoryStore, Timestamp};
use counter_layer::{AccessCounterLayer, Delivery, Facet, Identity, Rule, Rules};
use opentelemetry_sdk::metrics::{ManualReader, SdkMeterProvider};
use redis::aio::ConnectionManager;
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tower::layer::util::Identity as Nothing;
use tower_http::trace::TraceLayer;

use crate::work::hundred_rules;

/// The middlewares, the bare router first and then one that does nothing: what others are compared with.
pub const KINDS: [&str; 13] = [
    "bare router",
    IDENTITY,
    "this, nobody told apart",
    "this, as it is by default",
    "this, all facets",
    "this, 1 rule",
    "this, 100 rules",
    "this, before response (in memory)",
    "tower-http TraceLayer, no subscriber",
    "axum-prometheus 0.10",
    "axum-otel-metrics 0.14",
    "awaited Redis pipeline of 14 commands",
    MEASURED,
];

/// The layer with distributions.
const MEASURED: &str = "this, with times and statuses";

/// The layer that does nothing, but that a router has one.
pub const IDENTITY: &str = "identity layer";

/// Serves the site of that kind on this listener, until somebody asks for `/stop`.
///
/// # Errors
/// When there is no such kind, or Redis does not answer who needs it.
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
    let site = match KINDS.iter().position(|known| *known == kind).ok_or("no such kind")? {
        0 => site,
        1 => site.layer(Nothing::new()),
        2 => site.layer(counting.identity(Identity::none())?),
        3 => site.layer(counting),
        4 => site.layer(counting.facets([Facet::Status, Facet::Method, Facet::Agent])),
        5 => site.layer(counting.rules(one_rule())),
        6 => site.layer(counting.rules(hundred_rules())),
        7 => site.layer(counting.delivery(Delivery::BeforeResponse { timeout })),
        8 => site.layer(TraceLayer::new_for_http()),
        9 => site.layer(prometheus().0),
        10 => {
            let provider = SdkMeterProvider::builder().with_reader(ManualReader::builder().build()).build();
            site.layer(HttpMetricsLayerBuilder::new().with_provider(provider).build())
        }
        12 => {
            let layer = AccessCounterLayer::new(counters.recorder());
            site.layer(layer.distributions([Measure::Time, Measure::Status]))
        }
        _ => {
            let redis = redis::Client::open(redis)?.get_connection_manager().await?;
            site.layer(from_fn_with_state(redis, await_redis))
        }
    };
    let stop = Arc::new(Notify::new());
    let stopped = Arc::clone(&stop);
    // Beside the layers.
    let site = site.route("/stop", get(async move || stop.notify_one()));
    let loops = tokio::spawn(async move { counters.run(std::future::pending()).await });
    let service = site.into_make_service_with_connect_info::<SocketAddr>();
    axum::serve(listener, service).with_graceful_shutdown(async move { stopped.notified().await }).await?;
    loops.abort();
    Ok(())
}

/// What one writes first: a counter in each precision, and in the list of those that are known.
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
    Rules::builder().rule(rule).build().expect("nothing competes with it")
}

fn prometheus() -> (axum_prometheus::PrometheusMetricLayer<'static>, PrometheusHandle) {
    PrometheusMetricLayerBuilder::new().with_default_metrics().build_pair()
}
