//! The time zone of a site, whose days begin and end at midnight, also when clocks change.
//!
//! Days are sums of finer buckets. The store keeps nothing for a zone, so the zone can be changed at any time.

#[cfg(feature = "time-zone")]
pub(crate) mod named;

use counter_core::Timestamp;
use jiff::tz::{Offset, TimeZone};

/// The time zone of a site: UTC, or a zone of the IANA database.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Zone {
    named: Option<TimeZone>,
}

impl Zone {
    pub(crate) const fn is_utc(&self) -> bool {
        self.named.is_none()
    }

    /// The name by which browsers know the zone.
    pub(crate) fn name(&self) -> &str {
        self.named.as_ref().and_then(TimeZone::iana_name).unwrap_or("UTC")
    }

    /// The local time of an instant, as the instant at which UTC has the same time.
    pub(crate) fn local(&self, at: Timestamp) -> Timestamp {
        match self.named.as_ref().zip(instant(at)) {
            Some((zone, at)) => timestamp(at.as_second().saturating_add(zone.to_offset(at).seconds().into())),
            None => at,
        }
    }

    /// The instant of a local time: the first of two, and the one after a time that clocks skip.
    pub(crate) fn at(&self, local: Timestamp) -> Timestamp {
        if let Some((zone, shown)) = self.named.as_ref().zip(instant(local))
            && let Ok(at) = zone.to_timestamp(Offset::UTC.to_datetime(shown))
        {
            return timestamp(at.as_second());
        }
        local
    }

    /// The beginning of the day of an instant: midnight, or the time to which clocks skip it.
    pub(crate) fn day(&self, at: Timestamp) -> Timestamp {
        if let Some((zone, at)) = self.named.as_ref().zip(instant(at))
            && let Ok(day) = at.to_zoned(zone.clone()).start_of_day()
        {
            return timestamp(day.timestamp().as_second());
        }
        Timestamp::from_unix(at.as_unix() / 86_400 * 86_400)
    }

    /// The beginning of the next day.
    pub(crate) fn next_day(&self, day: Timestamp) -> Timestamp {
        // A day is shorter than this and longer than half of it.
        self.day(self.day(day).plus(36 * 3600))
    }

    /// The beginning of the day before the one that begins here.
    pub(crate) fn day_before(&self, day: Timestamp) -> Timestamp {
        self.day(day.minus(1))
    }
}

fn instant(at: Timestamp) -> Option<jiff::Timestamp> {
    jiff::Timestamp::from_second(i64::try_from(at.as_unix()).ok()?).ok()
}

fn timestamp(seconds: i64) -> Timestamp {
    Timestamp::from_unix(u64::try_from(seconds).unwrap_or_default())
}
