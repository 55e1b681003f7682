//! Classes of requests: by a person or a program, a visit or a fetch ahead of one, a page or a call of gRPC.

mod agent;
mod user_agents;
mod prefetch;
mod grpc;

pub(crate) use grpc::{is_call, is_served};
pub(crate) use prefetch::is_prefetch;
pub(crate) use user_agents::{Digest, UserAgents};
