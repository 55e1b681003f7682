//! Access to Redis servers: connections, clusters, scripts and transactions. This module does not depend on
//! the counter families.

mod namespace;
mod connection;
mod cluster;
mod topology;
mod transaction;
mod script;
mod rejection;
mod server;
mod probed;
mod retry;
mod client;
mod scatter;
mod clock;
mod probe;

pub use namespace::{Namespace, NamespaceError};
pub use server::{RedisServer, RefusedCommand};

pub(crate) use client::Client;
pub(crate) use cluster::Cluster;
pub(crate) use connection::{
    Command, Connection, convert_reply, error_message, explain, has_code, unavailable,
};
pub(crate) use namespace::Prefix;
pub(crate) use retry::{is_transient, was_not_executed, with_retries};
pub(crate) use scatter::{Group, in_item_order, try_join_boxed};
pub(crate) use script::{Call, Script, args};
pub(crate) use topology::Topology;
pub(crate) use transaction::{Queue, Transaction};
