use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use counter_core::window::WindowCounters;
use tower_layer::Layer;

use super::fields::{Policy, PolicyNameError};
use super::gate::{Gate, OnStoreError};
use super::key::LimitKey;
use super::refusal::{EmptyRefusal, ProblemRefusal};
use super::service::WindowLimit;

/// Lets so many requests of one key pass in each window, over all instances, and answers 429 to others.
///
/// A request waits for the store before the inner service sees it, so this is for what is worth that: logins,
/// quotas of an API, expensive pages. The [guide](crate::guide::limit) says more.
///
/// A response tells by the headers `RateLimit` and `RateLimit-Policy` what is left. A refusal has `Retry-After`
/// and an empty body, `R::default()`, or [problem details](Self::problem_details), or is
/// [one of your own](Self::refusal), for a body that can be made in no such way. The error of the inner service is
/// never changed, and the inner service has to be `Clone`, as those of axum and most others are: it is called later
/// than asked whether it is ready.
///
/// ```
/// use counter_core::window::{Dimensions, Window, WindowCounters};
/// use counter_core::MemoryStore;
/// use counter_layer::{LimitKey, OnStoreError, WindowLimitLayer};
/// # use axum::{Router, body::Body, routing::get};
/// # use http::{Request, StatusCode};
/// # use tower::ServiceExt;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let minutes = WindowCounters::new(MemoryStore::new(), Window::DAY);
/// let key = LimitKey::from_fn(|head| Some(Dimensions::new().text("path", head.uri.path())));
/// let limit = WindowLimitLayer::new(minutes, 2, key, OnStoreError::Allow);
/// let app: Router = Router::new().route("/", get(async || "home")).layer(limit);
///
/// for (status, left) in [(StatusCode::OK, 1), (StatusCode::OK, 0), (StatusCode::TOO_MANY_REQUESTS, 0)] {
///     let response = app.clone().oneshot(Request::get("/").body(Body::empty())?).await?;
///     assert_eq!(response.status(), status);
///     assert_eq!(response.headers()["ratelimit-policy"], r#""default";q=2;w=86400"#);
///     let limit = response.headers()["ratelimit"].to_str()?;
///     assert!(limit.starts_with(&format!(r#""default";r={left};t="#)));
/// }
/// # Ok(())
/// # }
/// ```
#[must_use]
pub struct WindowLimitLayer<A = EmptyRefusal> {
    gate: Gate,
    refusal: Arc<A>,
}

impl WindowLimitLayer {
    /// Allows `limit` requests of a key in each window of these counters, and treats requests by `on_error`
    /// while their store fails.
    pub fn new(counters: WindowCounters, limit: u32, key: LimitKey, on_error: OnStoreError) -> Self {
        let policy = Policy::new("default", limit, counters.window()).expect("a word of ASCII");
        let gate = Gate::new(counters, limit, key, on_error, policy, Duration::from_millis(500));
        Self { gate, refusal: Arc::new(EmptyRefusal) }
    }

    /// Refuses with a body of `application/problem+json` that names the exceeded policy, for inner services
    /// whose body can be made from a `String`.
    pub fn problem_details(self) -> WindowLimitLayer<ProblemRefusal> {
        self.refusal(ProblemRefusal)
    }
}

impl<A> WindowLimitLayer<A> {
    /// Refuses with these responses, for inner services of any body.
    ///
    /// ```
    /// use counter_core::MemoryStore;
    /// use counter_core::window::{Dimensions, Window, WindowCounters};
    /// use counter_layer::{LimitKey, OnStoreError, Refusal, WindowLimitLayer};
    /// use http::{Response, StatusCode};
    ///
    /// /// A body of the application, which has no default.
    /// enum Page {
    ///     Busy,
    ///     // …
    /// }
    ///
    /// struct Busy;
    ///
    /// impl Refusal<Page> for Busy {
    ///     fn limited(&self, _policy: &str) -> Response<Page> {
    ///         let mut response = Response::new(Page::Busy);
    ///         *response.status_mut() = StatusCode::TOO_MANY_REQUESTS;
    ///         response
    ///     }
    ///
    ///     fn away(&self) -> Response<Page> {
    ///         let mut response = Response::new(Page::Busy);
    ///         *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
    ///         response
    ///     }
    /// }
    ///
    /// let minutes = WindowCounters::new(MemoryStore::new(), Window::MINUTE);
    /// let key = LimitKey::from_fn(|head| Some(Dimensions::new().text("path", head.uri.path())));
    /// let limit = WindowLimitLayer::new(minutes, 100, key, OnStoreError::Allow).refusal(Busy);
    /// # let _ = limit;
    /// ```
    pub fn refusal<R>(self, refusal: R) -> WindowLimitLayer<R> {
        WindowLimitLayer { gate: self.gate, refusal: Arc::new(refusal) }
    }

    /// Sets the name of the policy in the headers. Default: `default`.
    ///
    /// Limits with different names count separately; those with the same name, key and window over one store
    /// share their counts.
    ///
    /// # Errors
    /// When the name is empty, longer than 64 bytes or not printable ASCII.
    pub fn policy(mut self, name: &str) -> Result<Self, PolicyNameError> {
        self.gate.policy = self.gate.policy.renamed(name)?;
        Ok(self)
    }

    /// Sets how long a request waits while its shard of the store decides no request at all; then the shard counts as
    /// failing. Default: 500 ms, longer than a fork of a large Redis takes.
    ///
    /// While the shard decides other requests, a request waits for up to four times as long. A request that gives up may
    /// still be counted.
    pub const fn timeout(mut self, timeout: Duration) -> Self {
        self.gate.timeout = timeout;
        self
    }
}

impl<S, A> Layer<S> for WindowLimitLayer<A> {
    type Service = WindowLimit<S, A>;

    fn layer(&self, inner: S) -> WindowLimit<S, A> {
        WindowLimit::new(inner, Arc::new(self.gate.clone()), Arc::clone(&self.refusal))
    }
}

impl<A> Clone for WindowLimitLayer<A> {
    fn clone(&self) -> Self {
        Self { gate: self.gate.clone(), refusal: Arc::clone(&self.refusal) }
    }
}

impl<A> fmt::Debug for WindowLimitLayer<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("WindowLimitLayer").field(&self.gate).finish()
    }
}
