//! Profiles of a day and of a week: the usual values at their hours, learned one after the other.

use counter_core::{Precision, Timestamp};

const DAY: u64 = 86_400;
const WEEK: u64 = 7 * DAY;
const HOUR: u64 = 3600;
/// The narrowest buckets that a day has a slot for each of; finer ones share those of hours.
const FINEST: u64 = 300;
/// The least weight of the latest day, and of the latest week, in a slot: a profile forgets.
const LATEST_DAY: f64 = 0.15;
const LATEST_WEEK: f64 = 0.25;

/// The profile of the days and weeks of a series.
#[derive(Clone, Debug)]
pub(super) struct Profile {
    /// The seconds by which the middle of a bucket lies after its start, less the offset of the precision.
    shift: i64,
    day: Table,
    /// The values that the hours of a week have beyond those of a day.
    week: Table,
}

#[derive(Clone, Debug)]
struct Table {
    slots: Vec<Slot>,
    /// The width of a slot in seconds.
    width: u64,
    /// The least weight of the latest value.
    latest: f64,
    /// The slot that values come in, with their sum and number.
    open: Option<(usize, f64, u32)>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    value: f32,
    /// The number of values that came in it.
    times: u32,
}

impl Profile {
    /// Creates a profile of buckets of this width, without any season where a bucket is wider than a day.
    pub(super) fn new(precision: Precision) -> Self {
        let width = u64::from(precision.as_seconds());
        let fits = width >= FINEST && DAY.is_multiple_of(width);
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
            day: Table::new(DAY, day, LATEST_DAY),
            week: Table::new(WEEK, week, LATEST_WEEK),
        }
    }

    /// Returns the usual value of the bucket that starts here, by its time of day; `None` until a day was seen.
    pub(super) fn day(&self, start: Timestamp) -> Option<f64> {
        self.day.value(self.middle(start))
    }

    /// Returns the usual value of the bucket that starts here, by its time of the week; `None` until a week was seen.
    pub(super) fn week(&self, start: Timestamp) -> Option<f64> {
        let middle = self.middle(start);
        let of_day = if self.day.slots.is_empty() { 0.0 } else { self.day.value(middle)? };
        Some(of_day + self.week.value(middle)?)
    }

    /// Takes the value of the bucket that starts here.
    pub(super) fn add(&mut self, start: Timestamp, value: f64) {
        let middle = self.middle(start);
        let of_day = if self.day.slots.is_empty() { Some(0.0) } else { self.day.value(middle) };
        if let Some(of_day) = of_day {
            self.week.add(middle, value - of_day);
        }
        self.day.add(middle, value);
    }

    /// Moves all values by this much.
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

    /// The value at this instant: between the middles of two slots, a part of each.
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
    fn a_day_is_known_after_a_day_and_a_week_after_a_week() {
        let (mut hours, _) = profile(3600);
        let hour = |n: u64| Timestamp::from_unix(n * 3600);
        let value = |n: u64| if (n / 24) % 7 < 5 { (n % 24) as f64 } else { 0.0 };
        for n in 0..15 * 24 {
            assert_eq!(hours.day(hour(n)).is_some(), n >= 24, "{n}");
            assert_eq!(hours.week(hour(n)).is_some(), n >= 24 + 168, "{n}");
            hours.add(hour(n), value(n));
        }
        // The third Saturday, for which the days before it say something else.
        let noon = 19 * 24 + 12;
        for n in 15 * 24..noon {
            hours.add(hour(n), value(n));
        }
        assert!((hours.day(hour(noon)).expect("a day") - 12.0).abs() < 6.0);
        assert!((hours.week(hour(noon)).expect("a week") - value(noon)).abs() < 4.0);
    }

    #[test]
    fn minutes_lie_between_the_middles_of_their_hours() {
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
    fn days_have_a_week_and_weeks_have_nothing() {
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
