//! Daily and weekly profiles: the typical values by time of day and week, learned online.

use counter_core::{Precision, Timestamp};

const DAY: u64 = 86_400;
const WEEK: u64 = 7 * DAY;
const HOUR: u64 = 3600;
/// The minimum bucket width to use a slot per bucket in the daily table. Narrower buckets use hourly slots
/// instead.
const MIN_SLOT_WIDTH: u64 = 300;
/// The minimum weight of the latest day in a daily slot, so that old values will be forgotten.
const MIN_DAY_WEIGHT: f64 = 0.15;
/// The minimum weight of the latest week in a weekly slot, so that old values will be forgotten.
const MIN_WEEK_WEIGHT: f64 = 0.25;

/// The daily and weekly profile of a series.
#[derive(Clone, Debug)]
pub(super) struct Profile {
    /// The seconds from the start to the middle of a bucket, minus the offset of the precision.
    shift: i64,
    day: Table,
    /// The difference to the daily value, by hour of the week.
    week: Table,
}

#[derive(Clone, Debug)]
struct Table {
    slots: Vec<Slot>,
    /// The slot width in seconds.
    width: u64,
    /// The minimum weight of the latest value in a slot.
    latest: f64,
    /// The index of the current slot, with the sum and number of bucket values in the slot.
    open: Option<(usize, f64, u32)>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    value: f32,
    /// The number of days or weeks in which the slot got values.
    times: u32,
}

impl Profile {
    /// Creates a profile for buckets of this precision. With buckets wider than a day, no season will be
    /// used.
    pub(super) fn new(precision: Precision) -> Self {
        let width = u64::from(precision.as_seconds());
        let fits = width >= MIN_SLOT_WIDTH && DAY.is_multiple_of(width);
        let day = match width {
            DAY.. => 0,
            width if fits => width,
            _ => HOUR,
        };
        let week = match width {
            DAY => DAY,
            width if width < DAY => day.max(HOUR),
            _ => 0,
        };
        let middle = i64::from(precision.as_seconds() / 2);
        Self {
            shift: middle - i64::from(precision.offset()),
            day: Table::new(DAY, day, MIN_DAY_WEIGHT),
            week: Table::new(WEEK, week, MIN_WEEK_WEIGHT),
        }
    }

    /// Creates a profile without weeks, with this minimum weight of the latest day.
    pub(super) fn daily(precision: Precision, latest: f64) -> Self {
        let mut profile = Self::new(precision);
        profile.day.latest = latest;
        profile.week = Table::new(WEEK, 0, latest);
        profile
    }

    /// Returns the typical value of the bucket with this start by time of day, or `None` during the first
    /// day.
    pub(super) fn day(&self, start: Timestamp) -> Option<f64> {
        self.day.value(self.middle(start))
    }

    /// Returns the typical value of the bucket with this start by time of week, or `None` during the first
    /// week.
    pub(super) fn week(&self, start: Timestamp) -> Option<f64> {
        let middle = self.middle(start);
        let of_day = if self.day.slots.is_empty() { 0.0 } else { self.day.value(middle)? };
        Some(of_day + self.week.value(middle)?)
    }

    /// Adds the value of the bucket with this start.
    pub(super) fn add(&mut self, start: Timestamp, value: f64) {
        let middle = self.middle(start);
        let of_day = if self.day.slots.is_empty() { Some(0.0) } else { self.day.value(middle) };
        if let Some(of_day) = of_day {
            self.week.add(middle, value - of_day);
        }
        self.day.add(middle, value);
    }

    /// Shifts all values by this amount.
    pub(super) fn shift(&mut self, by: f64) {
        let table = if self.day.slots.is_empty() { &mut self.week } else { &mut self.day };
        #[expect(clippy::cast_possible_truncation, reason = "seven digits are enough")]
        table.slots.iter_mut().for_each(|slot| slot.value += by as f32);
    }

    fn middle(&self, start: Timestamp) -> u64 {
        start.as_unix().saturating_add_signed(self.shift)
    }
}

impl Table {
    fn new(period: u64, width: u64, latest: f64) -> Self {
        let slots = period.checked_div(width).unwrap_or(0);
        #[expect(clippy::cast_possible_truncation, reason = "at most 288")]
        let slots = vec![Slot::default(); slots as usize];
        Self { slots, width: width.max(1), latest, open: None }
    }

    /// Returns the value at this instant, interpolated between the midpoints of two slots.
    fn value(&self, at: u64) -> Option<f64> {
        let period = self.width * self.slots.len() as u64;
        let from_middle = (at % period.max(1) + period).checked_sub(self.width / 2)?;
        let part = (from_middle % self.width) as f64 / self.width as f64;
        let before = self.slot(from_middle / self.width)?;
        if part < 1e-3 {
            return Some(before);
        }
        Some(before * (1.0 - part) + self.slot(from_middle / self.width + 1)? * part)
    }

    fn slot(&self, number: u64) -> Option<f64> {
        #[expect(clippy::cast_possible_truncation, reason = "below a length")]
        let slot = self.slots[(number.checked_rem(self.slots.len() as u64)?) as usize];
        (slot.times > 0).then_some(slot.value.into())
    }

    fn add(&mut self, at: u64, value: f64) {
        #[expect(clippy::cast_possible_truncation, reason = "below a length")]
        let Some(slot) = (at / self.width).checked_rem(self.slots.len() as u64).map(|slot| slot as usize)
        else {
            return;
        };
        match &mut self.open {
            Some((open, sum, count)) if *open == slot => {
                *sum += value;
                *count += 1;
            }
            open => {
                let closed = open.replace((slot, value, 1));
                if let Some((slot, sum, count)) = closed {
                    self.close(slot, sum / f64::from(count));
                }
            }
        }
    }

    fn close(&mut self, slot: usize, mean: f64) {
        let slot = &mut self.slots[slot];
        slot.times = slot.times.saturating_add(1);
        let weight = (1.0 / f64::from(slot.times)).max(self.latest);
        #[expect(clippy::cast_possible_truncation, reason = "seven digits are enough")]
        let change = (weight * (mean - f64::from(slot.value))) as f32;
        slot.value += change;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn profile(width: u32) -> (Profile, Precision) {
        let precision = Precision::try_from(width).expect("a width");
        (Profile::new(precision), precision)
    }

    #[test]
    fn a_day_is_learned_after_a_day_and_a_week_after_a_week() {
        let (mut hours, _) = profile(3600);
        let hour = |n: u64| Timestamp::from_unix(n * 3600);
        let value = |n: u64| if (n / 24) % 7 < 5 { (n % 24) as f64 } else { 0.0 };
        for n in 0..15 * 24 {
            assert_eq!(hours.day(hour(n)).is_some(), n >= 24, "{n}");
            assert_eq!(hours.week(hour(n)).is_some(), n >= 24 + 168, "{n}");
            hours.add(hour(n), value(n));
        }
        // The third Saturday should differ from the preceding days.
        let noon = 19 * 24 + 12;
        for n in 15 * 24..noon {
            hours.add(hour(n), value(n));
        }
        assert!((hours.day(hour(noon)).expect("a day") - 12.0).abs() < 6.0);
        assert!((hours.week(hour(noon)).expect("a week") - value(noon)).abs() < 4.0);
    }

    #[test]
    fn minutes_are_interpolated_between_hours() {
        let (mut minutes, _) = profile(60);
        let minute = |n: u64| Timestamp::from_unix(n * 60);
        for n in 0..2 * 1440 {
            minutes.add(minute(n), (n / 60 % 24) as f64);
        }
        for (minute_of_day, expected) in [(10 * 60 + 30, 10.0), (10 * 60 + 59, 10.49), (11 * 60 + 15, 10.76)]
        {
            let found = minutes.day(minute(minute_of_day)).expect("a day");
            assert!((found - expected).abs() < 0.02, "{minute_of_day}: {found}");
        }
    }

    #[test]
    fn daily_buckets_have_a_weekly_season_and_weekly_buckets_do_not() {
        let (mut days, _) = profile(86_400);
        let (mut weeks, _) = profile(604_800);
        for n in 0..20 {
            days.add(Timestamp::from_unix(n * DAY), (n % 7) as f64);
            weeks.add(Timestamp::from_unix(n * WEEK), 1.0);
        }
        let next = Timestamp::from_unix(21 * DAY);
        assert_eq!((days.day(next), days.week(next)), (None, Some(0.0)));
        assert_eq!((weeks.day(next), weeks.week(next)), (None, None));
    }
}
