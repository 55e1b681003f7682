use std::time::Duration;

use tokio::time::Instant;

use super::timestamp::Timestamp;
use crate::log::unwind::emit;

/// The rate at which the trusted time can catch up with the clock, i.e. four hours per hour. If a service has
/// been stopped for a month, it takes ten days to remove the data that expired in the meantime.
const CATCH_UP_RATE: u32 = 4;

/// The number of seconds that the clock can jump ahead and still be trusted. This must be larger than the lag
/// of the stored time, so that cleanup is not delayed after a restart.
const STEP_TOLERANCE: u64 = 900;

/// The lead in seconds at which we start to warn, which is more than a night, in case no process runs at
/// night.
const REPORT_THRESHOLD: u64 = 25 * 3600;

/// A clock for deciding what to delete, used if a store depends on the clock of a machine.
///
/// If a clock jumps ahead, this must not delete any history. Therefore the trusted time follows the clock,
/// though only at a limited rate, based on monotonic time. Data from before the trusted time expires based on
/// the trusted time. Data written later expires based on the clock, so that it does not accumulate if the
/// clock is right.
#[derive(Debug, Default)]
pub(crate) struct ExpiryClock {
    /// The latest reading of the clock that was trusted, and the monotonic time of this reading.
    trusted: Option<(Timestamp, Instant)>,
    /// The seconds by which the clock is ahead of the trusted time, or 0 if the clock is trusted.
    lead: u64,
}

/// The trusted time and the clock time of a call that deletes expired data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Expiry {
    trusted: Timestamp,
    clock: Timestamp,
}

/// A condition for data that can be deleted, based on the start and the expiry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Expired {
    /// The condition only applies to data that starts after this time. `None` for all data.
    pub(crate) start_after: Option<Timestamp>,
    /// Data can be deleted if it expires at or before this time.
    pub(crate) at: Timestamp,
}

impl ExpiryClock {
    /// Creates a clock from the time that was last trusted, e.g. by an earlier process.
    #[cfg(any(feature = "_sql", feature = "window", test))]
    pub(crate) const fn since(trusted: Timestamp, at: Instant) -> Self {
        Self { trusted: Some((trusted, at)), lead: 0 }
    }

    /// Returns the expiry for a call that deletes data as of `now`. `clock` is the current clock reading.
    pub(crate) fn expiry(&mut self, now: Timestamp, clock: Timestamp, at: Instant) -> Expiry {
        let limit = self.trusted.map(|(trusted, since)| {
            let elapsed = at.saturating_duration_since(since).saturating_mul(CATCH_UP_RATE);
            trusted.plus(elapsed.as_secs())
        });
        let before = self.lead;
        match limit {
            Some(limit) if clock > limit.plus(STEP_TOLERANCE) => {
                self.lead = clock.as_unix() - limit.as_unix();
            }
            _ => {
                self.trusted = Some((clock, at));
                self.lead = 0;
            }
        }
        report(before, self.lead);
        Expiry { trusted: now.minus(self.lead), clock: now }
    }

    /// Returns `true` if the clock is far ahead, and we need to warn about it.
    pub(crate) const fn is_ahead(&self) -> bool {
        self.lead > REPORT_THRESHOLD
    }
}

fn report(before: u64, lead: u64) {
    match (before > REPORT_THRESHOLD, lead > REPORT_THRESHOLD) {
        (false, true) => emit(|| {
            tracing::warn!(
                ahead = ?Duration::from_secs(lead),
                "the clock jumped ahead, or no process has run for a long time: expired data is deleted more slowly"
            );
        }),
        (true, false) => emit(|| tracing::info!("the clock is trusted again")),
        (false, false) | (true, true) => {}
    }
}

impl Expiry {
    /// Returns the trusted time.
    pub(crate) const fn trusted(self) -> Timestamp {
        self.trusted
    }

    /// Returns the conditions for data that can be deleted.
    pub(crate) fn expired(self) -> impl Iterator<Item = Expired> {
        let untrusted = Expired { start_after: Some(self.trusted), at: self.clock };
        let is_untrusted = self.clock > self.trusted;
        std::iter::once(Expired { start_after: None, at: self.trusted })
            .chain(is_untrusted.then_some(untrusted))
    }

    /// Returns `true` if data with this start and expiry can be deleted.
    pub(crate) fn is_expired(self, start: Timestamp, expiry: Timestamp) -> bool {
        self.expired().any(|expired| expired.contains(start) && expiry <= expired.at)
    }
}

impl Expired {
    /// Returns `true` if the condition applies to data with this start.
    pub(crate) fn contains(self, start: Timestamp) -> bool {
        self.start_after.is_none_or(|after| start > after)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: u64 = 86_400;
    const START: Timestamp = Timestamp::from_unix(10_000 * DAY);

    fn expiry(clock: &mut ExpiryClock, at: Instant, reading: Timestamp) -> Expiry {
        clock.expiry(reading, reading, at)
    }

    #[test]
    fn a_clock_in_step_with_monotonic_time_is_trusted() {
        let (mut clock, start) = (ExpiryClock::default(), Instant::now());
        for minute in 0..100 {
            let reading = START.plus(60 * minute);
            let found = expiry(&mut clock, start + Duration::from_secs(60 * minute), reading);
            assert_eq!(found, Expiry { trusted: reading, clock: reading });
            assert_eq!(found.expired().count(), 1);
        }
    }

    #[test]
    fn a_clock_jump_does_not_delete_history() {
        let (mut clock, start) = (ExpiryClock::default(), Instant::now());
        expiry(&mut clock, start, START);
        let mut jumped = Expiry { trusted: START, clock: START };
        for second in 1..=100 {
            let reading = START.plus(200 * DAY + second);
            jumped = expiry(&mut clock, start + Duration::from_secs(second), reading);
        }
        assert!(clock.is_ahead());
        assert_eq!(jumped.trusted, START.plus(400));
        let history = START.minus(100 * DAY);
        assert!(!jumped.is_expired(history, START.plus(20 * DAY)), "history is kept");
        assert!(jumped.is_expired(history, START), "what expired without the jump is deleted");
        let during = START.plus(200 * DAY);
        assert!(jumped.is_expired(during, during.plus(100)), "what was written during the jump expires");

        let right = expiry(&mut clock, start + Duration::from_secs(101), START.plus(101));
        assert_eq!(right, Expiry { trusted: START.plus(101), clock: START.plus(101) });
        assert!(!clock.is_ahead());
    }

    #[test]
    fn trusted_time_catches_up_after_downtime() {
        let start = Instant::now();
        let mut clock = ExpiryClock::since(START.minus(30 * DAY), start);
        let after = |days: u64| (start + Duration::from_secs(days * DAY), START.plus(days * DAY));
        let (at, reading) = after(1);
        assert_eq!(expiry(&mut clock, at, reading).trusted, START.minus(26 * DAY));
        let (at, reading) = after(10);
        assert_eq!(expiry(&mut clock, at, reading).trusted, reading);
    }

    #[test]
    fn a_clock_set_back_is_trusted() {
        let (mut clock, start) = (ExpiryClock::default(), Instant::now());
        expiry(&mut clock, start, START);
        for reading in [START.minus(DAY), START.minus(DAY).plus(1)] {
            assert_eq!(expiry(&mut clock, start + Duration::from_secs(1), reading).trusted, reading);
        }
    }
}
