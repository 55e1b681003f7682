use std::fmt;
use std::num::NonZeroU32;
use std::ops::Range;

use crate::time::{Precision, Timestamp};

/// A division of time into windows: a width in whole seconds, and an offset.
///
/// The window of a time t starts at `floor((t − offset) / width) × width + offset` and ends one width later,
/// at the same time for all callers. The offset must be less than the width. It can be used e.g. to start
/// days at local midnight instead of midnight UTC.
///
/// ```
/// use counter_core::window::Window;
/// use counter_core::{Precision, Timestamp};
///
/// let noon = Timestamp::from_unix(1_585_908_000);
/// assert_eq!(Window::HOUR.span(noon), noon..noon.plus(3600));
///
/// // Days that start at 22:00 UTC, which is midnight in UTC+2.
/// let day = Window::DAY.starting_at(22 * 3600)?;
/// assert_eq!(day.span(noon).start.as_unix(), 1_585_864_800);
/// assert_eq!(day, Precision::DAY.utc_offset(2 * 3600).into());
/// # Ok::<(), counter_core::window::WindowError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Window(Precision);

/// An invalid window width or offset.
#[derive(Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum WindowError {
    /// The width is 0.
    Width,
    /// The offset is not less than the width.
    Offset {
        /// Offset in seconds.
        offset: u32,
        /// Width in seconds.
        width: u32,
    },
}

impl Window {
    /// Windows of 60 s that start at UTC minutes.
    pub const MINUTE: Self = Self::new(NonZeroU32::new(60).expect("not 0"));
    /// Windows of 3,600 s that start at UTC hours.
    pub const HOUR: Self = Self::new(NonZeroU32::new(3600).expect("not 0"));
    /// Windows of 86,400 s that start at midnight UTC.
    pub const DAY: Self = Self::new(NonZeroU32::new(86_400).expect("not 0"));

    /// Creates windows of this width in seconds, which start at multiples of the width.
    #[must_use]
    pub const fn new(width: NonZeroU32) -> Self {
        Self(Precision::new(width))
    }

    /// Shifts the start of each window later by this number of seconds.
    ///
    /// # Errors
    /// Fails if the offset is not less than the width.
    pub fn starting_at(self, offset: u32) -> Result<Self, WindowError> {
        let width = self.as_seconds();
        if offset < width {
            Ok(Self(self.0.starting_at(Timestamp::from_unix(offset.into()))))
        } else {
            Err(WindowError::Offset { offset, width })
        }
    }

    /// Returns the width in seconds.
    #[must_use]
    pub const fn as_seconds(self) -> u32 {
        self.0.as_seconds()
    }

    /// Returns the offset in seconds, which is less than the width.
    #[must_use]
    pub const fn offset(self) -> u32 {
        self.0.offset()
    }

    /// Returns the window that contains `at`.
    ///
    /// Windows are clamped to [`Timestamp::MIN`] and [`Timestamp::MAX`].
    #[must_use]
    pub const fn span(self, at: Timestamp) -> Range<Timestamp> {
        let bucket = self.0.bucket(at);
        bucket.start..bucket.end()
    }
}

impl From<Precision> for Window {
    /// Uses the buckets of a precision as windows.
    fn from(precision: Precision) -> Self {
        Self(precision)
    }
}

impl TryFrom<u32> for Window {
    type Error = WindowError;

    fn try_from(seconds: u32) -> Result<Self, WindowError> {
        NonZeroU32::new(seconds).map(Self::new).ok_or(WindowError::Width)
    }
}

impl fmt::Display for WindowError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Width => f.write_str("the window width must be at least 1 s"),
            Self::Offset { offset, width } => {
                write!(f, "the window offset must be less than the width of {width} s, but is {offset} s")
            }
        }
    }
}

impl std::error::Error for WindowError {}

crate::log::debug::debug_in_full!(WindowError);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn windows_are_aligned_to_the_offset_and_contiguous(
            width in 1..100_000_u32,
            offset in 0..100_000_u32,
            at in 200_000..4_000_000_000_u64,
        ) {
            let offset = offset % width;
            let window = Window::try_from(width).expect("not 0").starting_at(offset).expect("less");
            let Range { start, end } = window.span(Timestamp::from_unix(at));
            prop_assert!(start.as_unix() <= at && at < end.as_unix());
            prop_assert_eq!(end.as_unix() - start.as_unix(), u64::from(width));
            prop_assert_eq!((start.as_unix() - u64::from(offset)) % u64::from(width), 0);
            prop_assert_eq!(window.span(end.minus(1)), start..end);
            prop_assert_eq!(window.span(start.minus(1)).end, start);
        }
    }

    #[test]
    fn windows_are_clamped_to_the_timestamp_range() {
        let window = Window::MINUTE.starting_at(59).expect("less");
        assert_eq!(window.span(Timestamp::MIN), Timestamp::MIN..Timestamp::from_unix(59));
        assert_eq!(window.span(Timestamp::MAX).end, Timestamp::MAX);
    }

    #[test]
    fn invalid_windows_are_rejected() {
        assert_eq!(Window::try_from(0), Err(WindowError::Width));
        let error = Window::MINUTE.starting_at(60).expect_err("a whole window");
        assert_eq!(error, WindowError::Offset { offset: 60, width: 60 });
    }
}
