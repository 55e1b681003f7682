//! How to run it.

pub mod redis;
pub mod unique;
pub mod window;
