//! Runs programs with other frameworks and sends requests to them, using a client that keeps a tally. After a
//! SIGINT, all counters in Redis must equal the tally, by counter, method and status class.

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
