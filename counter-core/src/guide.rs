//! How to run it.

pub mod redis;
pub mod scale;
