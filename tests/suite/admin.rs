//! The admin router: its API, who gets in, and the dashboard.

pub(crate) mod site;
mod api;
mod conforms;
mod ranges;
mod distributions;
mod labels;
mod forecast;
mod live;
mod export;
mod metrics;
mod pictures;
mod access;
mod guesses;
mod sessions;
mod sources;
mod hits;
mod audits;
mod alerts;
mod login;
mod closures;
mod proxied;
mod dashboard;
mod measured;
mod shared;
mod years;
mod zones;
mod browser;
