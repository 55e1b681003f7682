//! Classes of requests: by a person or a program, and a visit or a fetch ahead of one.

mod agent;
mod prefetch;

pub(crate) use agent::{Digest, UserAgents};
pub(crate) use prefetch::is_prefetch;
