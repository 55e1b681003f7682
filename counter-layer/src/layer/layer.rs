use std::fmt;
use std::sync::Arc;

use counter_core::visits::{Agent, LabelError, Measure};
use counter_core::{Counter, Recorder};
use tower_layer::Layer;

use super::counting::Counting;
use super::extra::Spare;
use super::measures::Measures;
use super::outcome::Outcome;
use super::route::KnownRoute;
use super::service::AccessCounter;
use super::settings::Settings;
use super::settings::delivery::Delivery;
use super::settings::facet::{Facet, Facets};
use super::settings::page::Pages;
use super::visit::{Then, Visit};
use crate::closure::Closure;
use crate::identity::{Identity, IdentityError, RequestHead};
use crate::label::{Label, Labels};
use crate::reserved::HITS;
use crate::rules::Rules;

/// Counts every request once: under `hits`, and under the template of the route that matched.
///
/// On a `Router` of axum 0.8 it counts the requests that the router's routes and its fallback serve; a request that
/// no route matched counts under `hits` only. Around other services there are no routes, and only `hits`, unless
/// [`matched_path`](Self::matched_path) or [rules](Self::rules) are set. The route of a call of gRPC is its method,
/// once that has [shown to exist](crate::guide::rules#grpc). A layer that sees signs of a setup that counts something
/// wrong says so by [hints](crate::guide#hints). A
/// response is counted when its head is ready, a failure when the inner service fails, and an abandoned
/// request when its future is dropped. The request and the response pass unchanged, except that an
/// [`IssuedCookie`](crate::IssuedCookie) is set where one is chosen.
///
/// A request counts when it ends. One that is still in progress when the salt epoch of its visitor ends,
/// usually at midnight, counts in the last second of that epoch: in the next epoch the same visitor has
/// another id.
///
/// A panic in a closure given to the layer or to an identity fails no request and loses no hit. It reaches
/// the panic hook, is logged once, and the request counts as if the closure were not set.
///
/// A visitor is a keyed hash of the client's address (the first 64 bits of IPv6) and the user agent, unless
/// [`identity`](Self::identity) sets another rule. The address is that of the connection, which the server
/// must leave in the request: axum does so with `into_make_service_with_connect_info::<SocketAddr>()`, other
/// servers insert a [`SocketAddr`](std::net::SocketAddr) extension. A request without it counts without a
/// visitor, and so does a bot's, unless [`bots_are_visitors`](Self::bots_are_visitors) is set.
///
/// See the [crate](crate) for an example.
#[derive(Clone)]
pub struct AccessCounterLayer {
    recorder: Recorder,
    /// Registered before any other counter, so that none can take its slot.
    hits: Counter,
    pub(crate) settings: Settings,
}

impl AccessCounterLayer {
    /// Counts with this recorder, and tells visitors apart by their addresses under the salt of the day,
    /// which all instances over one store share.
    ///
    /// Where a visitor precision is coarser than the salt's epoch, addresses cannot tell visitors apart, and
    /// none are counted until a stable [`identity`](Self::identity) is set.
    #[must_use]
    pub fn new(recorder: Recorder) -> Self {
        Self { hits: recorder.counter(HITS), recorder, settings: Settings::default() }
    }

    /// Tells visitors apart by this identity, which replaces the one set before.
    ///
    /// Everything that can be chosen about visitors is a part of it: the [proxies](Identity::forwarded) that
    /// are trusted, and the [key](Identity::key) of the hash.
    ///
    /// # Errors
    /// When the identity is not stable and a visitor precision is coarser than the salt's epoch, or when it
    /// is a cookie whose name is not valid.
    pub fn identity(mut self, identity: impl Into<Identity>) -> Result<Self, IdentityError> {
        let identity = identity.into();
        identity.bind(&self.recorder)?;
        self.settings.identity = identity;
        // What was found out about another identity says nothing about this one.
        self.settings.setup = Arc::default();
        Ok(self)
    }

    /// Counts bots as visitors too. By default a bot's requests are hits like any others, but a bot is no
    /// visitor and is given no [`IssuedCookie`](crate::IssuedCookie).
    ///
    /// Where a cookie is issued, each request of a bot that does not keep cookies is then a new visitor.
    #[must_use]
    pub const fn bots_are_visitors(mut self) -> Self {
        self.settings.bots_are_visitors = true;
        self
    }

    /// Classifies the client by a closure in place of the [user agent](crate::guide::visitors#bots).
    ///
    /// The closure runs once for each request that the rules do not exclude, before the request is served.
    /// When it panics, the user agent decides.
    ///
    /// ```
    /// # use counter_core::{Counters, MemoryStore};
    /// # use counter_layer::AccessCounterLayer;
    /// # let recorder = Counters::builder(MemoryStore::new()).build()?.recorder();
    /// use counter_core::visits::Agent;
    ///
    /// // What the proxy in front found out.
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

    /// Counts by these rules: under `hits`, and under the counter of the rule that decides. Requests that the
    /// rules exclude or do not match count nowhere, and are in the ledger.
    ///
    /// Without rules every request counts under the template of its route; rules with
    /// [`by_matched_path`](crate::RulesBuilder::by_matched_path) do the same for requests that match none of
    /// them.
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
        // The places of their counters are taken before anything else can take them.
        self.settings.pages = Some(Arc::new(Pages::new(rules.into(), &self.recorder)));
        self
    }

    /// Finds the template of the route that matched by a closure, in place of axum 0.8: for another router, or for
    /// another version of axum, whose types this crate does not know.
    ///
    /// Requests count under the template, or under what the rules make of it. The closure must not return the path
    /// itself, of which clients can make any number. When it panics, the request has no template. A name that the
    /// layer keeps for itself, such as `hits`, counts under `(other)`, with a warning in the log.
    ///
    /// ```
    /// # use counter_core::{Counters, MemoryStore};
    /// # use counter_layer::AccessCounterLayer;
    /// # let recorder = Counters::builder(MemoryStore::new()).build()?.recorder();
    /// /// What another router leaves in the extensions of a request.
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

    /// Finds a counter by a closure for a request that no rule matches, or, without rules, that no route
    /// matched. When it panics, the request has no counter of its own. A counter of a name that the layer keeps for
    /// itself, such as `status:2xx`, is replaced by `(other)`, with a warning in the log.
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

    /// Keeps these views of all requests beside `hits`: see [`Facet`] for their names. Default: none.
    #[must_use]
    pub fn facets(mut self, facets: impl IntoIterator<Item = Facet>) -> Self {
        self.settings.facets = Facets::of(&self.recorder, facets).map(Arc::new);
        self
    }

    /// Counts these labels of all requests beside `hits`, such as the sites that they came from: see [`Label`]. Default: none.
    ///
    /// # Errors
    /// Fails when the name of a label is not one, and when there are more than 8 labels over this recorder.
    pub fn labels(mut self, labels: impl IntoIterator<Item = Label>) -> Result<Self, LabelError> {
        self.settings.labels = Labels::of(&self.recorder, labels)?;
        Ok(self)
    }

    /// Keeps distributions of these measures, of `hits` and of the counter of each page. Default: none.
    ///
    /// | measure | what it is here |
    /// |---|---|
    /// | `Time` | from the call of the layer until the head of the response. Event streams, upgrades and tunnels are left out, and what was aborted or failed |
    /// | `Size` | what `Content-Length` says; 0 for an answer to `HEAD`, 204 and 304. A response that does not say it is left out: axum says it at the end, so a layer on a `Router` sees only what handlers have set, and one around it all |
    /// | `Status` | the status, of every request; 499 for one that was aborted, as nginx has it, and 0 where the inner service failed or panicked |
    /// | `Grpc` | the status in the head of a response, which calls that failed at once have; that of others comes behind their messages |
    ///
    /// `Body`, the time to the end of a response, is known only to a layer that looks through bodies: with the feature
    /// `body`, `measure_bodies` makes it one. Requests that [count on arrival](Self::count_on_request) are not measured.
    /// Each request counts once, whatever its rule says it weighs.
    ///
    /// The recorder's counters have to keep [distributions](counter_core::Builder::distributions), or nothing is
    /// measured and a warning is logged.
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
        self.settings.measures = Measures::of(measures).filter(|_| self.recorder.keeps_distributions());
        if self.settings.measures.is_none() {
            tracing::warn!("no distributions are kept: see `Builder::distributions` of counter-core");
        }
        self
    }

    /// Counts requests when they arrive and not when they end: each has the outcome [`Outcome::Arrived`], and
    /// is in no counter of [`Facet::Status`].
    #[must_use]
    pub const fn count_on_request(mut self) -> Self {
        self.settings.count_on_request = true;
        self
    }

    /// Sets whether a response waits until the store has its hit. Default: it does not.
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

    /// Counts only requests whose outcome this closure accepts; the others are `ignored.outcome` in the
    /// ledger.
    ///
    /// By default every outcome counts, and so does one on which the closure panics.
    ///
    /// ```
    /// # use counter_core::{Counters, MemoryStore};
    /// # use counter_layer::{AccessCounterLayer, Outcome};
    /// # let recorder = Counters::builder(MemoryStore::new()).build()?.recorder();
    /// let successes = AccessCounterLayer::new(recorder).count_if(|outcome| outcome.is_success());
    /// # Ok::<(), counter_core::BuildError>(())
    /// ```
    #[must_use]
    pub fn count_if(mut self, wanted: impl Fn(Outcome) -> bool + Send + Sync + 'static) -> Self {
        self.settings.count_if = Some(Arc::new(Closure::new("count_if", wanted)));
        self
    }

    /// Runs an action when a request counts, such as to add a view to the post that it shows.
    ///
    /// The closure sees each request that the rules accept as it arrives, and returns an action or `None`.
    /// The action runs once, right after the request has counted, with the outcome, which may be that the
    /// handler panicked or the request was aborted. It is dropped if [`count_if`](Self::count_if) rejects the
    /// outcome.
    ///
    /// Both run on the path of the request and should touch memory only, as `WriteBehind::add` of
    /// `counter_core` does. An action costs two allocations; without one, or without this setting, there is
    /// none. A panic in either fails no request: it reaches the panic hook, and the action is left undone.
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
    /// let views = Arc::new(AtomicU64::new(0)); // in earnest `WriteBehind`, of the post with this number
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
    /// // A browser requests a post, and so does a bot.
    /// assert_eq!(seen.load(Ordering::Relaxed), 1);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn on_count<F: FnOnce(Outcome) + Send + 'static>(
        mut self,
        look: impl Fn(&Visit<'_>) -> Option<F> + Send + Sync + 'static,
    ) -> Self {
        let look = move |visit: &Visit<'_>| look(visit).map(Then::new);
        self.settings.on_count = Some(Arc::new(Closure::new("on_count", look)));
        self
    }

    pub(crate) fn counting(&self) -> Counting {
        Counting {
            recorder: self.recorder.clone(),
            hits: self.hits,
            // It fails only where there are no visitors: see `new`.
            visitors: self.settings.identity.bind(&self.recorder).unwrap_or_default(),
            route: KnownRoute::default(),
            settings: self.settings.clone(),
            spare: Spare::default(),
            asks_for_pages: self.settings.pages.is_some() || self.settings.matched_path.is_some(),
            asks: self.settings.asks(),
            notes: self.settings.notes(),
            ends: self.settings.ends(),
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
