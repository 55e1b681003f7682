use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;

use crate::Timestamp;

/// The width of a bucket, in whole seconds, at least 1.
///
/// ```
/// use counter_core::{Precision, Timestamp};
///
/// let minute = Precision::try_from(60)?;
/// let bucket = minute.bucket(Timestamp::from_unix(1_585_908_999));
/// assert_eq!(bucket.start.as_unix(), 1_585_908_960);
/// assert_eq!(bucket.end().as_unix(), 1_585_909_020);
/// # Ok::<(), counter_core::PrecisionError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Precision(NonZeroU32);

/// One interval of the time axis as a precision divides it: `start = floor(t / precision) × precision`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bucket {
    /// The bucket's width.
    pub precision: Precision,
    /// The bucket's first second, a multiple of its width.
    pub start: Timestamp,
}

/// A width that is not a whole number of seconds from 1 to 4,294,967,295.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrecisionError(String);

impl Precision {
    /// A width of that many seconds.
    #[must_use]
    pub const fn new(seconds: NonZeroU32) -> Self {
        Self(seconds)
    }

    /// The width in seconds.
    #[must_use]
    pub const fn as_seconds(self) -> u32 {
        self.0.get()
    }

    /// The bucket that `at` falls into.
    #[must_use]
    pub const fn bucket(self, at: Timestamp) -> Bucket {
        let into = at.as_unix() % self.0.get() as u64;
        Bucket { precision: self, start: at.minus(into) }
    }

    /// The bucket starts that lie in `range`, ascending; `from` itself counts, `to` does not.
    pub(crate) fn starts(self, from: Timestamp, to: Timestamp) -> impl Iterator<Item = Timestamp> {
        let width = u64::from(self.as_seconds());
        let first = from.as_unix().next_multiple_of(width);
        (first..to.as_unix()).step_by(self.as_seconds() as usize).map(Timestamp::from_unix)
    }
}

impl Bucket {
    /// The first second after the bucket.
    #[must_use]
    pub const fn end(self) -> Timestamp {
        self.start.plus(self.precision.as_seconds() as u64)
    }
}

impl TryFrom<u32> for Precision {
    type Error = PrecisionError;

    fn try_from(seconds: u32) -> Result<Self, PrecisionError> {
        NonZeroU32::new(seconds).map(Self).ok_or_else(|| PrecisionError(seconds.to_string()))
    }
}

impl FromStr for Precision {
    type Err = PrecisionError;

    fn from_str(text: &str) -> Result<Self, PrecisionError> {
        text.parse().map(Self).map_err(|_| PrecisionError(text.to_owned()))
    }
}

impl fmt::Display for Precision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for PrecisionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a precision is a whole number of seconds from 1 to {}, not {:?}", u32::MAX, self.0)
    }
}

impl std::error::Error for PrecisionError {}
