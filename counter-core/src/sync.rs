//! Atomics and locks of the lock-free code. For models, these are those of loom.

#[cfg(counter_loom)]
pub(crate) use loom::sync::{Arc, Mutex, MutexGuard, atomic};
#[cfg(not(counter_loom))]
pub(crate) use std::sync::{Arc, Mutex, MutexGuard, atomic};
