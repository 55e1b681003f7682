//! Rules: conditions, verdicts on a bucket, and rules from configuration.

pub(crate) mod unit;
pub(crate) mod verdict;
pub(crate) mod run;
mod local;
pub(crate) mod condition;
pub(crate) mod rule;
pub(crate) mod config;
