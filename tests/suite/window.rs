//! Counters of windows.

mod contract;
mod keys;
mod outage;
mod sql;
