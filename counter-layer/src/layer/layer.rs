use std::fmt;
use std::sync::Arc;

use counter_core::visits::{Agent, LabelError, Measure};
use counter_core::{Counter, Recorder};
use tower_layer::Layer;

use super::counting::Counting;
use super::extra::ExtraPool;
use super::measures::Measures;
use super::outcome::Outcome;
use super::route::KnownRoute;
use super::service::AccessCounter;
use super::settings::Settings;
use super::settings::delivery::Delivery;
use super::settings::facet::{Facet, Facets};
use super::settings::ignore::Ignore;
use super::settings::page::Pages;
use super::visit::{CountAction, Visit};
use crate::closure::Closure;
use crate::identity::{Identity, IdentityError, RequestHead};
use crate::label::{Label, Labels};
use crate::reserved::HITS;
use crate::rules::Rules;

/// Counts requests in `hits`, and in the counter named by the template of the matched route.
///
/// With a `Router` of axum 0.8, this counts the requests served by the routes and the fallback; if no route
/// matched, the request only counts in `hits`. Other services don't have routes, so only `hits` will be
/// counted; in this case you may want to set [`matched_path`](Self::matched_path) or [rules](Self::rules).
/// For gRPC calls, the route is the method, as soon as the method is [known to
/// exist](crate::guide::rules#grpc). If the layer detects that the setup might lead to wrong counts, it
/// reports [hints](crate::guide#hints).
///
/// A response is counted when the head is ready, a failure when the inner service fails, and an aborted
/// request when the future is dropped. The layer does not modify the request or the response, except to set
/// an [`IssuedCookie`](crate::IssuedCookie) if you choose this identity.
///
/// A request is counted when it ends. If the salt epoch of the visitor ends first, usually at midnight, the
/// request will be counted in the last second of this epoch, because the visitor gets a different id in the
/// next epoch.
///
/// A panic in a closure passed to the layer or to an identity does not fail the request, and the hit is still
/// counted. The panic hook is called, the panic is logged once per closure, and the request counts as if the
/// closure had not been set.
///
/// A visitor is identified by a keyed hash of the client address (the first 64 bits for IPv6) and the user
/// agent. To change this, set another [`identity`](Self::identity). This uses the peer address of the
/// connection, which the server must store in the request: for axum, use
/// `into_make_service_with_connect_info::<SocketAddr>()`; other servers can insert a
/// [`SocketAddr`](std::net::SocketAddr) extension. If the address is missing, the request counts without a
/// visitor. Bot requests do the same, but you can change this via
/// [`bots_are_visitors`](Self::bots_are_visitors).
///
/// ```
/// use counter_core::{Counters, MemoryStore};
/// use counter_layer::{AccessCounterLayer, Facet, Forwarded, Identity, Label};
///
/// let counters = Counters::builder(MemoryStore::new()).build()?;
/// // nginx runs on the same host, and appends the client address to `X-Forwarded-For`.
/// let clients = Identity::forwarded(Forwarded::X_FORWARDED_FOR).trusted_hops(1);
/// let layer = AccessCounterLayer::new(counters.recorder())
///     .identity(clients)?
///     .count_if(|outcome| outcome.is_success())
///     .facets([Facet::Status, Facet::Agent])
///     .labels([Label::referrer(), Label::device()])?;
/// # let _: AccessCounterLayer = layer;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct AccessCounterLayer {
    recorder: Recorder,
    /// Registered before all other counters, to make sure that it gets a slot.
    hits: Counter,
    pub(crate) settings: Settings,
}

impl AccessCounterLayer {
    /// Creates a layer that counts with this recorder, and identifies visitors by address with the daily
    /// salt, which is shared by all instances of the store.
    ///
    /// If a visitor precision is coarser than the salt epoch, addresses can't be used, and visitors will not
    /// be counted until you set a stable [`identity`](Self::identity).
    #[must_use]
    pub fn new(recorder: Recorder) -> Self {
        Self { hits: recorder.counter(HITS), recorder, settings: Settings::default() }
    }

    /// Sets the identity of visitors. This replaces the previous identity.
    ///
    /// The identity also includes the trusted [proxies](Identity::forwarded) and the [key](Identity::key) of
    /// the hash.
    ///
    /// # Errors
    /// Returns an error if the identity is not stable but a visitor precision is coarser than the salt epoch,
    /// or if it is a cookie with an invalid name.
    pub fn identity(mut self, identity: impl Into<Identity>) -> Result<Self, IdentityError> {
        let identity = identity.into();
        identity.bind(&self.recorder)?;
        self.settings.identity = identity;
        // Checks of the previous identity don't apply to this identity.
        self.settings.setup = Arc::default();
        Ok(self)
    }

    /// Ignores requests that match any of these conditions, e.g. your own visits. Default: none.
    ///
    /// See [`Ignore`] for an example.
    #[must_use]
    pub fn ignore(mut self, conditions: impl IntoIterator<Item = Ignore>) -> Self {
        let conditions: Arc<[Ignore]> = conditions.into_iter().collect();
        self.settings.ignore = Some(conditions).filter(|conditions| !conditions.is_empty());
        self
    }

    /// Counts bots as visitors too. By default bot requests count as hits, but bots are not visitors and
    /// don't get an [`IssuedCookie`](crate::IssuedCookie).
    ///
    /// If cookies are issued, a bot that does not keep cookies will be a new visitor with every request.
    #[must_use]
    pub const fn bots_are_visitors(mut self) -> Self {
        self.settings.bots_are_visitors = true;
        self
    }

    /// Sets a closure to classify the client, instead of the [user agent](crate::guide::visitors#bots).
    ///
    /// The closure is called once for every request that is not excluded by the rules, before the inner
    /// service. If it panics, the user agent is used.
    ///
    /// ```
    /// # use counter_core::{Counters, MemoryStore};
    /// # use counter_layer::AccessCounterLayer;
    /// # let recorder = Counters::builder(MemoryStore::new()).build()?.recorder();
    /// use counter_core::visits::Agent;
    ///
    /// // The result of a check in the proxy.
    /// let layer = AccessCounterLayer::new(recorder).classify_agent(|head| {
    ///     if head.headers.contains_key("x-bot") { Agent::Bot } else { Agent::Human }
    /// });
    /// # Ok::<(), counter_core::BuildError>(())
    /// ```
    #[must_use]
    pub fn classify_agent(
        mut self,
        agent: impl Fn(&RequestHead<'_>) -> Agent + Send + Sync + 'static,
    ) -> Self {
        self.settings.classify_agent = Some(Arc::new(Closure::new("classify_agent", agent)));
        self
    }

    /// Sets the rules to find the counter. A request will count in `hits` and in the counter of the matching
    /// rule. Excluded and unmatched requests are only counted in the ledger, except for
    /// [missing pages](crate::Label::not_found).
    ///
    /// If you don't set rules, all requests count by route template; rules with
    /// [`by_matched_path`](crate::RulesBuilder::by_matched_path) do the same for requests that don't match a
    /// rule.
    ///
    /// ```
    /// # use counter_core::{Counters, MemoryStore};
    /// use counter_layer::{AccessCounterLayer, Rule, Rules};
    /// # let recorder = Counters::builder(MemoryStore::new()).build()?.recorder();
    ///
    /// let rules = Rules::builder()
    ///     .rule(Rule::counter("articles").pattern("/articles/*"))
    ///     .exclude("/healthz")
    ///     .build()?;
    /// let layer = AccessCounterLayer::new(recorder).rules(rules);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn rules(mut self, rules: impl Into<Arc<Rules>>) -> Self {
        // Reserve the slots of these counters early.
        self.settings.pages = Some(Arc::new(Pages::new(rules.into(), &self.recorder)));
        self
    }

    /// Sets a closure to find the template of the matched route, instead of axum 0.8. Use this for other
    /// routers, or for another version of axum, because this crate does not have access to these types.
    ///
    /// Requests count by this template, or as decided by the rules. The closure must not return the request
    /// path, because clients can send any number of paths. If it panics, the request does not have a
    /// template. If it returns a reserved name like `hits`, the request counts in `(other)`, and a warning is
    /// logged.
    ///
    /// ```
    /// # use counter_core::{Counters, MemoryStore};
    /// # use counter_layer::AccessCounterLayer;
    /// # let recorder = Counters::builder(MemoryStore::new()).build()?.recorder();
    /// /// The extension inserted by another router.
    /// #[derive(Clone)]
    /// struct Matched(&'static str);
    ///
    /// let layer = AccessCounterLayer::new(recorder)
    ///     .matched_path(|head| head.extensions.get::<Matched>().map(|matched| matched.0));
    /// # Ok::<(), counter_core::BuildError>(())
    /// ```
    #[must_use]
    pub fn matched_path(
        mut self,
        matched_path: impl for<'a> Fn(&RequestHead<'a>) -> Option<&'a str> + Send + Sync + 'static,
    ) -> Self {
        self.settings.matched_path = Some(Arc::new(Closure::new("matched_path", matched_path)));
        self
    }

    /// Sets a closure to find the counter for requests that don't match a rule, or, without rules, a route.
    /// If it panics, the request only counts in `hits`. If the counter has a reserved name like `status:2xx`,
    /// it is replaced by `(other)`, and a warning is logged.
    ///
    /// ```
    /// # use counter_core::{Counters, MemoryStore};
    /// # use counter_layer::AccessCounterLayer;
    /// # let recorder = Counters::builder(MemoryStore::new()).build()?.recorder();
    /// let feeds = recorder.counter("feeds");
    /// let is_feed = |path: &str| path.ends_with("/feed");
    /// let layer = AccessCounterLayer::new(recorder)
    ///     .fallback(move |head| is_feed(head.uri.path()).then_some(feeds));
    /// # Ok::<(), counter_core::BuildError>(())
    /// ```
    #[must_use]
    pub fn fallback(
        mut self,
        counter: impl Fn(&RequestHead<'_>) -> Option<Counter> + Send + Sync + 'static,
    ) -> Self {
        self.settings.fallback = Some(Arc::new(Closure::new("fallback", counter)));
        self
    }

    /// Counts all requests by these facets too, see [`Facet`] for the counter names. Default: none.
    #[must_use]
    pub fn facets(mut self, facets: impl IntoIterator<Item = Facet>) -> Self {
        self.settings.facets = Facets::of(&self.recorder, facets).map(Arc::new);
        self
    }

    /// Counts views too, i.e. requests of people who saw a page: `view:/articles/{id}` among the hits of a page, and
    /// `view:hits` among all hits. Views are kept by the hour and coarser precisions. Default: disabled.
    ///
    /// A view is a `GET` request with a 2xx or 304 response. These are not views:
    ///
    /// | request | because |
    /// |---|---|
    /// | from a [bot](crate::guide::visitors#bots) | a person counts as well if the user agent was not recorded |
    /// | prefetch | the page may never be shown |
    /// | range that does not start at 0 (206) | continues a download or a video |
    /// | [counted on arrival](Self::count_on_request), or a log or record without a method or status | it is not known whether the page was shown |
    ///
    /// Ranges are recognized by `Content-Range` in the response, or by `Range` in a log; without this field, a request
    /// with the status 206 is not a view. A prefetch counts as a view in a log or record that does not contain its purpose.
    ///
    /// ```
    /// # use axum::{Router, routing::get};
    /// # use tower::ServiceExt;
    /// use counter_core::{Counters, MemoryStore};
    /// use counter_layer::AccessCounterLayer;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let mut counters = Counters::builder(MemoryStore::new()).build()?;
    /// let layer = AccessCounterLayer::new(counters.recorder()).views();
    /// # let like = async || "thanks";
    /// let app: Router = Router::new().route("/a", get(async || "an article").post(like)).layer(layer);
    /// # for (method, agent) in [("GET", "Firefox/140.0"), ("POST", "Firefox/140.0"), ("GET", "Googlebot/2.1")] {
    /// #     let request = http::Request::builder().method(method).uri("/a");
    /// #     let request = request.header("user-agent", format!("Mozilla/5.0 Gecko {agent}"));
    /// #     app.clone().oneshot(request.body(axum::body::Body::empty())?).await?;
    /// # }
    /// // A person reads and likes an article, which is also read by a bot.
    /// counters.flush().await?;
    ///
    /// let names = ["/a", "view:/a", "view:hits"].map(|name| name.parse().expect("a name"));
    /// assert_eq!(counters.stats().lifetimes(&names).await?, [3, 1, 1]);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub const fn views(mut self) -> Self {
        self.settings.views = true;
        self
    }

    /// Counts all requests by these labels too, e.g. by referring site, see [`Label`]. Default: none.
    ///
    /// # Errors
    /// Returns an error if a label name is invalid or reserved, or if there are more than 16 labels for this recorder.
    pub fn labels(mut self, labels: impl IntoIterator<Item = Label>) -> Result<Self, LabelError> {
        self.settings.labels = Labels::of(&self.recorder, labels)?;
        self.settings.views |= self.settings.labels.as_ref().is_some_and(|labels| labels.count_views());
        Ok(self)
    }

    /// Records distributions of these measures, for `hits` and for page counters. Default: none.
    ///
    /// | measure | value |
    /// |---|---|
    /// | `Time` | time from the call of the layer until the response head is ready. Event streams, upgrades, tunnels, and aborted or failed requests are not measured |
    /// | `Size` | value of `Content-Length`; 0 for responses to `HEAD`, and for 204 and 304. Responses without this header are not measured: axum adds it at the end, so a layer on a `Router` only sees the values set by handlers, but a layer around the whole service sees all of them |
    /// | `Status` | response status; 499 for aborted requests, as in nginx, and 0 if the inner service failed or panicked |
    /// | `Grpc` | status in the response head, which is sent if a call fails immediately; other calls send it after the messages |
    ///
    /// `Body`, the time until the response ends, requires a layer that observes response bodies: use
    /// `measure_bodies` with the feature `body`. Requests [counted on arrival](Self::count_on_request) are
    /// not measured. A measurement always counts once, regardless of the rule weight.
    ///
    /// The counters of the recorder must be built with [distributions](counter_core::Builder::distributions),
    /// otherwise nothing will be measured and a warning is logged.
    ///
    /// ```
    /// # use counter_core::{Counters, MemoryStore};
    /// use counter_core::visits::{Distribution, Measure};
    /// use counter_layer::AccessCounterLayer;
    ///
    /// let builder = Counters::builder(MemoryStore::new()).distributions(Distribution::precisions());
    /// # let counters = builder.build()?;
    /// let layer = AccessCounterLayer::new(counters.recorder()).distributions([Measure::Time, Measure::Status]);
    /// # Ok::<(), counter_core::BuildError>(())
    /// ```
    #[must_use]
    pub fn distributions(mut self, measures: impl IntoIterator<Item = Measure>) -> Self {
        self.settings.measures = Measures::of(measures).filter(|_| self.recorder.has_distributions());
        if self.settings.measures.is_none() {
            tracing::warn!("distributions are disabled: set `Builder::distributions` of counter-core");
        }
        self
    }

    /// Counts requests on arrival instead of at the end. The outcome is always [`Outcome::Unknown`], which
    /// does not have a [`Facet::Status`] counter.
    #[must_use]
    pub const fn count_on_request(mut self) -> Self {
        self.settings.count_on_request = true;
        self
    }

    /// Sets whether a response should wait until the hit is stored. By default it does not wait.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use counter_core::{Counters, MemoryStore};
    /// # use counter_layer::{AccessCounterLayer, Delivery};
    /// # let recorder = Counters::builder(MemoryStore::new()).build()?.recorder();
    /// let delivery = Delivery::BeforeResponse { timeout: Duration::from_millis(100) };
    /// let layer = AccessCounterLayer::new(recorder).delivery(delivery);
    /// # Ok::<(), counter_core::BuildError>(())
    /// ```
    #[must_use]
    pub const fn delivery(mut self, delivery: Delivery) -> Self {
        self.settings.delivery = delivery;
        self
    }

    /// Counts only requests with an outcome accepted by this closure; other requests are `ignored.outcome` in
    /// the ledger.
    ///
    /// By default all outcomes count. If the closure panics, the outcome counts as well.
    ///
    /// ```
    /// # use counter_core::{Counters, MemoryStore};
    /// # use counter_layer::{AccessCounterLayer, Outcome};
    /// # let recorder = Counters::builder(MemoryStore::new()).build()?.recorder();
    /// let successes = AccessCounterLayer::new(recorder).count_if(|outcome| outcome.is_success());
    /// # Ok::<(), counter_core::BuildError>(())
    /// ```
    #[must_use]
    pub fn count_if(mut self, accepts: impl Fn(Outcome) -> bool + Send + Sync + 'static) -> Self {
        self.settings.count_if = Some(Arc::new(Closure::new("count_if", accepts)));
        self
    }

    /// Runs an action when a request is counted, e.g. to add a view to a post.
    ///
    /// The closure is called when a request accepted by the rules arrives, and can return an action. The
    /// action runs once, just after the request is counted, and gets the outcome, so it might also be called
    /// if the handler panicked or the request was aborted. If [`count_if`](Self::count_if) rejects the
    /// outcome, the action is dropped.
    ///
    /// Both run on the request path and should only access memory, like `WriteBehind::add` of `counter_core`.
    /// An action costs two allocations; if you don't return an action, this does not allocate. A panic does
    /// not fail the request: it is reported to the panic hook, and the action is skipped.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use std::sync::atomic::{AtomicU64, Ordering};
    ///
    /// # use axum::{Router, routing::get};
    /// # use counter_core::{Counters, MemoryStore};
    /// # use counter_layer::{AccessCounterLayer, Outcome};
    /// # use tower::ServiceExt;
    /// use counter_core::visits::Agent;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let recorder = Counters::builder(MemoryStore::new()).build()?.recorder();
    /// let views = Arc::new(AtomicU64::new(0)); // in practice a `WriteBehind`, for the post with this id
    /// let seen = Arc::clone(&views);
    /// let layer = AccessCounterLayer::new(recorder).on_count(move |visit| {
    ///     let _post: u64 = visit.head.uri.path().strip_prefix("/posts/")?.parse().ok()?;
    ///     let views = Arc::clone(&views);
    ///     (visit.agent != Agent::Bot).then_some(move |outcome: Outcome| {
    ///         if outcome.is_success() {
    ///             views.fetch_add(1, Ordering::Relaxed);
    ///         }
    ///     })
    /// });
    /// let app: Router = Router::new().route("/posts/{id}", get(async || "a post")).layer(layer);
    /// # for (path, agent) in [("/posts/7", "Firefox/140.0"), ("/posts", "Firefox/140.0"), ("/posts/7", "a bot")] {
    /// #     let request = http::Request::get(path).header("user-agent", format!("Mozilla/5.0 Gecko {agent}"));
    /// #     app.clone().oneshot(request.body(axum::body::Body::empty())?).await?;
    /// # }
    /// // A browser and a bot request a post.
    /// assert_eq!(seen.load(Ordering::Relaxed), 1);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn on_count<F: FnOnce(Outcome) + Send + 'static>(
        mut self,
        inspect: impl Fn(&Visit<'_>) -> Option<F> + Send + Sync + 'static,
    ) -> Self {
        let inspect = move |visit: &Visit<'_>| inspect(visit).map(CountAction::new);
        self.settings.on_count = Some(Arc::new(Closure::new("on_count", inspect)));
        self
    }

    pub(crate) fn counting(&self) -> Counting {
        Counting {
            recorder: self.recorder.clone(),
            hits: self.hits,
            // This can only fail if visitors are not counted, see `new`.
            visitors: self.settings.identity.bind(&self.recorder).unwrap_or_default(),
            route: KnownRoute::default(),
            settings: self.settings.clone(),
            pool: ExtraPool::default(),
            has_page_resolver: self.settings.pages.is_some() || self.settings.matched_path.is_some(),
            needs_precheck: self.settings.needs_precheck(),
            needs_extra: self.settings.needs_extra(),
            needs_completion: self.settings.needs_completion(),
        }
    }
}

impl fmt::Debug for AccessCounterLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AccessCounterLayer").field("facets", &self.settings.facets).finish_non_exhaustive()
    }
}

impl<S> Layer<S> for AccessCounterLayer {
    type Service = AccessCounter<S>;

    fn layer(&self, inner: S) -> AccessCounter<S> {
        AccessCounter::new(inner, Arc::new(self.counting()))
    }
}
