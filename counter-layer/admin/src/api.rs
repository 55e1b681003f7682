//! The JSON API. Each file contains the path, the handler and the description of one route.

mod response;
mod mark;
pub(crate) mod site;
pub(crate) mod parameter;
pub(crate) mod caching;
mod schema;
pub(crate) mod route;
mod read;
mod counters;
#[cfg(feature = "hits")]
mod hits;
mod series;
mod sources;
mod total;
mod lifetimes;
mod top;
mod views;
mod labels;
mod uniques;
mod percentiles;
mod slowest;
mod statuses;
mod forecast;
mod live;
mod process;
mod audit;
pub(crate) mod alerts;
mod notes;
mod export;
mod openapi;
mod explore;
pub(crate) mod index;
mod metrics;
pub(crate) mod badge;
pub(crate) mod explain;
pub(crate) mod routes;
