//! Watches: rules about counters, told once over all instances; and detectors, which expect something of these.

mod watch;
mod detector;
mod expectation;
mod score;
