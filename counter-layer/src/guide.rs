//! A guide to which requests count where, and what is kept about their visitors.
//!
//! # What to read
//!
//! - [The crate](crate): one example from end to end.
//! - [`rules`]: how a request finds its counter. Read it before you write a pattern.
//! - [`visitors`]: what counts as a visitor. Read it when the service is behind a proxy, runs in several
//!   instances, or needs a privacy statement.
//! - `limit`, with the feature of that name: a maximum of requests in each window.
//! - [`AccessCounterLayer`](crate::AccessCounterLayer): the settings.
//! - [`counter_core`]: hits, buckets, precisions, retention, the ledger, and how they are read.
//!
//! # What happens to a request
//!
//! 1. It arrives. The rules decide which counter it feeds. Its headers tell whether a person or a program
//!    makes it, and, for a person, identify the visitor. All of this happens in memory, before the inner
//!    service sees the request.
//! 2. The inner service answers, fails or panics, or the client goes away. Each of these is an
//!    [`Outcome`](crate::Outcome), with which the request is settled once; with
//!    [`count_on_request`](crate::AccessCounterLayer::count_on_request) it is settled on arrival.
//! 3. If it counts, it adds a hit to `hits`, one to the counter that was found, and one to each chosen
//!    [`Facet`](crate::Facet); and the action of [`on_count`](crate::AccessCounterLayer::on_count) runs, such
//!    as to add a view to a post. If not, the ledger has the reason.
//! 4. The next flush sends the hits to the store.
//!
//! Every request is in exactly one of four parts of the ledger:
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
//! # Where to put the layer
//!
//! The layer counts the requests that reach it. A layer further out that answers by itself, such as one for
//! CORS preflight, a redirect or a rate limit, hides those requests from it; put the counter outside of such
//! a layer to count them. Two layers that see the same request both count it, so one of them needs a recorder
//! of its own, or rules that leave the other one's requests alone.

#[cfg(feature = "limit")]
pub mod limit;
pub mod rules;
pub mod visitors;
