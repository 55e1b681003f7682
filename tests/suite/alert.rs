//! Watches: rules about counters, told once over all instances.

mod watch;
