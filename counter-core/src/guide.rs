//! How to run it.

#[cfg(feature = "redis")]
pub mod redis;
pub mod scale;
#[cfg(feature = "unique")]
pub mod unique;
#[cfg(feature = "window")]
pub mod window;
#[cfg(feature = "entity")]
pub mod entity;
