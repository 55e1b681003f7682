//! A Tower layer to count visits to pages.
//!
//! ```
//! use axum::body::Body;
//! use axum::{Router, routing::get};
//! use counter_core::{Counters, MemoryStore};
//! use counter_layer::AccessCounterLayer;
//! use http::Request;
//! use tower::ServiceExt;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut counters = Counters::builder(MemoryStore::new()).build()?;
//! let app: Router = Router::new()
//!     .route("/articles/{id}", get(async || "an article"))
//!     .layer(AccessCounterLayer::new(counters.recorder()));
//!
//! app.oneshot(Request::get("/articles/7").body(Body::empty())?).await?;
//!
//! counters.flush().await?; // `Counters::run` does this once a second
//! let known = counters.stats().list_counters(None, 10).await?;
//! let names: Vec<_> = known.counters.iter().map(|(name, _)| &**name).collect();
//! assert_eq!(names, ["/articles/{id}", "hits"]);
//! # Ok(())
//! # }
//! ```
//!
//! [`AccessCounterLayer`] passes each request on unchanged. When the outcome is known, it counts the request
//! in `hits` and in the counter of the matched route. The layer does not do any I/O: a
//! [`Recorder`](counter_core::Recorder) just adds the hit to a number in memory.
//!
//! # Where to go next
//!
//! | to | see |
//! |---|---|
//! | follow a request through the layer, or use another framework | [`guide`] |
//! | choose which requests count, and under which names | [`guide::rules`] |
//! | identify visitors behind a proxy, or explain how personal data is handled | [`guide::visitors`] |
//! | count referrers, campaigns, devices, bots, languages and countries | [`guide::labels`] |
//! | limit requests | `guide::limit`, with the feature `limit` |
//! | compare this with analytics products and metrics | [`guide::comparison`] |
//! | show the numbers, or count access logs | the packages `counter-admin` and `counter-log` |
//!
//! # Features
//!
//! | feature | adds |
//! |---|---|
//! | `axum` (default) | counting by axum's `MatchedPath`, and the peer address from `ConnectInfo` |
//! | `body` | distributions of body sizes and of the time until a response ends; a gauge of requests in flight |
//! | `geo` | `CountryDatabase`, to look up the countries of addresses |
//! | `grpc` | `GrpcStatusLayer`, to count gRPC statuses; calls are counted by method without this feature |
//! | `limit` | `WindowLimitLayer`, to limit requests per window across all instances |
//! | `serde` | rules from configuration |

#![cfg_attr(docsrs, feature(doc_cfg))]

mod reserved;
mod request;
mod closure;
mod recent;
mod classify;
mod identity;
mod rules;
mod label;
mod layer;

#[cfg(feature = "body")]
pub mod body;
#[cfg(feature = "grpc")]
pub mod grpc;
#[cfg(feature = "limit")]
mod limit;
#[doc(hidden)]
pub mod internal;
pub mod guide;

pub use classify::{Bot, Purpose};
pub use identity::{
    Address, ClosureIdentity, Forwarded, ForwardedAddress, Identity, IdentityError, IssuedCookie, RequestHead,
};
pub use ipnet;
#[cfg(feature = "geo")]
#[cfg_attr(docsrs, doc(cfg(feature = "geo")))]
pub use label::{CountryDatabase, CountryDatabaseError};
pub use label::{InternalHost, InternalHostError, Label, SourceGroup, SourceKind};
pub use layer::{AccessCounter, AccessCounterLayer, Delivery, Facet, Ignore, Outcome, ResponseFuture, Visit};
#[cfg(feature = "limit")]
pub use limit::{
    EmptyRejection, LimitFuture, LimitKey, OnStoreError, PolicyNameError, ProblemRejection, Rejection,
    WindowLimit, WindowLimitLayer,
};
pub use rules::{Decision, Explanation, PatternError, PatternKind, Rule, Rules, RulesBuilder, RulesError};
