use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use counter_core::Recorder;
use counter_core::visits::{InFlightGauge, InFlightRequest};
use http::{HeaderMap, Response};
use http_body::Body;
use pin_project_lite::pin_project;
use tower_layer::Layer;
use tower_service::Service;

use super::observed::{ObservedBody, Observer};

/// A layer that counts the requests in flight: from the call of the service until the response body ends or is dropped,
/// or until the service fails or panics, or the client disconnects.
///
/// The number and its maximum are exported as metrics, named `http_server_active_requests` as
/// in the semantic conventions of OpenTelemetry. A response that upgrades the connection has no body, so the request
/// ends with the response head.
///
/// ```
/// use axum::{Router, routing::get};
/// # use counter_core::{Counters, MemoryStore};
/// use counter_layer::body::InFlightLayer;
/// # use tower::ServiceExt;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let counters = Counters::builder(MemoryStore::new()).build()?;
/// let recorder = counters.recorder();
/// let app: Router = Router::new().route("/", get(async || "home")).layer(InFlightLayer::new(&recorder));
/// # let request = http::Request::get("/").body(axum::body::Body::empty())?;
/// let response = app.oneshot(request).await?;
/// assert_eq!(recorder.in_flight().current(), 1);
/// drop(response); // by the server, when the body is sent
/// assert_eq!(recorder.in_flight().current(), 0);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct InFlightLayer(InFlightGauge);

/// The service of [`InFlightLayer`].
#[derive(Clone, Debug)]
pub struct InFlight<S> {
    inner: S,
    gauge: InFlightGauge,
}

pin_project! {
    /// The response future of [`InFlight`].
    #[must_use = "futures do nothing unless polled"]
    pub struct InFlightFuture<F> {
        #[pin]
        inner: F,
        request: Option<InFlightRequest>,
    }
}

/// The response body of [`InFlight`].
pub type InFlightBody<B> = ObservedBody<B, InFlightRequest>;

impl InFlightLayer {
    /// Creates a layer for the [gauge](Recorder::in_flight) of this recorder.
    #[must_use]
    pub fn new(recorder: &Recorder) -> Self {
        Self(recorder.in_flight())
    }
}

impl<S> Layer<S> for InFlightLayer {
    type Service = InFlight<S>;

    fn layer(&self, inner: S) -> InFlight<S> {
        InFlight { inner, gauge: self.0.clone() }
    }
}

impl<S, Request, B> Service<Request> for InFlight<S>
where
    S: Service<Request, Response = Response<B>>,
    B: Body,
{
    type Response = Response<InFlightBody<B>>;
    type Error = S::Error;
    type Future = InFlightFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request) -> Self::Future {
        let entered = self.gauge.enter();
        InFlightFuture { inner: self.inner.call(request), request: Some(entered) }
    }
}

impl<F, B, E> Future for InFlightFuture<F>
where
    F: Future<Output = Result<Response<B>, E>>,
    B: Body,
{
    type Output = Result<Response<InFlightBody<B>>, E>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let result = ready!(this.inner.poll(cx));
        // Otherwise, a request would be in flight until the future is dropped.
        let request = this.request.take();
        Poll::Ready(result.map(|response| {
            let request = request.filter(|_| !response.body().is_end_stream());
            response.map(|body| InFlightBody::new(body, request))
        }))
    }
}

impl<F> fmt::Debug for InFlightFuture<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InFlightFuture").finish_non_exhaustive()
    }
}

impl Observer for InFlightRequest {
    fn end(self, _: Option<&HeaderMap>) {}

    fn fail(self) {}
}
