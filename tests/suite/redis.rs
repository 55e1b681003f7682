//! Connecting to Redis: addresses, permissions, topologies, and servers where scripts are disabled.

pub(crate) mod connections;
mod refused;
mod transactions;
mod cluster;
mod sentinel;
