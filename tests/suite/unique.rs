//! Unique counters: the contract of every kind on every store, and the edges.

mod contract;
mod model;
mod edges;
mod nodes;
mod sql;
mod dump;
