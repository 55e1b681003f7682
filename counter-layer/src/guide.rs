//! Guides: how requests are counted, and how to identify visitors.
//!
//! # What to read
//!
//! - [The crate](crate): a complete example.
//! - [`rules`]: how a request is mapped to a counter. You should read this before you write a pattern.
//! - [`visitors`]: how to identify visitors. You need this if the service runs behind a proxy or on several
//!   instances, or if you have to explain how personal data is handled: it contains the privacy statement.
//! - [`labels`]: where requests come from, i.e. referrers, campaigns, devices, languages, countries and API
//!   keys.
//! - `limit`, with the `limit` feature: how to limit requests per window.
//! - [`comparison`]: what this and others are for, with features and costs.
//! - [`AccessCounterLayer`](crate::AccessCounterLayer): the settings.
//! - [`counter_core`]: hits, buckets, precisions, retention, the ledger, and how to query the counts.
//!
//! # What happens to a request
//!
//! 1. The request arrives. The rules decide on the counter, the user agent is classified as human or bot, and
//!    a human request will be assigned to a visitor. All this happens in memory, before the inner service is
//!    called.
//! 2. The inner service responds, fails or panics, or the client disconnects. This is the
//!    [`Outcome`](crate::Outcome) of the request, and it is reported exactly once. If you set
//!    [`count_on_request`](crate::AccessCounterLayer::count_on_request), the request is counted on arrival
//!    instead.
//! 3. If the request counts, the layer adds a hit to `hits`, to the selected counter, and to the configured
//!    [`Facet`](crate::Facet) and [`Label`](crate::Label) counters. Then it runs the
//!    [`on_count`](crate::AccessCounterLayer::on_count) closure, e.g. to add a view to a post. If the request
//!    does not count, you can find the reason in the ledger.
//! 4. The next flush will send the hits to the store. With
//!    [`Delivery::BeforeResponse`](crate::Delivery::BeforeResponse), the response has to wait for this flush,
//!    up to a timeout; requests waiting at the same time share a call.
//!
//! In the ledger, a request is always counted as exactly one of these four decisions:
//!
//! ```
//! use std::convert::Infallible;
//!
//! use counter_core::{Counters, MemoryStore};
//! use counter_layer::{AccessCounterLayer, Rule, Rules};
//! use http::{Request, Response, StatusCode};
//! use tower::{Layer, ServiceExt, service_fn};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let counters = Counters::builder(MemoryStore::new()).build()?;
//! let rules = Rules::builder()
//!     .rule(Rule::counter("articles").pattern("/articles/*"))
//!     .exclude("/articles/feed.xml")
//!     .build()?;
//! let layer = AccessCounterLayer::new(counters.recorder())
//!     .rules(rules)
//!     .count_if(|outcome| outcome.is_success());
//!
//! for path in ["/articles/1", "/articles/2", "/articles/missing", "/articles/feed.xml", "/about"] {
//!     let service = layer.layer(service_fn(|request: Request<()>| async move {
//!         let mut response = Response::new(());
//!         if request.uri().path().ends_with("missing") {
//!             *response.status_mut() = StatusCode::NOT_FOUND;
//!         }
//!         Ok::<_, Infallible>(response)
//!     }));
//!     service.oneshot(Request::get(path).body(())?).await?;
//! }
//!
//! let requests = counters.stats().ledger().requests;
//! assert_eq!(requests.observed, 5);
//! assert_eq!(requests.recorded, 2); // the articles
//! assert_eq!(requests.ignored.outcome, 1); // rejected by `count_if`
//! assert_eq!(requests.excluded, 1); // the feed
//! assert_eq!(requests.unmatched, 1); // no rule for /about
//! # Ok(())
//! # }
//! ```
//!
//! # Compatible versions
//!
//! The layer is a [`tower_layer::Layer`] for `http` requests, so it must be used with the same version of the
//! `http` crate. Request extensions are found by type. If you use another version of axum, the code compiles,
//! but these types differ, so you have to supply the route and the address via closures.
//!
//! | used with | compatible | routes and addresses |
//! |---|---|---|
//! | axum 0.8 | yes | automatic, with the feature `axum` (default) and `into_make_service_with_connect_info::<SocketAddr>()` |
//! | axum 0.7, and versions after 0.8 | yes, with http 1 | [`matched_path`](crate::AccessCounterLayer::matched_path) and [`peer_from_fn`](crate::Address::peer_from_fn) |
//! | axum 0.6 and earlier | no: http 0.2 | |
//! | http 1 | yes | |
//! | http 0.2 | no | |
//! | hyper 1, with `hyper-util` | yes | [rules], and a [`SocketAddr`](std::net::SocketAddr) extension |
//! | hyper 0.14 and earlier | no: http 0.2 | |
//! | tower 0.4 and 0.5 | yes: `tower-layer` 0.3, `tower-service` 0.3 | |
//! | tonic 0.12 and later | yes, with http 1 | [rules]: the path of a call is the gRPC method |
//! | other routers for http 1 | yes | [`matched_path`](crate::AccessCounterLayer::matched_path) or [rules], and [`peer_from_fn`](crate::Address::peer_from_fn) |
//!
//! With axum 0.7:
//!
//! ```
//! # mod axum_07 { pub mod extract {
//! #     #[derive(Clone)] pub struct MatchedPath(String);
//! #     impl MatchedPath { pub fn as_str(&self) -> &str { &self.0 } }
//! #     #[derive(Clone)] pub struct ConnectInfo<T>(pub T);
//! # } }
//! # use counter_core::{Counters, MemoryStore};
//! # use counter_layer::{AccessCounterLayer, Identity};
//! # let recorder = Counters::builder(MemoryStore::new()).build()?.recorder();
//! use std::net::SocketAddr;
//!
//! use axum_07::extract::{ConnectInfo, MatchedPath};
//!
//! let peer = Identity::peer()
//!     .peer_from_fn(|head| Some(head.extensions.get::<ConnectInfo<SocketAddr>>()?.0.ip()));
//! let layer = AccessCounterLayer::new(recorder)
//!     .matched_path(|head| Some(head.extensions.get::<MatchedPath>()?.as_str()))
//!     .identity(peer)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Hints
//!
//! In some setups the numbers will be wrong although nothing fails. The layer watches for signs of this, and
//! reports them as hints. A hint is logged as a warning once, and listed in
//! [`Health::hints`](counter_core::Health::hints), i.e. in `/api/health`, on the dashboard and in the metric
//! `access_counter_hints`. It is withdrawn if a later request disproves it.
//!
//! | hint | sign | what to do |
//! |---|---|---|
//! | `no_matched_path` | the first 100 requests did not have a matched path, and you set neither rules nor a [`fallback`](crate::AccessCounterLayer::fallback): only `hits` counts | add the layer to the router, or see the versions above |
//! | `no_peer_address` | the first 100 human requests did not have an address, so visitors can't be counted | `into_make_service_with_connect_info`, or see the versions above |
//! | `no_identity` | the first 100 human requests did not have the cookie, header or extension of the [identity](crate::Identity) | check the name and type, and that the extension is inserted outside of this layer |
//! | `untrusted_forwarding` | 10 of the first 1,000 human requests had `Forwarded` or `X-Forwarded-For`, but the identity is the peer address | [`Identity::forwarded`](crate::Identity::forwarded), if you trust the proxy |
//! | `one_address` | 1,000 human requests came from the same address | [`Identity::forwarded`](crate::Identity::forwarded) with the header set by the proxy; ignore this if it is a single person |
//! | `no_cookie_returned` | an [issued cookie](crate::IssuedCookie) was set 100 times, but never sent back | [`insecure`](crate::IssuedCookie::insecure) over plain HTTP, or [`only_returned`](crate::IssuedCookie::only_returned) |
//! | `counters_full` | a counter name did not get a slot | see [rules](rules#how-many-counters-there-are) |
//!
//! For `one_address`, the layer keeps a hash of the address in memory, keyed per process, until a request
//! from a different address arrives. Human requests that can't be assigned to a visitor count as
//! `unidentified` in the [ledger](counter_core::visits::Requests), for any reason; the dashboard shows this
//! share next to the number of visitors.
//!
//! # Where to put the layer
//!
//! This layer counts the requests that reach it. If an outer layer responds on behalf of the service, e.g.
//! for CORS preflight, redirects or rate limiting, these requests will not be counted; to count such
//! requests, put the counter outside of the other layer. If two counter layers see the same request, both
//! count it. In this case you need to use separate recorders, or rules that don't overlap.

pub mod comparison;
pub mod labels;
#[cfg(feature = "limit")]
pub mod limit;
pub mod rules;
pub mod visitors;
