//! Online detection of unusual values.
//!
//! A [`Detector`] takes buckets in order, decides if the value is unusual, and learns from it. This is cheap
//! enough for rules that watch thousands of series.

mod scale;
mod poisson;
mod sizes;
mod tail;
mod profile;
mod models;
mod shifts;
mod silence;
mod rarity;
mod evaluation;
#[allow(clippy::module_inception, reason = "the main type of this module")]
mod detector;

pub use detector::Detector;
pub use evaluation::Evaluation;
pub use models::DetectedSeason;
