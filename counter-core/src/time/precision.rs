use std::fmt;
use std::iter::successors;
use std::num::NonZeroU32;
use std::ops::Range;
use std::str::FromStr;

use super::timestamp::Timestamp;

/// A bucket width in whole seconds, at least 1, and the offset of the buckets.
///
/// Buckets start at multiples of the width, e.g. midnight UTC for a day. They can be shifted using
/// [`utc_offset`](Self::utc_offset) or [`starting_at`](Self::starting_at). The string representation is
/// `86400`, or `86400@82800` if buckets start 82,800 seconds later.
///
/// ```
/// use counter_core::{Precision, Timestamp};
///
/// let minute = Precision::MINUTE;
/// let bucket = minute.bucket(Timestamp::from_unix(1_585_908_999));
/// assert_eq!(bucket.start.as_unix(), 1_585_908_960);
/// assert_eq!(bucket.end().as_unix(), 1_585_909_020);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Precision {
    width: NonZeroU32,
    /// The offset in seconds. Always smaller than the width.
    offset: u32,
}

/// A time interval, as divided by a precision: `start = floor((t − offset) / width) × width + offset`, but
/// not before 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bucket {
    /// The bucket width.
    pub precision: Precision,
    /// The start of the bucket.
    pub start: Timestamp,
}

/// An error returned if a width is not a whole number of seconds from 1 to 4,294,967,295, or if the offset is
/// not smaller than the width.
#[derive(Clone, PartialEq, Eq)]
pub struct PrecisionError(String);

impl Precision {
    /// Coarser than all other precisions. It has no buckets. The offset is larger than any valid offset.
    pub(crate) const COARSEST: Self = Self { width: NonZeroU32::MAX, offset: u32::MAX };

    /// A minute.
    pub const MINUTE: Self = Self::new(NonZeroU32::new(60).expect("not 0"));
    /// An hour, in UTC.
    pub const HOUR: Self = Self::new(NonZeroU32::new(3600).expect("not 0"));
    /// A day, in UTC.
    pub const DAY: Self = Self::new(NonZeroU32::new(86_400).expect("not 0"));

    /// Creates a precision with this number of seconds. Buckets start at multiples of the width.
    #[must_use]
    pub const fn new(seconds: NonZeroU32) -> Self {
        Self { width: seconds, offset: 0 }
    }

    /// Shifts the buckets to start earlier by this number of seconds, or later if it is negative. This aligns
    /// buckets with the days in a timezone with this offset from UTC.
    ///
    /// The offset does not follow daylight saving time: days will be off by an hour for a part of the year.
    /// Samples with different offsets are separate, so changing the offset starts a new series.
    ///
    /// ```
    /// use counter_core::{Precision, Timestamp};
    ///
    /// // UTC+01:00: a day starts at 23:00 UTC.
    /// let day = Precision::DAY.utc_offset(3600);
    /// assert_eq!(day.to_string(), "86400@82800");
    /// let midnight = Timestamp::from_unix(1_585_954_800);
    /// assert_eq!(day.bucket(midnight.minus(1)).end(), midnight);
    /// assert_eq!(day.bucket(midnight).start, midnight);
    ///
    /// // Hours start at the same time as in UTC, but not at UTC+05:30.
    /// let hour = Precision::HOUR;
    /// assert_eq!(hour.utc_offset(3600), hour);
    /// assert_eq!(hour.utc_offset(19_800).offset(), 1800);
    /// ```
    #[must_use]
    pub const fn utc_offset(mut self, seconds: i32) -> Self {
        let width = self.width.get();
        let part = seconds.unsigned_abs() % width;
        let later = if seconds > 0 { (width - part) % width } else { part };
        // Written this way because the sum might overflow.
        let remaining = width - self.offset;
        self.offset = if later < remaining { self.offset + later } else { later - remaining };
        self
    }

    /// Shifts the buckets so that a bucket starts at the given time.
    ///
    /// ```
    /// use counter_core::{Precision, Timestamp};
    ///
    /// // Multiples of a week are Thursdays, because 1970-01-01 is a Thursday.
    /// let monday = Timestamp::from_unix(1_585_526_400);
    /// let week = Precision::try_from(604_800)?.starting_at(monday);
    /// assert_eq!(week.bucket(monday.plus(86_400)).start, monday);
    /// # Ok::<(), counter_core::time::PrecisionError>(())
    /// ```
    #[must_use]
    pub fn starting_at(self, at: Timestamp) -> Self {
        let offset = at.as_unix() % u64::from(self.width.get());
        Self { offset: u32::try_from(offset).expect("smaller than the width"), ..self }
    }

    /// Returns the width in seconds.
    #[must_use]
    pub const fn as_seconds(self) -> u32 {
        self.width.get()
    }

    /// Returns the bucket offset from the multiples of the width, in seconds. Always smaller than the width.
    #[must_use]
    pub const fn offset(self) -> u32 {
        self.offset
    }

    /// Returns the bucket that contains `at`.
    #[must_use]
    pub const fn bucket(self, at: Timestamp) -> Bucket {
        let at_unix = at.as_unix();
        let into = match at_unix.checked_sub(self.offset as u64) {
            Some(since) => since % self.width.get() as u64,
            // The first bucket is cut off at 1970.
            None => at_unix,
        };
        Bucket { precision: self, start: at.minus(into) }
    }

    /// Returns the starts of all buckets that start within this range, in ascending order.
    ///
    /// ```
    /// use counter_core::{Precision, Timestamp};
    ///
    /// let minute = Precision::MINUTE;
    /// let range = Timestamp::from_unix(1_585_908_900)..Timestamp::from_unix(1_585_909_020);
    /// let starts: Vec<_> = minute.starts(range).map(Timestamp::as_unix).collect();
    /// assert_eq!(starts, [1_585_908_900, 1_585_908_960]);
    /// ```
    pub fn starts(self, range: Range<Timestamp>) -> impl Iterator<Item = Timestamp> {
        let first = self.bucket(range.start);
        let first = if first.start < range.start { first.end() } else { first.start };
        let next = move |&start: &Timestamp| Some(Bucket { precision: self, start }.end());
        successors(Some(first), next).take_while(move |start| *start < range.end)
    }

    /// Returns `true` if the buckets of `coarser` consist of whole buckets of this precision.
    ///
    /// ```
    /// use counter_core::Precision;
    ///
    /// let (hour, day) = (Precision::HOUR, Precision::DAY);
    /// assert!(hour.divides(day) && hour.divides(day.utc_offset(7200)));
    /// assert!(!hour.divides(day.utc_offset(19_800)) && !day.divides(hour));
    /// ```
    #[must_use]
    pub const fn divides(self, coarser: Self) -> bool {
        coarser.as_seconds().is_multiple_of(self.as_seconds())
            && coarser.offset % self.as_seconds() == self.offset
    }
}

impl Bucket {
    /// Returns the end of the bucket, which is not part of the bucket.
    #[must_use]
    pub const fn end(self) -> Timestamp {
        let second = Timestamp::from_unix(self.precision.offset as u64);
        // The first bucket is cut off at 1970.
        if self.start.as_unix() < second.as_unix() {
            second
        } else {
            self.start.plus(self.precision.as_seconds() as u64)
        }
    }
}

impl TryFrom<u32> for Precision {
    type Error = PrecisionError;

    fn try_from(seconds: u32) -> Result<Self, PrecisionError> {
        NonZeroU32::new(seconds).map(Self::new).ok_or_else(|| PrecisionError(seconds.to_string()))
    }
}

impl FromStr for Precision {
    type Err = PrecisionError;

    fn from_str(text: &str) -> Result<Self, PrecisionError> {
        let (width, offset) = text.split_once('@').unwrap_or((text, "0"));
        let parsed = width.parse::<NonZeroU32>().ok().zip(offset.parse::<u32>().ok());
        let precision = parsed.map(|(width, offset)| Self { width, offset });
        precision
            .filter(|precision| precision.offset < precision.as_seconds())
            .ok_or_else(|| PrecisionError(text.to_owned()))
    }
}

impl fmt::Display for Precision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.offset {
            0 => self.width.fmt(f),
            offset => write!(f, "{}@{offset}", self.width),
        }
    }
}

impl fmt::Display for PrecisionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "expected a number of seconds from 1 to {}, optionally followed by `@` and a smaller \
             offset in seconds, not {:?}",
            u32::MAX,
            self.0
        )
    }
}

impl std::error::Error for PrecisionError {}

crate::log::debug::debug_in_full!(PrecisionError);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn precisions() -> impl Strategy<Value = Precision> {
        let widths = prop_oneof![1_u32..100, 1_u32..100_000, Just(86_400), Just(u32::MAX), 1..=u32::MAX];
        (widths, any::<u32>()).prop_map(|(width, at)| {
            Precision::try_from(width).expect("not 0").starting_at(Timestamp::from_unix(at.into()))
        })
    }

    #[test]
    fn a_zero_offset_is_omitted_from_the_text() {
        for (text, width, offset, canonical) in [
            ("86400", 86_400, 0, "86400"),
            ("86400@82800", 86_400, 82_800, "86400@82800"),
            ("86400@0", 86_400, 0, "86400"),
            ("4294967295@4294967294", u32::MAX, u32::MAX - 1, "4294967295@4294967294"),
        ] {
            let precision: Precision = text.parse().expect(text);
            assert_eq!((precision.as_seconds(), precision.offset()), (width, offset), "{text}");
            assert_eq!(precision.to_string(), canonical);
        }
    }

    #[test]
    fn invalid_widths_and_offsets_are_rejected() {
        for text in ["", "0", "-1", "x", "60@", "@5", "60@60", "60@-1", "60@5@5", "60:5", "4294967296", "0@0"]
        {
            let error = text.parse::<Precision>().expect_err(text);
            assert!(error.to_string().ends_with(&format!("not {text:?}")), "{error}");
        }
    }

    proptest! {
        #[test]
        fn buckets_start_at_the_offset_and_contain_the_timestamp(
            precision in precisions(),
            at in prop_oneof![0_u64..10_000, 0_u64..4_000_000_000],
        ) {
            let at = Timestamp::from_unix(at);
            let (bucket, width) = (precision.bucket(at), u64::from(precision.as_seconds()));
            prop_assert!(bucket.start <= at && at < bucket.end());
            prop_assert_eq!(precision.bucket(bucket.start), bucket);
            for begin in [bucket.start, bucket.end()] {
                let is_one = begin.as_unix() % width == u64::from(precision.offset());
                prop_assert!(is_one || begin == Timestamp::MIN);
            }
            let starts: Vec<_> = precision.starts(bucket.start..bucket.end().plus(1)).collect();
            prop_assert_eq!(starts, [bucket.start, bucket.end()]);
            let after: Vec<_> = precision.starts(at.plus(1)..bucket.end().plus(1)).collect();
            prop_assert_eq!(after, [bucket.end()]);
        }

        #[test]
        fn precisions_survive_a_text_round_trip(precision in precisions()) {
            prop_assert_eq!(precision.to_string().parse(), Ok(precision));
        }

        #[test]
        fn a_utc_offset_shifts_bucket_starts(
            precision in precisions(),
            seconds in -i32::MAX..=i32::MAX,
            at in 8_000_000_000_u64..100_000_000_000,
        ) {
            let moved = precision.utc_offset(seconds);
            let at = Timestamp::from_unix(at);
            let later = Timestamp::from_unix(at.as_unix().checked_add_signed(seconds.into()).expect("far off"));
            let start = precision.bucket(later).start.as_unix().checked_add_signed(-i64::from(seconds));
            prop_assert_eq!(Some(moved.bucket(at).start.as_unix()), start);
            prop_assert_eq!(moved.utc_offset(-seconds), precision);
        }

        #[test]
        fn divides_is_true_if_coarser_buckets_start_at_finer_buckets(
            fine in (1_u32..20, 0_u64..20),
            coarse in (1_u32..60, 0_u64..60),
        ) {
            let [fine, coarse] = [fine, coarse].map(|(width, at)| {
                Precision::try_from(width).expect("not 0").starting_at(Timestamp::from_unix(at))
            });
            let begins = |start: Timestamp| fine.bucket(start).start == start;
            let all = Timestamp::from_unix(1000)..Timestamp::from_unix(4000);
            prop_assert_eq!(fine.divides(coarse), coarse.starts(all).all(begins));
        }
    }
}
