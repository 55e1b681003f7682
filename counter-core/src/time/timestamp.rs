use std::fmt;
use std::time::{Duration, SystemTime};

/// A point in time: whole Unix seconds, UTC, from 1970 to the end of the year 9999.
///
/// What lies outside is moved to the nearer end, so a broken clock gives an odd bucket and never an
/// error or a number that a Lua script could not hold exactly.
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
    /// 1970-01-01T00:00:00Z.
    pub const MIN: Self = Self(0);
    /// 9999-12-31T23:59:59Z.
    pub const MAX: Self = Self(253_402_300_799);

    /// The wall clock, which nothing else in this crate reads; on Linux as it was at the last timer tick,
    /// some milliseconds ago at most.
    #[inline]
    #[must_use]
    pub fn now() -> Self {
        // Every hit asks, and only for the second: the last tick is known in a fifth of the time.
        #[cfg(target_os = "linux")]
        return {
            let time = rustix::time::clock_gettime(rustix::time::ClockId::RealtimeCoarse);
            Self::from_unix(u64::try_from(time.tv_sec).unwrap_or(0))
        };
        #[cfg(not(target_os = "linux"))]
        return SystemTime::now().into();
    }

    /// From seconds since the Unix epoch, at most [`Timestamp::MAX`].
    #[must_use]
    pub const fn from_unix(seconds: u64) -> Self {
        if seconds > Self::MAX.0 { Self::MAX } else { Self(seconds) }
    }

    /// Seconds since the Unix epoch.
    #[must_use]
    pub const fn as_unix(self) -> u64 {
        self.0
    }

    /// The instant `seconds` later, at most [`Timestamp::MAX`].
    #[must_use]
    pub const fn plus(self, seconds: u64) -> Self {
        Self::from_unix(self.0.saturating_add(seconds))
    }

    /// The instant `seconds` earlier, at least [`Timestamp::MIN`].
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
