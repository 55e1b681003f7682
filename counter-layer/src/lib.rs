//! A Tower layer to count visits to pages.
//!
//! [`AccessCounterLayer`] works like a servlet filter: it sees the request once, passes it on unchanged, and
//! counts it in `hits` and in the counter of the matched route when the outcome is known. It does not do any
//! I/O: a [`Recorder`](counter_core::Recorder) just adds the hit to a number in memory.
//!
//! ```
//! use axum::{Router, routing::get};
//! use counter_core::{Counters, MemoryStore};
//! use counter_layer::AccessCounterLayer;
//! # use tower::ServiceExt;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut counters = Counters::builder(MemoryStore::new()).build()?;
//! let app: Router = Router::new()
//!     .route("/articles/{id}", get(async || "an article"))
//!     .layer(AccessCounterLayer::new(counters.recorder()));
//!
//! # let request = http::Request::get("/articles/7").body(axum::body::Body::empty())?;
//! # app.oneshot(request).await?;
//! counters.flush().await?; // `Counters::run` does this once a second
//! let known = counters.stats().list_counters(None, 10).await?;
//! let names: Vec<_> = known.counters.iter().map(|(name, _)| &**name).collect();
//! assert_eq!(names, ["/articles/{id}", "hits"]);
//! # Ok(())
//! # }
//! ```
//!
//! # Features
//!
//! - `axum` (default): counts by axum's `MatchedPath`, and takes the peer address from `ConnectInfo`.
//! - `body`: distributions of values known at the end of a response, i.e. the body size and the time until
//!   the end, and a gauge of requests in flight.
//! - `grpc`: `GrpcStatusLayer`, to count gRPC statuses. Calls are counted by method without this feature.
//! - `limit`: `WindowLimitLayer`, to limit requests per window across all instances.
//! - `serde`: rules can be read from configuration.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod reserved;
mod request;
mod closure;
mod recent;
mod classify;
mod identity;
mod label;
mod rules;
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
pub use label::Label;
pub use layer::{AccessCounter, AccessCounterLayer, Delivery, Facet, Ignore, Outcome, ResponseFuture, Visit};
#[cfg(feature = "limit")]
pub use limit::{
    EmptyRejection, LimitFuture, LimitKey, OnStoreError, PolicyNameError, ProblemRejection, Rejection,
    WindowLimit, WindowLimitLayer,
};
pub use rules::{Decision, Explanation, PatternError, PatternKind, Rule, Rules, RulesBuilder, RulesError};
