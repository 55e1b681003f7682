use std::fmt;
use std::sync::Arc;

use counter_core::{Agent, Counter, Recorder};
use tower_layer::Layer;

use super::facet::Facets;
use super::guard::Counting;
use super::page::Pages;
use super::route::KnownRoute;
use super::settings::Settings;
use super::visit::Then;
use super::{AccessCounter, Delivery, Facet, Outcome, Visit};
use crate::closure::Closure;
use crate::identity::{Identity, IdentityError, RequestHead};
use crate::rules::Rules;

/// Counts every request once: under `hits`, and under the template of the route that matched.
///
/// On a `Router` it counts what the router's own routes and its fallback serve; a request that no
/// route matched counts under `hits` only. Around other services there are no routes, and only `hits`.
/// A response is counted when its head is there, a failure when the inner service fails, and an
/// abandoned request when its future is dropped. Nothing of the request or the response is changed, but
/// that an [`IssuedCookie`](crate::IssuedCookie) is set where it is chosen.
///
/// A request counts when it ends. One that is under way when the salt epoch of its visitor ends, at midnight
/// as a rule, counts in the last second of that epoch: in the next one the same visitor is another one.
///
/// A panic of a closure that the layer is given, or an identity is, fails no request and takes no hit: it goes
/// to the panic hook, is logged once, and the request counts as if the closure was not there.
///
/// A visitor is a keyed hash of the client's address (of IPv6 the first 64 bits) and the user agent,
/// unless [`identity`](Self::identity) says something else. The address is that of the connection,
/// which the server must leave in the request: axum does with
/// `into_make_service_with_connect_info::<SocketAddr>()`, others insert a
/// [`SocketAddr`](std::net::SocketAddr) extension. Without one a request counts without a visitor.
/// So does that of a bot, unless [`bots_are_visitors`](Self::bots_are_visitors) is said.
///
/// See the [crate](crate) for an example.
#[derive(Clone)]
pub struct AccessCounterLayer {
    recorder: Recorder,
    /// Named first of all, so that nothing else can take its place.
    hits: Counter,
    settings: Settings,
}

/// The counter of all requests.
pub(crate) const HITS: &str = "hits";

impl AccessCounterLayer {
    /// Counts with this recorder, and tells visitors apart by their addresses under the salt of the
    /// day, which all instances over one store share.
    ///
    /// Where a visitor precision is coarser than the salt's epoch, addresses do not tell visitors apart, and
    /// there are none until a stable [`identity`](Self::identity) is set.
    #[must_use]
    pub fn new(recorder: Recorder) -> Self {
        Self { hits: recorder.counter(HITS), recorder, settings: Settings::default() }
    }

    /// Tells visitors apart by this identity, in the place of the one that was set before.
    ///
    /// All that can be chosen of visitors is a part of it: the [headers of
    /// proxies](Identity::forwarded) that are trusted, and the [key](Identity::key) that is hashed under.
    ///
    /// # Errors
    /// When the identity is not stable and a visitor precision is coarser than the salt's epoch, or it
    /// is a cookie that cannot have its name.
    pub fn identity(mut self, identity: impl Into<Identity>) -> Result<Self, IdentityError> {
        let identity = identity.into();
        identity.bind(&self.recorder)?;
        self.settings.identity = identity;
        Ok(self)
    }

    /// Tells visitors apart among bots as among people. By default a bot's requests are hits as all others
    /// are, but it is no visitor, and is given no [`IssuedCookie`](crate::IssuedCookie).
    ///
    /// Where a cookie is issued, each request of a bot that does not keep cookies is then a new visitor.
    #[must_use]
    pub const fn bots_are_visitors(mut self) -> Self {
        self.settings.bots_are_visitors = true;
        self
    }

    /// Asks a closure who makes a request, instead of
    /// [looking for words](crate::guide::visitors#bots) in its user agent. It is asked once about each
    /// request that the rules do not leave out, before that is served. When it panics, the user agent
    /// says it after all.
    ///
    /// ```
    /// # use counter_core::{Counters, MemoryStore};
    /// # use counter_layer::AccessCounterLayer;
    /// # let recorder = Counters::builder(MemoryStore::new()).build()?.recorder();
    /// use counter_core::Agent;
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

    /// Counts by these rules: under `hits`, and under the counter of the rule that decides. What they
    /// exclude, or do not want, counts nowhere and is in the ledger.
    ///
    /// Without rules every request counts, under the template of its route; a rule set with
    /// [`by_matched_path`](crate::RulesBuilder::by_matched_path) does that for what its rules leave.
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

    /// Asks a closure for the counter of a request that no rule wants, or, without rules, of one that no
    /// route matched. When it panics, the request has no counter of its own.
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

    /// Keeps these views of all requests beside `hits`: see [`Facet`] for their names. None by default.
    #[must_use]
    pub fn facets(mut self, facets: impl IntoIterator<Item = Facet>) -> Self {
        self.settings.facets = Facets::of(&self.recorder, facets).map(Arc::new);
        self
    }

    /// Counts requests when they arrive and not when their outcome is known: all of them have the
    /// outcome [`Outcome::Arrived`], and are in no counter of [`Facet::Status`].
    #[must_use]
    pub const fn count_on_request(mut self) -> Self {
        self.settings.count_on_request = true;
        self
    }

    /// Whether a response waits until the store has its hit. Default: it does not.
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

    /// Counts only requests that end in a way this closure wants; the others are
    /// `ignored.outcome` in the ledger. Without it every one counts, and so does one about which it panics.
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

    /// Counts something else along with a request, such as the views of the post that it shows.
    ///
    /// The closure looks at each request that the rules want, when it arrives, and answers with what is to be
    /// done, or with `None`. That is done once if the request counts, right after it has: with
    /// the outcome, which may be that it panicked or was aborted. It is dropped if
    /// [`count_if`](Self::count_if) does not want the outcome.
    ///
    /// Both run on the way of the request: they should touch memory only, as
    /// `Additions::add` of `counter_core` does. What is to be done costs two allocations; where nothing is, and
    /// where this is not set, there is none. A panic in them fails no request: it goes to the panic hook, and
    /// what they were to do is left undone.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use std::sync::atomic::{AtomicU64, Ordering};
    ///
    /// # use axum::{Router, routing::get};
    /// # use counter_core::{Counters, MemoryStore};
    /// # use counter_layer::{AccessCounterLayer, Outcome};
    /// # use tower::ServiceExt;
    /// use counter_core::Agent;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let recorder = Counters::builder(MemoryStore::new()).build()?.recorder();
    /// let views = Arc::new(AtomicU64::new(0)); // in earnest `Additions`, of the post with this number
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
    /// // Somebody asks for a post, and a bot does.
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
}

impl fmt::Debug for AccessCounterLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AccessCounterLayer").field("facets", &self.settings.facets).finish_non_exhaustive()
    }
}

impl<S> Layer<S> for AccessCounterLayer {
    type Service = AccessCounter<S>;

    fn layer(&self, inner: S) -> AccessCounter<S> {
        // It fails only where there are no visitors: see `new`.
        let visitors = self.settings.identity.bind(&self.recorder).unwrap_or_default();
        let counting = Counting {
            recorder: self.recorder.clone(),
            hits: self.hits,
            visitors,
            route: KnownRoute::default(),
            settings: self.settings.clone(),
        };
        AccessCounter::new(inner, Arc::new(counting))
    }
}
