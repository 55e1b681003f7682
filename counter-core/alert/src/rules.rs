//! Rules: the conditions, their verdicts about a bucket, and how rules are read from configuration.

pub(crate) mod unit;
pub(crate) mod verdict;
mod local;
pub(crate) mod condition;
pub(crate) mod rule;
mod config;
