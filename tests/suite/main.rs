//! The workspace's integration tests, on real servers.

mod support;

mod contract;
mod visitors;
mod clean;
mod book;
mod bots;
mod flow;
mod faults;
mod delivery;
mod outage;
mod cluster;
mod sentinel;
mod connections;
mod metrics;
mod chaos;
mod shutdown;
mod layer;
mod rules;
mod identity;
mod cookie;
mod outcome;
mod stacks;
mod scan;
mod admin;
mod conforms;
mod admin_access;
mod admin_live;
mod admin_export;
mod admin_forecast;
mod admin_metrics;
mod admin_pictures;
mod dashboard;
mod browser;
mod example;
mod tidy;
