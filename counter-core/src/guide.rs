//! How to run it.

#[cfg(feature = "redis")]
pub mod redis;
pub mod scale;
pub mod unique;
pub mod window;
#[cfg(feature = "entity")]
pub mod entity;
