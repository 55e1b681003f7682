//! Logging of errors: with their causes, at most once a second for each cause, and through panics.

pub(crate) mod debug;
pub(crate) mod unwind;
pub(crate) mod log_limit;
