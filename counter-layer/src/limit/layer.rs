use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use counter_core::window::WindowCounters;
use tower_layer::Layer;

use super::fields::{Policy, PolicyNameError};
use super::gate::{Gate, OnStoreError};
use super::key::LimitKey;
use super::rejection::{EmptyRejection, ProblemRejection};
use super::service::WindowLimit;

/// Limits the requests per key and window across all instances, and responds with 429 to further requests.
///
/// A request has to wait for the store before the inner service is called, so you should use this only if it
/// is worth the time, e.g. for logins, API quotas or expensive pages. See the [guide](crate::guide::limit)
/// for details.
///
/// Responses include the remaining quota in the headers `RateLimit` and `RateLimit-Policy`. A rejected
/// request gets a response with `Retry-After` and an empty body, i.e. `R::default()`. You can also use
/// [problem details](Self::problem_details), or, if your body type supports neither, a [custom
/// response](Self::rejection). Errors from the inner service are not modified. The inner service must be
/// `Clone`, like most services including axum, because it is called later than it is polled for readiness.
///
/// ```
/// use counter_core::window::{Window, WindowCounters};
/// use counter_core::{MemoryStore, Secret};
/// use counter_layer::{Forwarded, Identity, LimitKey, OnStoreError, WindowLimitLayer};
/// # use axum::{Router, body::Body, routing::get};
/// # use http::{Request, StatusCode};
/// # use tower::ServiceExt;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// // A client must not be able to choose its identity: here, a proxy sets the address.
/// let identity = Identity::forwarded(Forwarded::X_FORWARDED_FOR).trusted_hops(1);
/// let key = LimitKey::identity(identity, &Secret::process_local())?;
/// let days = WindowCounters::new(MemoryStore::new(), Window::DAY);
/// let limit = WindowLimitLayer::new(days, 2, key, OnStoreError::Allow);
/// let app: Router = Router::new().route("/", get(async || "home")).layer(limit);
///
/// for (status, left) in [(StatusCode::OK, 1), (StatusCode::OK, 0), (StatusCode::TOO_MANY_REQUESTS, 0)] {
///     let request = Request::get("/").header("x-forwarded-for", "203.0.113.7").body(Body::empty())?;
///     let response = app.clone().oneshot(request).await?;
///     assert_eq!(response.status(), status);
///     assert_eq!(response.headers()["ratelimit-policy"], r#""default";q=2;w=86400"#);
///     let limit = response.headers()["ratelimit"].to_str()?;
///     assert!(limit.starts_with(&format!(r#""default";r={left};t="#)));
/// }
/// # Ok(())
/// # }
/// ```
#[must_use]
pub struct WindowLimitLayer<A = EmptyRejection> {
    gate: Gate,
    rejection: Arc<A>,
}

impl WindowLimitLayer {
    /// Creates a layer that allows `limit` requests per key in a window of these counters. `on_error` is
    /// applied if the store fails.
    pub fn new(counters: WindowCounters, limit: u32, key: LimitKey, on_error: OnStoreError) -> Self {
        let policy = Policy::new("default", limit, counters.window()).expect("a word of ASCII");
        let gate = Gate::new(counters, limit, key, on_error, policy, Duration::from_millis(500));
        Self { gate, rejection: Arc::new(EmptyRejection) }
    }

    /// Rejects requests with an `application/problem+json` body that includes the policy name. The body type
    /// of the inner service must implement `From<String>`.
    pub fn problem_details(self) -> WindowLimitLayer<ProblemRejection> {
        self.rejection(ProblemRejection)
    }
}

impl<A> WindowLimitLayer<A> {
    /// Rejects requests with these responses, for any body type.
    ///
    /// ```
    /// use counter_core::MemoryStore;
    /// use counter_core::window::{Dimensions, Window, WindowCounters};
    /// use counter_layer::{LimitKey, OnStoreError, Rejection, WindowLimitLayer};
    /// use http::{Response, StatusCode};
    ///
    /// /// A body type of the application, which does not implement `Default`.
    /// enum Page {
    ///     Busy,
    ///     // …
    /// }
    ///
    /// struct Busy;
    ///
    /// impl Rejection<Page> for Busy {
    ///     fn limited(&self, _policy: &str) -> Response<Page> {
    ///         let mut response = Response::new(Page::Busy);
    ///         *response.status_mut() = StatusCode::TOO_MANY_REQUESTS;
    ///         response
    ///     }
    ///
    ///     fn unavailable(&self) -> Response<Page> {
    ///         let mut response = Response::new(Page::Busy);
    ///         *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
    ///         response
    ///     }
    /// }
    ///
    /// let minutes = WindowCounters::new(MemoryStore::new(), Window::MINUTE);
    /// let key = LimitKey::from_fn(|head| Some(Dimensions::new().text("path", head.uri.path())));
    /// let limit = WindowLimitLayer::new(minutes, 100, key, OnStoreError::Allow).rejection(Busy);
    /// # let _ = limit;
    /// ```
    pub fn rejection<R>(self, rejection: R) -> WindowLimitLayer<R> {
        WindowLimitLayer { gate: self.gate, rejection: Arc::new(rejection) }
    }

    /// Applies the limit to any interval as long as a window, instead of a window with a fixed start: see
    /// [`try_acquire_sliding`](WindowCounters::try_acquire_sliding). Otherwise, a client can send twice the
    /// limit around the end of a window.
    ///
    /// `Retry-After` is the time until the client can send another request.
    ///
    /// ```
    /// use counter_core::window::{Dimensions, Window, WindowCounters};
    /// use counter_core::MemoryStore;
    /// use counter_layer::{LimitKey, OnStoreError, WindowLimitLayer};
    /// # use http::{Request, Response, StatusCode};
    /// # use tower::{Layer, ServiceExt, service_fn};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let minutes = WindowCounters::new(MemoryStore::new(), Window::MINUTE);
    /// let key = LimitKey::from_fn(|head| Some(Dimensions::new().text("path", head.uri.path())));
    /// let limit = WindowLimitLayer::new(minutes, 1, key, OnStoreError::Allow).sliding();
    /// # let inner = service_fn(async |_: Request<()>| Ok::<_, std::convert::Infallible>(Response::new(())));
    /// let service = limit.layer(inner);
    ///
    /// assert_eq!(service.clone().oneshot(Request::new(())).await?.status(), StatusCode::OK);
    /// let rejected = service.oneshot(Request::new(())).await?;
    /// assert_eq!(rejected.status(), StatusCode::TOO_MANY_REQUESTS);
    /// let seconds: u32 = rejected.headers()["retry-after"].to_str()?.parse()?;
    /// assert!((54..=66).contains(&seconds));
    /// # Ok(())
    /// # }
    /// ```
    pub const fn sliding(mut self) -> Self {
        self.gate.is_sliding = true;
        self
    }

    /// Sets the policy name in the headers. Default: `default`.
    ///
    /// Limits with different names are counted separately; limits with the same name, key, window and store
    /// share the counts.
    ///
    /// # Errors
    /// Returns an error if the name is empty, longer than 64 bytes or not printable ASCII.
    pub fn policy(mut self, name: &str) -> Result<Self, PolicyNameError> {
        self.gate.policy = self.gate.policy.renamed(name)?;
        Ok(self)
    }

    /// Sets the timeout for a shard that does not decide any request; after this, the shard is considered
    /// failed. Default: 500 ms, which is longer than the fork of a large Redis process.
    ///
    /// If the shard decides other requests, a request can wait for up to four timeouts. If a request times
    /// out, it may still be counted.
    pub const fn timeout(mut self, timeout: Duration) -> Self {
        self.gate.timeout = timeout;
        self
    }
}

impl<S, A> Layer<S> for WindowLimitLayer<A> {
    type Service = WindowLimit<S, A>;

    fn layer(&self, inner: S) -> WindowLimit<S, A> {
        WindowLimit::new(inner, Arc::new(self.gate.clone()), Arc::clone(&self.rejection))
    }
}

impl<A> Clone for WindowLimitLayer<A> {
    fn clone(&self) -> Self {
        Self { gate: self.gate.clone(), rejection: Arc::clone(&self.rejection) }
    }
}

impl<A> fmt::Debug for WindowLimitLayer<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("WindowLimitLayer").field(&self.gate).finish()
    }
}
