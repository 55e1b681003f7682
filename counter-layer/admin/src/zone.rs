//! The time zone of a site, in which its days begin and end at midnight, in summer as in winter.
//!
//! What shows days adds up finer buckets, so that a store keeps nothing for a zone, and a zone may be changed at any time.

use counter_core::Timestamp;
#[cfg(feature = "time-zone")]
use jiff::tz::{Offset, TimeZone};

/// The time zone of a site: UTC, or one of the IANA database.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Zone {
    #[cfg(feature = "time-zone")]
    named: Option<TimeZone>,
}

/// The error of a name that no time zone has.
#[cfg(feature = "time-zone")]
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TimeZoneError {
    /// The name.
    pub name: String,
}

#[cfg_attr(
    not(feature = "time-zone"),
    allow(clippy::unused_self, reason = "without the feature there is one zone")
)]
impl Zone {
    /// Returns the zone of this name in the IANA database.
    #[cfg(feature = "time-zone")]
    pub(crate) fn new(name: &str) -> Result<Self, TimeZoneError> {
        let zone = TimeZone::get(name).map_err(|_| TimeZoneError { name: name.to_owned() })?;
        // What is UTC under another name has buckets of its own.
        let is_utc = zone == TimeZone::UTC || zone.iana_name().is_some_and(|name| name.ends_with("UTC"));
        Ok(Self { named: (!is_utc).then_some(zone) })
    }

    pub(crate) const fn is_utc(&self) -> bool {
        #[cfg(feature = "time-zone")]
        return self.named.is_none();
        #[cfg(not(feature = "time-zone"))]
        true
    }

    /// The name that browsers know it by.
    pub(crate) fn name(&self) -> &str {
        #[cfg(feature = "time-zone")]
        if let Some(name) = self.named.as_ref().and_then(TimeZone::iana_name) {
            return name;
        }
        "UTC"
    }

    /// The time that clocks of the zone show at an instant, as the instant at which those of UTC show it.
    pub(crate) fn local(&self, at: Timestamp) -> Timestamp {
        #[cfg(feature = "time-zone")]
        if let Some((zone, at)) = self.named.as_ref().zip(instant(at)) {
            let local = at.as_second().saturating_add(zone.to_offset(at).seconds().into());
            return timestamp(local);
        }
        at
    }

    /// The instant at which clocks of the zone show a time, the first of two; after a time that they leave out.
    pub(crate) fn at(&self, local: Timestamp) -> Timestamp {
        #[cfg(feature = "time-zone")]
        if let Some((zone, shown)) = self.named.as_ref().zip(instant(local))
            && let Ok(at) = zone.to_timestamp(Offset::UTC.to_datetime(shown))
        {
            return timestamp(at.as_second());
        }
        local
    }

    /// The beginning of the day that an instant is in: its midnight, or when clocks have passed over that.
    pub(crate) fn day(&self, at: Timestamp) -> Timestamp {
        #[cfg(feature = "time-zone")]
        if let Some((zone, at)) = self.named.as_ref().zip(instant(at))
            && let Ok(day) = at.to_zoned(zone.clone()).start_of_day()
        {
            return timestamp(day.timestamp().as_second());
        }
        Timestamp::from_unix(at.as_unix() / 86_400 * 86_400)
    }

    /// The beginning of the next day.
    pub(crate) fn next_day(&self, day: Timestamp) -> Timestamp {
        // No day is as long as this, or shorter than the half of it.
        self.day(self.day(day).plus(36 * 3600))
    }

    /// The beginning of the day before the one that begins here.
    pub(crate) fn day_before(&self, day: Timestamp) -> Timestamp {
        self.day(day.minus(1))
    }
}

/// Returns by how many seconds the clocks of a time zone of the IANA database are ahead of UTC at an instant, such as for
/// the days of reports.
///
/// ```
/// use counter_core::Timestamp;
/// use counter_admin::utc_offset;
///
/// let berlin = utc_offset("Europe/Berlin")?;
/// let (summer, winter) = (Timestamp::from_unix(1_782_864_000), Timestamp::from_unix(1_798_761_600));
/// assert_eq!((berlin(summer), berlin(winter)), (7200, 3600));
/// # Ok::<(), counter_admin::TimeZoneError>(())
/// ```
///
/// # Errors
/// Fails when there is no such time zone.
#[cfg(feature = "time-zone")]
pub fn utc_offset(name: &str) -> Result<impl Fn(Timestamp) -> i32 + Send + Sync + 'static, TimeZoneError> {
    let zone = TimeZone::get(name).map_err(|_| TimeZoneError { name: name.to_owned() })?;
    Ok(move |at| instant(at).map_or(0, |at| zone.to_offset(at).seconds()))
}

#[cfg(feature = "time-zone")]
fn instant(at: Timestamp) -> Option<jiff::Timestamp> {
    jiff::Timestamp::from_second(i64::try_from(at.as_unix()).ok()?).ok()
}

#[cfg(feature = "time-zone")]
fn timestamp(seconds: i64) -> Timestamp {
    Timestamp::from_unix(u64::try_from(seconds).unwrap_or_default())
}

#[cfg(feature = "time-zone")]
impl std::fmt::Display for TimeZoneError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} is no time zone of the IANA database, such as Europe/Berlin", self.name)
    }
}

#[cfg(feature = "time-zone")]
impl std::error::Error for TimeZoneError {}

#[cfg(all(test, feature = "time-zone"))]
mod tests {
    use super::*;

    fn unix(seconds: u64) -> Timestamp {
        Timestamp::from_unix(seconds)
    }

    #[test]
    fn days_have_23_24_or_25_hours() {
        let berlin = Zone::new("europe/berlin").expect("a zone");
        assert_eq!((berlin.name(), berlin.is_utc()), ("Europe/Berlin", false));
        for (noon, hours) in [
            // 2026-03-29 and 2026-10-25, on which clocks are changed, and the days after these.
            (1_774_778_400, 23),
            (1_774_864_800, 24),
            (1_792_926_000, 25),
            (1_793_012_400, 24),
        ] {
            let day = berlin.day(unix(noon));
            let next = berlin.next_day(day);
            assert_eq!(next.as_unix() - day.as_unix(), hours * 3600, "{noon}");
            assert_eq!((berlin.day_before(next), berlin.day(next)), (day, next), "{noon}");
            assert_eq!(
                (berlin.local(day).as_unix() % 86_400, berlin.at(berlin.local(day))),
                (0, day),
                "{noon}"
            );
        }
    }

    #[test]
    fn a_day_begins_where_clocks_pass_over_midnight() {
        // In Cairo summer time began on 2026-04-24 at 0:00, which became 1:00.
        let cairo = Zone::new("Africa/Cairo").expect("a zone");
        let day = cairo.day(unix(1_777_028_400));
        assert_eq!((day, cairo.local(day).as_unix() % 86_400), (unix(1_776_981_600), 3600));
        assert_eq!(cairo.next_day(day).as_unix() - day.as_unix(), 23 * 3600);
        assert_eq!(cairo.next_day(cairo.day_before(day)), day);
    }

    #[test]
    fn a_zone_has_a_name_and_utc_is_none_of_them() {
        for name in ["UTC", "Etc/UTC", "utc"] {
            let zone = Zone::new(name).expect("a zone");
            assert!(zone.is_utc() && zone == Zone::default(), "{name}");
        }
        for name in ["", "Europe/Atlantis", "+01:00", "Europe/Berlin\0", "../etc/passwd"] {
            let error = Zone::new(name).expect_err(name);
            assert!(error.to_string().contains("is no time zone"), "{error}");
        }
    }

    #[test]
    fn every_instant_has_a_day_in_every_zone() {
        for name in ["Europe/Berlin", "Asia/Kolkata", "America/Sao_Paulo", "Pacific/Apia", "Pacific/Chatham"]
        {
            let zone = Zone::new(name).expect("a zone");
            for at in [0, 1, 86_399, 1_325_203_200, 1_795_228_799, Timestamp::MAX.as_unix()].map(unix) {
                let (day, next) = (zone.day(at), zone.next_day(at));
                assert!(day <= at && (day < next || at == Timestamp::MAX), "{name} {at}: {day} to {next}");
            }
        }
    }
}
