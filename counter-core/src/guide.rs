//! How to run it.

pub mod redis;
