//! The way to Redis: addresses, access rights, topologies, servers without scripts.

pub(crate) mod connections;
mod transactions;
mod cluster;
mod sentinel;
