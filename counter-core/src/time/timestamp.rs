use std::fmt;
use std::time::{Duration, SystemTime};

/// A point in time: whole Unix seconds, UTC, from 1970 to the end of the year 9999.
///
/// Times outside of this range are clamped. If a clock is broken, you might see odd buckets, but this will
/// never result in an error, or in a number that can't be represented in Lua scripts.
///
/// ```
/// use counter_core::Timestamp;
///
/// let noon = Timestamp::from_unix(1_585_908_000);
/// assert_eq!(noon.as_unix(), 1_585_908_000);
/// assert_eq!(Timestamp::from_unix(u64::MAX), Timestamp::MAX);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(u64);

impl Timestamp {
    /// The earliest timestamp, 1970-01-01T00:00:00Z.
    pub const MIN: Self = Self(0);
    /// The latest timestamp, 9999-12-31T23:59:59Z.
    pub const MAX: Self = Self(253_402_300_799);

    /// Returns the current time. This is the only function in this crate that reads the wall clock. On Linux,
    /// it returns the time of the latest timer tick, which is a few milliseconds old at most.
    #[inline]
    #[must_use]
    pub fn now() -> Self {
        // The clock is read on every hit, but we only need seconds. Reading the latest tick is five times
        // faster.
        #[cfg(target_os = "linux")]
        return {
            let time = rustix::time::clock_gettime(rustix::time::ClockId::RealtimeCoarse);
            Self::from_unix(u64::try_from(time.tv_sec).unwrap_or(0))
        };
        #[cfg(not(target_os = "linux"))]
        return SystemTime::now().into();
    }

    /// Creates a timestamp from seconds since the Unix epoch, clamped to [`Timestamp::MAX`].
    #[must_use]
    pub const fn from_unix(seconds: u64) -> Self {
        if seconds > Self::MAX.0 { Self::MAX } else { Self(seconds) }
    }

    /// Returns the seconds since the Unix epoch.
    #[must_use]
    pub const fn as_unix(self) -> u64 {
        self.0
    }

    /// Adds seconds, clamped to [`Timestamp::MAX`].
    #[must_use]
    pub const fn plus(self, seconds: u64) -> Self {
        Self::from_unix(self.0.saturating_add(seconds))
    }

    /// Subtracts seconds, clamped to [`Timestamp::MIN`].
    #[must_use]
    pub const fn minus(self, seconds: u64) -> Self {
        Self(self.0.saturating_sub(seconds))
    }
}

impl From<SystemTime> for Timestamp {
    fn from(time: SystemTime) -> Self {
        let since = time.duration_since(SystemTime::UNIX_EPOCH);
        Self::from_unix(since.as_ref().map_or(0, Duration::as_secs))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
