//! The time zone of a site. Days start and end at midnight, including when clocks change.
//!
//! The store keeps buckets that days are made of, see [`LocalDays`](counter_core::time::LocalDays). Without them, the
//! dashboard shows the days of the store.

#[cfg(feature = "time-zone")]
pub(crate) mod named;

use counter_core::Timestamp;
use jiff::tz::{Offset, TimeZone};
use jiff::{Span, Zoned};

/// The time zone of a site: UTC or an IANA time zone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Zone {
    named: Option<TimeZone>,
    /// What to do if the store does not keep the buckets of the days.
    pub(crate) remedy: &'static str,
}

impl Zone {
    /// Returns the zone with this UTC offset in seconds.
    pub(crate) fn fixed(seconds: i32) -> Self {
        let offset = Offset::from_seconds(seconds).ok().filter(|_| seconds != 0);
        Self { named: offset.map(TimeZone::fixed), ..Self::default() }
    }

    pub(crate) const fn is_utc(&self) -> bool {
        self.named.is_none()
    }

    /// Returns the IANA name, as used by browsers.
    pub(crate) fn name(&self) -> &str {
        self.named.as_ref().and_then(TimeZone::iana_name).unwrap_or("UTC")
    }

    /// Converts an instant to local time, expressed as the instant at which UTC clocks show this time.
    pub(crate) fn local(&self, at: Timestamp) -> Timestamp {
        match self.named.as_ref().zip(instant(at)) {
            Some((zone, at)) => timestamp(at.as_second().saturating_add(zone.to_offset(at).seconds().into())),
            None => at,
        }
    }

    /// Converts a local time to an instant. Ambiguous times map to the earlier instant, and skipped times to
    /// the instant after the gap.
    pub(crate) fn at(&self, local: Timestamp) -> Timestamp {
        if let Some((zone, shown)) = self.named.as_ref().zip(instant(local))
            && let Ok(at) = zone.to_timestamp(Offset::UTC.to_datetime(shown))
        {
            return timestamp(at.as_second());
        }
        local
    }

    /// Returns the start of the day: midnight, or the end of the gap if clocks skip midnight.
    pub(crate) fn day(&self, at: Timestamp) -> Timestamp {
        if let Some((zone, at)) = self.named.as_ref().zip(instant(at))
            && let Ok(day) = at.to_zoned(zone.clone()).start_of_day()
        {
            return timestamp(day.timestamp().as_second());
        }
        Timestamp::from_unix(at.as_unix() / 86_400 * 86_400)
    }

    /// Returns the start of the next day.
    pub(crate) fn next_day(&self, day: Timestamp) -> Timestamp {
        // Days are shorter than this, but longer than half of this.
        self.day(self.day(day).plus(36 * 3600))
    }

    /// Returns the start of the previous day, given the start of a day.
    pub(crate) fn day_before(&self, day: Timestamp) -> Timestamp {
        self.day(day.minus(1))
    }

    /// Returns the start of the day this number of days later, or earlier if it is negative.
    pub(crate) fn plus_days(&self, day: Timestamp, days: i64) -> Timestamp {
        self.day(self.shifted(day, |day| day.checked_add(Span::new().try_days(days)?)))
    }

    /// Returns the start of the month this number of months later, or earlier if it is negative.
    pub(crate) fn plus_months(&self, at: Timestamp, months: i64) -> Timestamp {
        self.day(self.shifted(at, |at| at.first_of_month()?.checked_add(Span::new().try_months(months)?)))
    }

    /// Returns the Monday at or before this time.
    pub(crate) fn week(&self, at: Timestamp) -> Timestamp {
        self.day(self.shifted(at, |at| {
            let days = i64::from(at.weekday().to_monday_zero_offset());
            at.checked_sub(Span::new().try_days(days)?)
        }))
    }

    /// Shifts an instant in local time. Instants outside the calendar are not shifted.
    fn shifted(&self, at: Timestamp, shift: impl FnOnce(&Zoned) -> Result<Zoned, jiff::Error>) -> Timestamp {
        let zone = self.named.clone().unwrap_or(TimeZone::UTC);
        let shifted = instant(at).and_then(|at| shift(&at.to_zoned(zone)).ok());
        shifted.map_or(at, |shifted| timestamp(shifted.timestamp().as_second()))
    }
}

fn instant(at: Timestamp) -> Option<jiff::Timestamp> {
    jiff::Timestamp::from_second(i64::try_from(at.as_unix()).ok()?).ok()
}

fn timestamp(seconds: i64) -> Timestamp {
    Timestamp::from_unix(u64::try_from(seconds).unwrap_or_default())
}
