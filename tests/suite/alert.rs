//! Watches: rules about counters, told once over all instances.

mod alerts;
mod watch;
