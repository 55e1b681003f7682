//! Unique counters: the contract for any kind on any store, and edge cases.

mod contract;
mod model;
mod edges;
mod nodes;
mod sql;
mod dump;
