//! Watches: rules about counters and processes, and reports, told once over all instances.

mod inbox;
mod alerts;
mod watch;
mod process;
mod report;
mod webhook;
mod storm;
