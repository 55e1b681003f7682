use std::fmt;
use std::num::NonZeroU16;

/// The maximum number of items up to which an adaptive counter is exact: 1 to 10,000, by default 1,000.
///
/// Exceeding the threshold converts the set into registers, which blocks the server: with 16-byte items, for
/// 0.3 ms by default and 4 ms at 10,000; with 256-byte items, for 1 ms and 20 ms.
///
/// ```
/// use counter_core::unique::Threshold;
///
/// assert_eq!(Threshold::default().items(), 1000);
/// assert_eq!(Threshold::try_from(50)?.items(), 50);
/// assert!(Threshold::try_from(0).is_err());
/// # Ok::<(), counter_core::unique::ThresholdError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Threshold(NonZeroU16);

/// A threshold that is not between 1 and 10,000.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ThresholdError(u16);

impl Threshold {
    /// The maximum threshold: 10,000 items.
    pub const MAX: Self = Self(const { NonZeroU16::new(10_000).expect("not 0") });

    /// Returns the number of items.
    #[must_use]
    pub const fn items(self) -> u16 {
        self.0.get()
    }
}

impl Default for Threshold {
    fn default() -> Self {
        Self(const { NonZeroU16::new(1000).expect("not 0") })
    }
}

impl TryFrom<u16> for Threshold {
    type Error = ThresholdError;

    fn try_from(items: u16) -> Result<Self, ThresholdError> {
        NonZeroU16::new(items)
            .map(Self)
            .filter(|threshold| *threshold <= Self::MAX)
            .ok_or(ThresholdError(items))
    }
}

impl fmt::Display for Threshold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for ThresholdError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the threshold must be between 1 and {1} items, but is {0}", self.0, Threshold::MAX)
    }
}

impl std::error::Error for ThresholdError {}

crate::log::debug::debug_in_full!(ThresholdError);
