//! Anomaly detection: simulated series, and the score of a detector.

pub mod score;
pub mod simulated;
pub mod realistic;
pub mod incidents;
