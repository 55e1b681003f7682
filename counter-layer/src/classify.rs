//! Classification of requests: by bots or humans, prefetches, ranges, and gRPC calls.

mod plain;
mod bots;
mod agent;
mod user_agents;
mod prefetch;
mod range;
mod grpc;

pub(crate) use bots::BotNames;
pub use bots::{Bot, Purpose};
pub(crate) use grpc::{is_call, is_served};
pub(crate) use plain::{MAX_SCANNED_BYTES, plain};
pub(crate) use prefetch::is_prefetch;
pub(crate) use range::{asks_for_first_part, is_first_part};
pub(crate) use user_agents::{Digest, UserAgent, UserAgents};
