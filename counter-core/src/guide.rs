//! How to run it.

#[cfg(feature = "redis")]
pub mod redis;
#[cfg(feature = "entity")]
pub mod entity;
