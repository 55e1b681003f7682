//! Programs of other frameworks and shapes are asked by a client that keeps its own tally. After a SIGTERM the
//! counts in their Redis are those of the tally, each counter, each method and each class of statuses.

#![recursion_limit = "256"]

mod support;
mod axum;
mod files;
mod frameworks;
mod grpc;
mod lambda;
mod mounts;
mod streams;
mod subpath;
