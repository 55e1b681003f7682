//! Rules: from a request to its counter.
//!
//! The reference is at [`Rules`](crate::Rules), with a table of the patterns. This page goes through them by examples.
//! In the examples, `counter(&rules, path)` is the name of the counter that a `GET` of that path feeds, if any.
//!
//! # Without rules
//!
//! Every request counts under `hits`, and under the template of the axum route that matched it. A request that no
//! route matched counts under `hits` only: the path itself never names a counter, unless it is a method of
//! [gRPC](#grpc) that exists.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # use axum::{Router, body::Body, routing::get};
//! # use counter_core::{Counters, MemoryStore};
//! # use counter_layer::AccessCounterLayer;
//! # use tower::ServiceExt;
//! # let mut counters = Counters::builder(MemoryStore::new()).build()?;
//! let app: Router = Router::new()
//!     .route("/articles/{id}", get(async || "an article"))
//!     .layer(AccessCounterLayer::new(counters.recorder()));
//! for path in ["/articles/1", "/articles/2", "/wp-login.php"] {
//!     app.clone().oneshot(http::Request::get(path).body(Body::empty())?).await?;
//! }
//!
//! counters.flush().await?;
//! let known = counters.stats().list_counters(None, 10).await?.counters;
//! let names: Vec<_> = known.iter().map(|(name, _)| &**name).collect();
//! assert_eq!(names, ["/articles/{id}", "hits"]);
//! assert_eq!(counters.stats().ledger().requests.recorded, 3);
//! # Ok(())
//! # }
//! ```
//!
//! # With rules
//!
//! A request counts under `hits` and under the one counter that the rules find. If they find none, it counts nowhere,
//! not even under `hits`, and is `unmatched` in the ledger. Three settings catch such requests, in this order:
//! [`by_matched_path`](crate::RulesBuilder::by_matched_path) uses the template of the router,
//! [`default_counter`](crate::RulesBuilder::default_counter) names a counter, and a closure of the layer,
//! [`fallback`](crate::AccessCounterLayer::fallback), decides about the remaining ones. Without rules the closure decides
//! about requests that no route matched.
//!
//! ```
//! # use counter_layer::{Decision, Rule, Rules};
//! # use http::Method;
//! let rules = Rules::builder().by_matched_path().default_counter("rest").build()?;
//! let decision = |template| rules.decide(&Method::GET, "/a/1", template);
//! assert_eq!(decision(Some("/a/{id}")), Decision::MatchedPath("/a/{id}"));
//! assert_eq!(decision(None), Decision::DefaultCounter("rest"));
//!
//! let rules = Rules::builder().rule(Rule::counter("home").pattern("")).build()?;
//! assert_eq!(rules.decide(&Method::GET, "/a/1", Some("/a/{id}")), Decision::Unmatched);
//! # Ok::<(), counter_layer::RulesError>(())
//! ```
//!
//! # Patterns
//!
//! Exact, prefix and extension patterns are those of the Jakarta Servlet specification. Templates are written like
//! the routes of axum: a parameter is one segment that is not empty, and `{*rest}` is everything below, at least one
//! character. The empty pattern is the home page. Several patterns may feed one counter.
//!
//! ```
//! # use counter_layer::{Rule, Rules};
//! # fn counter<'a>(rules: &'a Rules, path: &str) -> Option<&'a str> {
//! #     rules.decide(&http::Method::GET, path, None).counter()
//! # }
//! let rules = Rules::builder()
//!     .rule(Rule::counter("home").pattern("").pattern("/index.html"))
//!     .rule(Rule::counter("article").pattern("/articles/{id}"))
//!     .rule(Rule::counter("file").pattern("/files/{*rest}"))
//!     .rule(Rule::counter("shop").pattern("/shop/*"))
//!     .rule(Rule::counter("images").pattern("*.png").pattern("*.jpg"))
//!     .build()?;
//!
//! for (path, expected) in [
//!     ("/", Some("home")),
//!     ("/index.html", Some("home")),
//!     ("/index.html/", None), // an exact pattern is exact
//!     ("/articles/7", Some("article")),
//!     ("/articles/7/", None),
//!     ("/articles/", None),
//!     ("/files/a/b", Some("file")),
//!     ("/files/", None),
//!     ("/shop", Some("shop")),
//!     ("/shop/cart/7", Some("shop")),
//!     ("/shopping", None), // a prefix ends at a slash
//!     ("/a/b/cat.png", Some("images")),
//!     ("/cat.PNG", None), // the case of letters matters
//!     ("/cat.png/large", None), // only the last segment has an extension
//! ] {
//!     assert_eq!(counter(&rules, path), expected, "{path}");
//! }
//! # Ok::<(), counter_layer::RulesError>(())
//! ```
//!
//! # The most specific pattern decides
//!
//! An exact pattern wins over a template, a template over the longest prefix, and a prefix over an extension. The
//! order in which rules are written has no meaning. An exclude wins over all of them, whatever its kind.
//!
//! ```
//! # use counter_layer::{Rule, Rules};
//! # fn counter<'a>(rules: &'a Rules, path: &str) -> Option<&'a str> {
//! #     rules.decide(&http::Method::GET, path, None).counter()
//! # }
//! let rules = Rules::builder()
//!     .rule(Rule::counter("extension").pattern("*.html"))
//!     .rule(Rule::counter("prefix").pattern("/a/*"))
//!     .rule(Rule::counter("longer prefix").pattern("/a/b/*"))
//!     .rule(Rule::counter("template").pattern("/a/{page}"))
//!     .rule(Rule::counter("exact").pattern("/a/b.html"))
//!     .exclude("/a/b/private/*")
//!     .exclude("*.ico")
//!     .build()?;
//!
//! for (path, expected) in [
//!     ("/a/b.html", Some("exact")),
//!     ("/a/c.html", Some("template")),
//!     ("/a/b/c/d.html", Some("longer prefix")),
//!     ("/a/c/d.html", Some("prefix")),
//!     ("/d.html", Some("extension")),
//!     ("/a/b/private/d.html", None),
//!     ("/a/b.ico", None),
//! ] {
//!     assert_eq!(counter(&rules, path), expected, "{path}");
//! }
//! # Ok::<(), counter_layer::RulesError>(())
//! ```
//!
//! # Methods
//!
//! A rule without methods applies to all of them. For requests with other methods, a rule does not exist, and a less
//! specific one may match. `GET` includes `HEAD`, unless a rule names `HEAD` for the same pattern. An exclude applies to
//! every method. `OPTIONS` is a method like the others.
//!
//! ```
//! # use counter_layer::{Rule, Rules};
//! # use http::Method;
//! let rules = Rules::builder()
//!     .rule(Rule::counter("read").pattern("/articles/{id}").method(Method::GET))
//!     .rule(Rule::counter("written").pattern("/articles/{id}").method(Method::PUT).method(Method::PATCH))
//!     .rule(Rule::counter("other").pattern("/articles/*"))
//!     .build()?;
//!
//! for (method, expected) in [
//!     (Method::GET, "read"),
//!     (Method::HEAD, "read"),
//!     (Method::PUT, "written"),
//!     (Method::OPTIONS, "other"),
//! ] {
//!     let decision = rules.decide(&method, "/articles/7", None);
//!     assert_eq!(decision.counter(), Some(expected), "{method}");
//! }
//! # Ok::<(), counter_layer::RulesError>(())
//! ```
//!
//! # Health checks and prefetches
//!
//! Requests for a page that no person looks at can be left out. A health check has a path of its own, which is excluded,
//! and the ledger counts it as `excluded`. A browser that fetches a page ahead of a visit says so in a header,
//! `Sec-Purpose: prefetch`, or one of the older `Purpose`, `X-Purpose` and `X-Moz`:
//! [`exclude_prefetch`](crate::RulesBuilder::exclude_prefetch) leaves out such requests if they would count otherwise,
//! and the ledger counts them as `ignored.prefetch`.
//!
//! ```
//! # use std::convert::Infallible;
//! # use counter_core::{Counters, MemoryStore};
//! # use counter_layer::{AccessCounterLayer, Rules};
//! # use http::{Request, Response};
//! # use tower::{Layer, ServiceExt, service_fn};
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let counters = Counters::builder(MemoryStore::new()).build()?;
//! let rules = Rules::builder().exclude("/healthz").exclude_prefetch().default_counter("pages").build()?;
//! let layer = AccessCounterLayer::new(counters.recorder()).rules(rules);
//!
//! for (path, header, value) in [
//!     ("/articles/7", "accept", "text/html"), // a visit
//!     ("/healthz", "accept", "*/*"),
//!     ("/articles/8", "sec-purpose", "prefetch"),
//!     ("/articles/9", "sec-purpose", "prefetch;prerender"),
//!     ("/", "x-purpose", "preview"),
//! ] {
//!     let request = Request::get(path).header(header, value).body(())?;
//! #     let service = layer.layer(service_fn(|_| async { Ok::<_, Infallible>(Response::new(())) }));
//! #     service.oneshot(request).await?;
//! }
//!
//! let requests = counters.stats().ledger().requests;
//! assert_eq!((requests.recorded, requests.excluded, requests.ignored.prefetch), (1, 1, 3));
//! # Ok(())
//! # }
//! ```
//!
//! A page that was fetched ahead and is then looked at comes out of the browser's cache, usually without another
//! request. Such a visit is in no counter.
//!
//! # Paths
//!
//! Before a path is compared, it is normalised: path parameters are cut off, needless percent-encodings decoded, slashes
//! joined, dots resolved. Necessary encodings stay, and so does a slash at the end. A path of more than 8,192 bytes
//! matches nothing, and neither the router's template nor `default_counter` catches it.
//!
//! ```
//! # use counter_layer::{Decision, Rules};
//! # use http::Method;
//! let rules = Rules::builder().default_counter("rest").build()?;
//! for (path, compared) in [
//!     ("/a;jsessionid=1/b;v=2", Some("/a/b")),
//!     ("/%61/b", Some("/a/b")),
//!     ("//a///b", Some("/a/b")),
//!     ("/a/./c/../b", Some("/a/b")),
//!     ("/../../a/b", Some("/a/b")), // never above the root
//!     ("/a/%2e%2e/b", Some("/b")),
//!     ("/a/b/", Some("/a/b/")),
//!     ("/a%2fb", Some("/a%2Fb")), // no separator
//!     ("/caf\u{e9}", Some("/caf%C3%A9")),
//!     ("/%ff", Some("/%FF")), // not UTF-8
//!     ("/100%", Some("/100%25")), // no encoding at all
//!     ("*", None), // OPTIONS * has no path
//! ] {
//!     assert_eq!(rules.explain(&Method::GET, path, None).path.as_deref(), compared, "{path}");
//! }
//! let long = format!("/{}", "a".repeat(8192));
//! assert_eq!(rules.decide(&Method::GET, &long, None), Decision::PathTooLong(8193));
//! # Ok::<(), counter_layer::RulesError>(())
//! ```
//!
//! Rules see the path of the request where the layer stands. Inside of axum's `nest` that is the path without the
//! prefix, while the template of the route includes it:
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # use axum::{Router, body::Body, routing::get};
//! # use counter_core::{Counters, MemoryStore};
//! # use counter_layer::{AccessCounterLayer, Rule, Rules};
//! # use tower::ServiceExt;
//! # let mut counters = Counters::builder(MemoryStore::new()).build()?;
//! let rules = Rules::builder()
//!     .rule(Rule::counter("users").pattern("/users/*")) // not "/api/users/*"
//!     .by_matched_path()
//!     .build()?;
//! let api = Router::new()
//!     .route("/users/{id}", get(async || "a user"))
//!     .route("/orders/{id}", get(async || "an order"))
//!     .layer(AccessCounterLayer::new(counters.recorder()).rules(rules));
//! let app: Router = Router::new().nest("/api", api);
//! for path in ["/api/users/1", "/api/orders/1"] {
//!     app.clone().oneshot(http::Request::get(path).body(Body::empty())?).await?;
//! }
//!
//! counters.flush().await?;
//! let known = counters.stats().list_counters(None, 10).await?.counters;
//! let names: Vec<_> = known.iter().map(|(name, _)| &**name).collect();
//! assert_eq!(names, ["/api/orders/{id}", "hits", "users"]);
//! # Ok(())
//! # }
//! ```
//!
//! # Below routers, services and folders
//!
//! What axum says about a request depends on how its handler was mounted. Without rules, or with
//! [`by_matched_path`](crate::RulesBuilder::by_matched_path), a request counts under `hits` and:
//!
//! | where it is served, with the layer around the whole router unless said | request | counts under |
//! |---|---|---|
//! | `nest("/api", router)`, also with the layer on the router inside | `/api/users/7` | `/api/users/{id}` |
//! | the same, by the fallback of either router | `/api/nothing` | nothing more |
//! | `nest("/{tenant}", …nest("/api", router))` | `/a/api/users/7` | `/{tenant}/api/users/{id}` |
//! | `merge(router)` | `/users/7` | `/users/{id}` |
//! | `nest_service("/api", router)` | `/api/users/7` | nothing more: axum names no template here |
//! | `nest_service("/api", router.layer(…))`, with the layer inside | `/api/users/7` | `/api/users/{id}` |
//! | `nest_service("/assets", ServeDir)` | `/assets/app.js` | nothing more |
//! | `route_service("/assets/{*file}", …)` | `/assets/app.js`, or a file that is not there | `/assets/{*file}` |
//! | `fallback_service(ServeDir)` | `/app.js` | nothing more |
//! | a service without axum | any | nothing more |
//!
//! Files are best counted by rules, which need no router: by folder, by extension, or by name. The names have to be those
//! of files that are there, listed when the service starts, and at most so many: a client can ask for any other.
//!
//! ```
//! # use counter_layer::{Rule, Rules};
//! # fn counter<'a>(rules: &'a Rules, path: &str) -> Option<&'a str> {
//! #     rules.decide(&http::Method::GET, path, None).counter()
//! # }
//! let rules = Rules::builder()
//!     .rule(Rule::counter("styles").pattern("*.css"))
//!     .rule(Rule::counter("downloads").pattern("/downloads/*"))
//!     .by_matched_path();
//! let downloads = ["manual.pdf", "setup.exe"]; // in earnest from `std::fs::read_dir`
//! let rules = downloads.iter().take(500).fold(rules, |rules, file| {
//!     let path = format!("/downloads/{file}");
//!     rules.rule(Rule::counter(&path).pattern(&path))
//! });
//! let rules = rules.build()?;
//! assert_eq!(counter(&rules, "/downloads/manual.pdf"), Some("/downloads/manual.pdf"));
//! assert_eq!(counter(&rules, "/downloads/manual-1.pdf"), Some("downloads"));
//! assert_eq!(counter(&rules, "/themes/dark.css"), Some("styles"));
//! # Ok::<(), counter_layer::RulesError>(())
//! ```
//!
//! # gRPC
//!
//! A call of gRPC is a `POST` of `application/grpc` or the like. Its method is its route: `/package.Service/Method` is
//! the name of a counter, before any template of a router. Rules come before it.
//!
//! Clients can ask for any method, so a method has its counter from its first success on: an answer with messages, or one
//! that says `grpc-status: 0`. A call that fails before that counts as if there were no method, which is under `hits`
//! without rules. After it all calls of the method count under it, however they end. To have the counter from the start,
//! name the methods to the recorder, for example from the descriptor of the service:
//!
//! ```
//! # use counter_core::{Counters, MemoryStore};
//! # use counter_layer::AccessCounterLayer;
//! # let counters = Counters::builder(MemoryStore::new()).build()?;
//! let recorder = counters.recorder();
//! for method in ["Check", "Watch"] {
//!     _ = recorder.counter(&format!("/grpc.health.v1.Health/{method}"));
//! }
//! let layer = AccessCounterLayer::new(recorder);
//! # Ok::<(), counter_core::BuildError>(())
//! ```
//!
//! A call that fails is an answer with status 200, and so to [`Facet::Status`](crate::Facet::Status) a success. Its own
//! status comes behind the messages: `GrpcStatusLayer`, with the feature `grpc`, counts it.
//!
//! # Explaining a decision
//!
//! [`explain`](crate::Rules::explain) decides by the same code as the layer, and says why. It knows the rules only: not
//! the layer's closures `fallback` and `count_if`, and not what the headers say about a prefetch. After `by_matched_path`
//! the template of the route may decide; an explanation without one says so.
//!
//! ```
//! # use counter_layer::{Rule, Rules};
//! # use http::Method;
//! let rules = Rules::builder().rule(Rule::counter("api").pattern("/api/*")).exclude("*.ico").build()?;
//! let words = |path| rules.explain(&Method::GET, path, None).to_string();
//! assert_eq!(
//!     words("/x/../api/7"),
//!     "GET /api/7 counts under \"api\" by the prefix pattern \"/api/*\": \
//!      no exact pattern and no template match, and it is the longest prefix",
//! );
//! assert_eq!(
//!     words("/a.ico"),
//!     r#"GET /a.ico is excluded by the extension pattern "*.ico", whatever the rules say"#,
//! );
//! assert_eq!(words("/about"), "GET /about is matched by no rule");
//! # Ok::<(), counter_layer::RulesError>(())
//! ```
//!
//! # What is refused
//!
//! [`build`](crate::RulesBuilder::build) refuses the name of a counter that the layer feeds itself: `hits`, `(other)`, and
//! those of [facets](crate::Facet). It refuses a pattern that could never match, since it would count nothing without
//! any sign of it; a pattern that different readers would understand differently; and two patterns of equal rank that
//! match the same requests, since the order would have to decide. The error says what to write instead.
//!
//! ```
//! # use counter_layer::{Rule, Rules};
//! for (pattern, words) in [
//!     ("/articles/:id", "write {id}"), // the syntax of older routers
//!     ("/articles/{id", "unpaired brace"),
//!     ("/a/*/b", "write {name} for one segment"),
//!     ("/a/{id}/*", "write /{*rest}"),
//!     ("articles", "does not begin with a slash"),
//!     ("*.tar.gz", "is not one extension"),
//!     ("/a//b", "two slashes"),
//!     ("/a/../b", "write the path it leads to"),
//!     ("/a;v=1", "write it without"),
//!     ("/a?b=c", "write the path only"),
//!     ("/%61", "write a"), // paths are compared with it decoded
//!     ("/", "the home page"), // the rest to some, the home page to others
//! ] {
//!     let error = Rules::builder().rule(Rule::counter("a").pattern(pattern)).build().unwrap_err();
//!     assert!(error.to_string().contains(words), "{error}");
//! }
//!
//! for (one, other) in [("/a", "/a"), ("/a/{x}", "/a/{y}"), ("/a/{x}", "/a/{*rest}")] {
//!     let rules = Rules::builder().rule(Rule::counter("one").pattern(one));
//!     let error = rules.rule(Rule::counter("other").pattern(other)).build().unwrap_err();
//!     let words = format!(
//!         "the patterns {one:?} for \"one\" and {other:?} for \"other\" match the same requests: \
//!          leave one out, or give the rules different methods"
//!     );
//!     assert_eq!(error.to_string(), words);
//! }
//! ```
//!
//! # How many counters there are
//!
//! There are as many counters as rules, templates, facets and `fallback` name, up to
//! [`max_counters`](counter_core::Builder::max_counters), 2,000 by default. Names beyond that count under `(other)`, so
//! that totals stay exact, and as `overflow` in the ledger; the first is a [hint](crate::guide#hints). `hits` takes its
//! slot when the layer is made, the names of rules and facets when they are given to it, templates when they are first
//! used, and methods of gRPC when they first succeed.
