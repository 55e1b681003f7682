//! Window counters.

mod contract;
mod compare;
mod keys;
mod outage;
mod sliding;
mod sql;
