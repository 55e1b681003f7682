//! Watches: rules about counters and processes, and reports, told once over all instances; and detectors, which expect something of counters.

mod inbox;
mod alerts;
mod watch;
mod outage;
mod process;
mod report;
mod webhook;
mod storm;
mod detector;
mod expectation;
mod score;
