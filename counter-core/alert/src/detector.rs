//! Detectors of unusual values: a [`Detector`] takes one bucket after the other, judges whether it is unusual, and learns
//! from it, for rules that look at thousands of series every minute.

mod scale;
mod poisson;
mod tail;
mod profile;
mod models;
mod shifts;
mod silence;
mod stillness;
mod judgement;
#[allow(clippy::module_inception, reason = "the `Detector` itself, beside what it is made of")]
mod detector;

pub use detector::Detector;
pub use judgement::Judgement;
pub use models::DetectedSeason;
