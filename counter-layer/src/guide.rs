//! Guides: which requests count where, and what is known of their senders.
//!
//! # What to read
//!
//! - [The crate](crate): one example from end to end.
//! - [`rules`]: how a request finds its counter. Read it before you write a pattern.
//! - [`visitors`]: how visitors are told apart. Read it when the service is behind a proxy or runs in several instances,
//!   or when you have to say what it keeps of people: it contains the privacy statement.
//! - `limit`, with the feature of that name: so many requests in each window and no more.
//! - `admin`, with the feature of that name: the admin router in an application, behind a proxy, and with the
//!   application's own sessions.
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
//!    [`Facet`](crate::Facet) that was chosen. Then the closure of
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
//! # Where to put the layer
//!
//! Requests that reach the layer are counted. A layer further out that answers by itself, such as one for CORS preflight,
//! redirects or a rate limit, hides those requests from it; put the counter outside of such a layer to count them. Two
//! layers that see the same request both count it, so one of them needs a recorder of its own, or rules that leave the
//! other's requests alone.

#[cfg(feature = "admin")]
pub mod admin;
#[cfg(feature = "limit")]
pub mod limit;
pub mod rules;
pub mod visitors;
