//! Detectors of unusual values: a [`Detector`] takes one bucket after the other, judges whether it is unusual, and learns
//! from it, for rules that look at thousands of series every minute.

mod tail;
mod profile;
#[allow(clippy::module_inception, reason = "the `Detector` itself, beside what it is made of")]
mod detector;

pub use detector::{DetectedSeason, Detector, Judgement};
