//! Guides: which requests count where, and what is known of their senders.
//!
//! # What to read
//!
//! - [The crate](crate): one example from end to end.
//! - [`rules`]: how a request finds its counter. Read it before you write a pattern.
//! - [`visitors`]: how visitors are told apart. Read it when the service is behind a proxy or runs in several instances,
//!   or when you have to say what it keeps of people: it contains the privacy statement.
//! - [`labels`]: where requests come from: referrers, campaigns, devices, languages, countries and keys.
//! - `limit`, with the feature of that name: so many requests in each window and no more.
//! - [`AccessCounterLayer`](crate::AccessCounterLayer): the settings.
//! - [`counter_core`]: hits, buckets, precisions, retention, the ledger, and how to read them back.
//!
//! # What happens to a request
//!
//! 1. It arrives. The rules decide which counter it feeds. Its headers tell whether a person or a program sent it, and a
//!    person's request is given a visitor. All of that happens in memory, before the inner service sees the request.
//! 2. The inner service answers, fails or panics, or the client goes away. Each of these is an
//!    [`Outcome`](crate::Outcome), which settles the request, once. With
//!    [`count_on_request`](crate::AccessCounterLayer::count_on_request) the request is settled before.
//! 3. If it counts, it makes a hit under `hits`, one under the counter that was found, and one under each
//!    [`Facet`](crate::Facet) and each [`Label`](crate::Label) that was chosen. Then the closure of
//!    [`on_count`](crate::AccessCounterLayer::on_count) runs, for example to add a view to a post. If it does not count,
//!    the ledger says why.
//! 4. The next flush sends the hits to the store. With
//!    [`Delivery::BeforeResponse`](crate::Delivery::BeforeResponse) the response waits for that, up to a timeout; requests
//!    that wait at the same time share one call.
//!
//! The ledger counts every request under exactly one of four decisions:
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
//! assert_eq!(requests.ignored.outcome, 1); // the outcome was not wanted
//! assert_eq!(requests.excluded, 1); // the feed
//! assert_eq!(requests.unmatched, 1); // no rule for /about
//! # Ok(())
//! # }
//! ```
//!
//! # Which versions fit
//!
//! The layer is a [`tower_layer::Layer`] for services of requests of the crate `http`, so their versions have to be the
//! same. What a server leaves in the extensions of a request is found by its type, which is another one in each version
//! of axum: then everything compiles, and the route and the address are given by closures.
//!
//! | beside the layer | fits | routes and addresses |
//! |---|---|---|
//! | axum 0.8 | yes | by themselves, with the feature `axum` (default) and `into_make_service_with_connect_info::<SocketAddr>()` |
//! | axum 0.7, and those after 0.8 | yes, with http 1 | [`matched_path`](crate::AccessCounterLayer::matched_path) and [`peer_from_fn`](crate::Address::peer_from_fn) |
//! | axum 0.6 and before | no: http 0.2 | |
//! | http 1 | yes | |
//! | http 0.2 | no | |
//! | hyper 1, with `hyper-util` | yes | [rules], and a [`SocketAddr`](std::net::SocketAddr) extension |
//! | hyper 0.14 and before | no: http 0.2 | |
//! | tower 0.4 and 0.5 | yes: `tower-layer` 0.3, `tower-service` 0.3 | |
//! | tonic 0.12 and later | yes, with http 1 | [rules]: the path of a call is that of its method |
//! | another router for http 1 | yes | [`matched_path`](crate::AccessCounterLayer::matched_path) or [rules], and [`peer_from_fn`](crate::Address::peer_from_fn) |
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
//! Some setups count something wrong although nothing fails. A layer watches for their signs. Each becomes a hint: a warning
//! in the log, once; an entry of [`Health::hints`](counter_core::Health::hints), which `/api/health` and the dashboard
//! show; and one more in the metric `access_counter_hints`. A hint is taken back when a request comes that refutes it.
//!
//! | hint | sign | what to do |
//! |---|---|---|
//! | `no_matched_path` | none of 100 requests had a matched path, and neither rules nor a [`fallback`](crate::AccessCounterLayer::fallback) decide instead: only `hits` counts | put the layer on the router, or see the versions above |
//! | `no_peer_address` | none of 100 requests of people had an address: there are no visitors | `into_make_service_with_connect_info`, or see the versions above |
//! | `no_identity` | none of 100 requests of people had the cookie, header or extension of the [identity](crate::Identity) | its name or its type is another, or it is inserted further in |
//! | `untrusted_forwarding` | 10 of the first 1,000 requests of people had `Forwarded` or `X-Forwarded-For`, and the identity is the peer | [`Identity::forwarded`](crate::Identity::forwarded), if the proxy is yours |
//! | `one_address` | 1,000 requests of people came from one address | [`Identity::forwarded`](crate::Identity::forwarded) with the header that the proxy writes; nothing, if it is one person |
//! | `no_cookie_returned` | an [issued cookie](crate::IssuedCookie) was set 100 times and never came back | [`insecure`](crate::IssuedCookie::insecure) over plain HTTP, or [`only_returned`](crate::IssuedCookie::only_returned) |
//! | `counters_full` | a name found no free slot | see [rules](rules#how-many-counters-there-are) |
//!
//! Of the one address, a hash under a key of the process is kept in memory until there is another. Requests of people that
//! have no visitor are `unidentified` in the [ledger](counter_core::visits::Requests), whatever the reason, and the
//! dashboard shows their share beside the number of visitors.
//!
//! # Where to put the layer
//!
//! Requests that reach the layer are counted. A layer further out that answers by itself, such as one for CORS preflight,
//! redirects or a rate limit, hides those requests from it; put the counter outside of such a layer to count them. Two
//! layers that see the same request both count it, so one of them needs a recorder of its own, or rules that leave the
//! other's requests alone.

pub mod labels;
#[cfg(feature = "limit")]
pub mod limit;
pub mod rules;
pub mod visitors;
