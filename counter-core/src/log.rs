//! What is logged: errors with their causes, and at most one line a second for each cause. A panic of what logs or is
//! called from a loop is caught.

pub(crate) mod debug;
pub(crate) mod unwind;
pub(crate) mod log_limit;
