//! Error logging: including the source errors, limited to once per second and cause, and protected from
//! panics.

pub(crate) mod debug;
pub(crate) mod unwind;
pub(crate) mod log_limit;
