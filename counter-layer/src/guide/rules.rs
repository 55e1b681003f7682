//! Rules: how a request is mapped to a counter.
//!
//! See [`Rules`](crate::Rules) for the reference, with a table of the patterns. This page explains rules with
//! examples, using a helper: `counter(&rules, path)` returns the counter for a `GET` request with this path,
//! if any.
//!
//! # Without rules
//!
//! All requests count in `hits`, and in the counter of the matched axum route, named by the route template.
//! If no route matched, the request only counts in `hits`: the path is never used as a counter name, except
//! for existing [gRPC](#grpc) methods.
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
//! A request counts in `hits` and in the counter found by the rules. If they don't find a counter, the
//! request will not count at all, not even in `hits`, and is `unmatched` in the ledger, except for a
//! [missing page](crate::Label::not_found) if these are counted. You can configure
//! three fallbacks, applied in this order: [`by_matched_path`](crate::RulesBuilder::by_matched_path) uses the
//! router template, [`default_counter`](crate::RulesBuilder::default_counter) sets a counter name, and the
//! layer's [`fallback`](crate::AccessCounterLayer::fallback) closure decides for the remaining requests.
//! Without rules, this closure decides for requests that did not match a route.
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
//! Exact, prefix and extension patterns work as in the Jakarta Servlet specification. Templates use the
//! syntax of axum routes: a parameter matches one non-empty segment, and `{*rest}` matches everything below,
//! with at least one character. The empty pattern is the home page. A counter can have multiple patterns.
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
//!     ("/index.html/", None), // exact patterns must match the whole path
//!     ("/articles/7", Some("article")),
//!     ("/articles/7/", None),
//!     ("/articles/", None),
//!     ("/files/a/b", Some("file")),
//!     ("/files/", None),
//!     ("/shop", Some("shop")),
//!     ("/shop/cart/7", Some("shop")),
//!     ("/shopping", None), // a prefix must end at a slash
//!     ("/a/b/cat.png", Some("images")),
//!     ("/cat.PNG", None), // patterns are case-sensitive
//!     ("/cat.png/large", None), // only the last segment can have an extension
//! ] {
//!     assert_eq!(counter(&rules, path), expected, "{path}");
//! }
//! # Ok::<(), counter_layer::RulesError>(())
//! ```
//!
//! # The most specific pattern wins
//!
//! An exact pattern wins over a template, a template over the longest prefix, and a prefix over an extension.
//! The order of the rules does not matter. Excludes always win, regardless of the kind of pattern.
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
//! A rule without methods applies to all methods. Otherwise the rule is ignored for requests with different
//! methods, so a less specific rule might match instead. `GET` includes `HEAD`, but a rule with `HEAD` for
//! the same pattern takes precedence. An exclude applies to all methods. `OPTIONS` is handled like any other
//! method.
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
//! You can exclude requests that are not visits by people. For health checks, exclude the path; the ledger
//! counts these requests as `excluded`. A browser prefetching a page sends the header `Sec-Purpose:
//! prefetch`, or the older `Purpose`, `X-Purpose` or `X-Moz`. To ignore such requests if they would otherwise
//! count, use [`exclude_prefetch`](crate::RulesBuilder::exclude_prefetch); the ledger counts these as
//! `ignored.prefetch`.
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
//! If a prefetched page is visited later, it is loaded from the browser cache, usually without another
//! request. Such a visit will not be counted.
//!
//! # Own visits
//!
//! On a small site, the people who run it can be a large part of the visitors. Use
//! [`ignore`](crate::AccessCounterLayer::ignore) to leave out their networks, requests with a header that your
//! proxy sets, or browsers with a [cookie](crate::Ignore::cookie). The dashboard can set the cookie. The ledger
//! counts these requests as `ignored.own`, but no counter includes them.
//!
//! # Paths
//!
//! Paths are normalised before matching: path parameters are removed, unnecessary percent-encodings decoded,
//! multiple slashes merged, and dot segments resolved. Necessary encodings are kept, and so is a trailing
//! slash. A path longer than 8,192 bytes does not match anything; the router template and `default_counter`
//! don't apply either.
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
//!     ("/../../a/b", Some("/a/b")), // can't go above the root
//!     ("/a/%2e%2e/b", Some("/b")),
//!     ("/a/b/", Some("/a/b/")),
//!     ("/a%2fb", Some("/a%2Fb")), // not a separator
//!     ("/caf\u{e9}", Some("/caf%C3%A9")),
//!     ("/%ff", Some("/%FF")), // not UTF-8
//!     ("/100%", Some("/100%25")), // not an encoding
//!     ("*", None), // OPTIONS * does not have a path
//! ] {
//!     assert_eq!(rules.explain(&Method::GET, path, None).path.as_deref(), compared, "{path}");
//! }
//! let long = format!("/{}", "a".repeat(8192));
//! assert_eq!(rules.decide(&Method::GET, &long, None), Decision::PathTooLong(8193));
//! # Ok::<(), counter_layer::RulesError>(())
//! ```
//!
//! Rules are applied to the request path as seen by the layer. Inside of axum's `nest`, this path does not
//! include the prefix, but the route template does:
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
//! # Nested routers, services and folders
//!
//! How axum reports the matched route depends on how you add the handler. Without rules, or with
//! [`by_matched_path`](crate::RulesBuilder::by_matched_path), a request counts in `hits` and in the counter
//! shown here:
//!
//! | served by, with the layer around the whole router unless noted | request | counter |
//! |---|---|---|
//! | `nest("/api", router)`, also with the layer on the inner router | `/api/users/7` | `/api/users/{id}` |
//! | the same, via the fallback of either router | `/api/nothing` | none |
//! | `nest("/{tenant}", …nest("/api", router))` | `/a/api/users/7` | `/{tenant}/api/users/{id}` |
//! | `merge(router)` | `/users/7` | `/users/{id}` |
//! | `nest_service("/api", router)` | `/api/users/7` | none: axum does not report a template here |
//! | `nest_service("/api", router.layer(…))`, with the layer inside | `/api/users/7` | `/api/users/{id}` |
//! | `nest_service("/assets", ServeDir)` | `/assets/app.js` | none |
//! | `route_service("/assets/{*file}", …)` | `/assets/app.js`, or a file that does not exist | `/assets/{*file}` |
//! | `fallback_service(ServeDir)` | `/app.js` | none |
//! | a service without axum | any | none |
//!
//! To count files, it is best to use rules, which don't need a router: by folder, by extension, or by name.
//! If you count by name, list the existing files when the service starts, and limit the number of files:
//! clients can request any other name.
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
//! let downloads = ["manual.pdf", "setup.exe"]; // in practice from `std::fs::read_dir`
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
//! A gRPC call is a `POST` with the media type `application/grpc` or similar. The method is used as the
//! route, i.e. the counter is named `/package.Service/Method`, and this takes precedence over a router
//! template. Rules are applied first.
//!
//! Since clients can call any method, a method gets a counter only after the first success: a response with
//! messages or with `grpc-status: 0`. If a call fails before this, it counts as if the method did not exist,
//! i.e. in `hits` when you don't use rules. After this, all calls to the method are counted, regardless of
//! the status. If you need the counter from the start, register the methods with the recorder, e.g. from the
//! service descriptor:
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
//! A failed call is still a response with status 200, so [`Facet::Status`](crate::Facet::Status) counts it as
//! a success. The gRPC status is sent after the messages; use `GrpcStatusLayer` with the feature `grpc` to
//! count it.
//!
//! # Explaining a decision
//!
//! [`explain`](crate::Rules::explain) uses the same code as the layer, and returns the reason as well. It is
//! limited to the rules: it does not include the layer's `fallback` and `count_if` closures, or prefetch
//! headers. With `by_matched_path`, the result can depend on the route template; if you don't pass a
//! template, the explanation will mention this.
//!
//! ```
//! # use counter_layer::{Rule, Rules};
//! # use http::Method;
//! let rules = Rules::builder().rule(Rule::counter("api").pattern("/api/*")).exclude("*.ico").build()?;
//! let words = |path| rules.explain(&Method::GET, path, None).to_string();
//! assert_eq!(
//!     words("/x/../api/7"),
//!     "GET /api/7 counts under \"api\" by the prefix pattern \"/api/*\": \
//!      no exact pattern or template matches, and this is the longest prefix",
//! );
//! assert_eq!(
//!     words("/a.ico"),
//!     r#"GET /a.ico is excluded by the extension pattern "*.ico", which takes precedence over rules"#,
//! );
//! assert_eq!(words("/about"), "GET /about does not match any rule");
//! # Ok::<(), counter_layer::RulesError>(())
//! ```
//!
//! # Rejected rules
//!
//! [`build`](crate::RulesBuilder::build) returns an error for counter names that are reserved by the layer:
//! `hits`, `(other)`, the [facet](crate::Facet) names, and names that start with `label:` or `view:`. It also rejects patterns that can never match,
//! because otherwise a counter would silently stay empty; patterns that are ambiguous to readers; and two
//! patterns of equal rank matching the same requests, because then the order would matter. The error message
//! includes a suggestion.
//!
//! ```
//! # use counter_layer::{Rule, Rules};
//! for (pattern, words) in [
//!     ("/articles/:id", "write {id}"), // syntax of older routers
//!     ("/articles/{id", "unpaired brace"),
//!     ("/a/*/b", "write {name} for one segment"),
//!     ("/a/{id}/*", "write /{*rest}"),
//!     ("articles", "does not start with a slash"),
//!     ("*.tar.gz", "is not a single extension"),
//!     ("/a//b", "two slashes"),
//!     ("/a/../b", "write the resolved path"),
//!     ("/a;v=1", "remove it"),
//!     ("/a?b=c", "write the path only"),
//!     ("/%61", "write a"), // paths are decoded first
//!     ("/", "the home page"), // either the default or the home page
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
//!          remove one, or give the rules different methods"
//!     );
//!     assert_eq!(error.to_string(), words);
//! }
//! ```
//!
//! # How many counters there are
//!
//! Counters are created for rules, templates, facets and `fallback`, up to
//! [`max_counters`](counter_core::Builder::max_counters), 2,000 by default. Further names count in `(other)`,
//! to keep totals exact, and as `overflow` in the ledger; you will also get a [hint](crate::guide#hints).
//! `hits` gets a slot when the layer is created, rules and facets when you add them to the layer, templates
//! when they are first used, and gRPC methods after the first success.
