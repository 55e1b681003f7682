//! Anomalies: the score of detectors, and series that are made up for them.

pub mod score;
pub mod simulated;
pub mod difficult;
