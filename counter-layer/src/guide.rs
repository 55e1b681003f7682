//! A guide: which requests count where, and what is known of who sent them.
//!
//! # What to read
//!
//! - [The crate](crate): one example from end to end.
//! - [`rules`]: how a request finds its counter. Read it before you write a pattern.
//! - [`visitors`]: who is counted as a visitor. Read it when the service is behind a proxy, runs in
//!   several instances, or has to say what it keeps of people: there is the privacy statement.
//! - `limit`, with the feature of that name: so many requests in each window and no more.
//! - [`AccessCounterLayer`](crate::AccessCounterLayer): the settings.
//! - [`counter_core`]: hits, buckets, precisions, retention, the ledger; and what reads them back.
//!
//! # What happens to a request
//!
//! 1. It arrives. The rules decide which counter it feeds; what the request says tells whether a person
//!    or a program makes it, and, of a person, makes the visitor. All of that happens in memory, before the
//!    inner service sees the request.
//! 2. The inner service answers, fails or panics, or the client goes away. Each of them is an
//!    [`Outcome`](crate::Outcome), and with it the request is settled, once; or it was settled before, by
//!    [`count_on_request`](crate::AccessCounterLayer::count_on_request).
//! 3. If it counts, it makes a hit under `hits`, one under the counter that was found, and one under
//!    each [`Facet`](crate::Facet) that was chosen; and what
//!    [`on_count`](crate::AccessCounterLayer::on_count) wanted is done, such as to add a view to a post. If
//!    not, the ledger says why.
//! 4. The next flush sends the hits to the store.
//!
//! Every request is in the ledger under exactly one of four words:
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
//! What is inside of the layer is counted. A layer further out that answers by itself, such as one for
//! CORS preflight, a redirect or a limit of the rate, hides those requests from it; put the counter
//! outside of such a layer to count them. Two layers that see the same request both count it, so one of
//! them needs a recorder of its own, or rules that leave the other's requests alone.

#[cfg(feature = "limit")]
pub mod limit;
pub mod rules;
pub mod visitors;
