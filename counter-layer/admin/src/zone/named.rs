//! Time zones by IANA name.

use std::error::Error;
use std::fmt;

use counter_core::Timestamp;
use counter_core::time::LocalDays;
use jiff::tz::TimeZone;

use super::{Zone, instant};

/// Error returned if a time zone does not exist.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TimeZoneError {
    /// The requested name.
    pub name: String,
}

impl Zone {
    /// Returns the IANA time zone with this name.
    pub(crate) fn new(name: &str) -> Result<Self, TimeZoneError> {
        let zone = find(name)?;
        // We can just use the buckets of the store, even if UTC is named by an alias.
        let is_utc = zone == TimeZone::UTC || zone.iana_name().is_some_and(|name| name.ends_with("UTC"));
        Ok(Self { named: (!is_utc).then_some(zone), ..Self::default() })
    }
}

/// Returns a function that maps an instant to the UTC offset in seconds of an IANA time zone, e.g. for the
/// days of reports.
///
/// ```
/// use counter_admin::utc_offset;
/// use counter_core::Timestamp;
///
/// let berlin = utc_offset("Europe/Berlin")?;
/// let (summer, winter) = (Timestamp::from_unix(1_782_864_000), Timestamp::from_unix(1_798_761_600));
/// assert_eq!((berlin(summer), berlin(winter)), (7200, 3600));
/// # Ok::<(), counter_admin::TimeZoneError>(())
/// ```
///
/// # Errors
/// Fails if the time zone does not exist.
pub fn utc_offset(name: &str) -> Result<impl Fn(Timestamp) -> i32 + Send + Sync + 'static, TimeZoneError> {
    let zone = find(name)?;
    Ok(move |at| instant(at).map_or(0, |at| zone.to_offset(at).seconds()))
}

/// Returns the days of an IANA time zone, for the buckets of a new store.
///
/// ```
/// use counter_admin::{Options, local_days};
/// use counter_core::{Counters, MemoryStore};
///
/// let counters = Counters::builder(MemoryStore::new()).local_days(local_days("Europe/Berlin")?)?.build()?;
/// // There are days for summer and winter.
/// assert_eq!(counters.stats().grid().visitors.to_string(), "3600, 86400@79200, 86400@82800");
/// let options = Options::new().time_zone("Europe/Berlin")?;
/// # drop(options);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// Fails if the time zone does not exist.
pub fn local_days(name: &str) -> Result<LocalDays, TimeZoneError> {
    let zone = Zone::new(name)?;
    Ok(LocalDays::new(move |at| zone.day(at)..zone.next_day(at)))
}

fn find(name: &str) -> Result<TimeZone, TimeZoneError> {
    TimeZone::get(name).map_err(|_| TimeZoneError { name: name.to_owned() })
}

impl fmt::Display for TimeZoneError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is not a time zone of the IANA database, e.g. Europe/Berlin", self.name)
    }
}

impl Error for TimeZoneError {}

#[cfg(test)]
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
            // 2026-03-29 and 2026-10-25, when clocks change, and the following days.
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
    fn days_start_after_a_skipped_midnight() {
        // In Cairo, summer time starts on 2026-04-24 at 0:00, which becomes 1:00.
        let cairo = Zone::new("Africa/Cairo").expect("a zone");
        let day = cairo.day(unix(1_777_028_400));
        assert_eq!((day, cairo.local(day).as_unix() % 86_400), (unix(1_776_981_600), 3600));
        assert_eq!(cairo.next_day(day).as_unix() - day.as_unix(), 23 * 3600);
        assert_eq!(cairo.next_day(cairo.day_before(day)), day);
    }

    #[test]
    fn zones_are_found_by_name_and_utc_is_the_default() {
        for name in ["UTC", "Etc/UTC", "utc"] {
            let zone = Zone::new(name).expect("a zone");
            assert!(zone.is_utc() && zone == Zone::default(), "{name}");
        }
        for name in ["", "Europe/Atlantis", "+01:00", "Europe/Berlin\0", "../etc/passwd"] {
            let error = Zone::new(name).expect_err(name);
            assert!(error.to_string().contains("is not a time zone"), "{error}");
        }
    }

    #[test]
    fn instants_have_a_day_in_all_zones() {
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
