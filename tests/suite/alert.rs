//! Watches, which evaluate rules about counters and processes and send alerts and reports once across all
//! instances; and anomaly detectors.

mod inbox;
mod alerts;
mod watch;
mod outage;
mod process;
mod report;
mod sites;
mod webhook;
mod storm;
mod detector;
mod expectation;
mod score;
