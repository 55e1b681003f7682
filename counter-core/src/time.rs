//! Timestamps, buckets, precisions and retention.

mod timestamp;
mod precision;
mod grid;
mod local_days;
mod sample;
pub(crate) mod backoff;
pub(crate) mod later;
pub(crate) mod expiry_clock;

pub use grid::{Grid, Kind, Precisions, PrecisionsError, Retention};
pub use local_days::LocalDays;
pub use precision::{Bucket, Precision, PrecisionError};
pub use sample::Sample;
pub use timestamp::Timestamp;

#[cfg(feature = "redis")]
pub(crate) use grid::DEFAULT_SAMPLES;
