//! The numbers for programs: one file for each route, and what they share.

pub(crate) mod response;
pub(crate) mod query;
pub(crate) mod caching;
pub(crate) mod numbers;
pub(crate) mod live;
pub(crate) mod export;
#[cfg(feature = "forecast")]
pub(crate) mod forecast;
pub(crate) mod metrics;
pub(crate) mod badge;
#[cfg(feature = "openapi")]
pub(crate) mod openapi;
#[cfg(feature = "openapi")]
pub(crate) mod explore;
pub(crate) mod explain;
