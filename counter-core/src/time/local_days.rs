//! The days of a time zone, and the buckets that they are made of.

use std::collections::BTreeSet;
use std::fmt;
use std::num::NonZeroU32;
use std::ops::Range;
use std::sync::Arc;

use super::grid::{Grid, Precisions, PrecisionsError, Retention, gcd};
use super::precision::{Bucket, Precision};
use super::timestamp::Timestamp;

/// The days of a time zone, for [`Builder::local_days`](crate::Builder::local_days).
///
/// A day starts at midnight, so it has 23 or 25 hours when clocks change. This crate has no time zone database:
/// use `counter_admin::local_days`, or [`new`](Self::new).
#[derive(Clone)]
pub struct LocalDays(Arc<dyn Fn(Timestamp) -> Range<Timestamp> + Send + Sync>);

/// Seconds per UTC day.
const DAY: u32 = 86_400;

/// The number of days before and after now that are checked for the UTC offsets in use.
const CHECKED_DAYS: u64 = 366;

impl LocalDays {
    /// Creates days from a function that returns the start and the end of the day with this instant.
    ///
    /// ```
    /// use counter_core::time::LocalDays;
    /// use counter_core::{Counters, MemoryStore, Precision, Timestamp};
    ///
    /// // India is 19,800 s ahead of UTC.
    /// let india = Precision::DAY.utc_offset(19_800);
    /// let days = LocalDays::new(move |at| india.bucket(at).start..india.bucket(at).end());
    /// let counters = Counters::builder(MemoryStore::new()).local_days(days)?.build()?;
    /// let precisions = counters.stats().grid().visitors.to_string();
    /// assert_eq!(precisions, "3600@1800, 86400@66600");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn new(day: impl Fn(Timestamp) -> Range<Timestamp> + Send + Sync + 'static) -> Self {
        Self(Arc::new(day))
    }

    /// Returns the day with this instant, or the day of UTC if the function returns a different one.
    #[must_use]
    pub fn day(&self, at: Timestamp) -> Range<Timestamp> {
        let day = (self.0)(at);
        if day.contains(&at) {
            return day;
        }
        let utc = width(DAY).bucket(at);
        utc.start..utc.end()
    }

    /// Returns the day with this instant as a bucket, which has the width of this day.
    pub(crate) fn bucket(&self, at: Timestamp) -> Bucket {
        let day = self.day(at);
        let seconds = u32::try_from(day.end.as_unix() - day.start.as_unix());
        let precision = seconds.ok().and_then(NonZeroU32::new).map_or(width(DAY), Precision::new);
        Bucket { precision: precision.starting_at(day.start), start: day.start }
    }

    /// Returns a precision with the first of these days.
    pub(crate) fn precision(&self, now: Timestamp) -> Precision {
        width(DAY).starting_at(self.day(now).start)
    }

    /// Returns the seconds of a UTC day at which days start, within a year from now.
    fn starts(&self, now: Timestamp) -> BTreeSet<u32> {
        let (mut at, end) =
            (now.minus(CHECKED_DAYS * u64::from(DAY)), now.plus(CHECKED_DAYS * u64::from(DAY)));
        let mut starts = BTreeSet::new();
        // More would not be a set of precisions.
        while at < end && starts.len() <= 16 {
            let day = self.day(at);
            starts.insert(second_of_day(day.start));
            // The first bucket is cut off at 1970, so it might be shorter.
            at = day.end.max(at.plus(1));
        }
        starts
    }

    /// Returns a grid with the same widths and retention, so that each day is made of whole buckets.
    pub(crate) fn grid(&self, grid: &Grid, now: Timestamp) -> Result<Grid, PrecisionsError> {
        let starts = self.starts(now);
        let aligned = |set: &Precisions| Precisions::new(set.iter().flat_map(|part| aligned(part, &starts)));
        let counts = aligned(&grid.counts)?;
        Ok(Grid {
            counts: with_parts_of_days(counts, &starts)?,
            visitors: aligned(&grid.visitors)?,
            distributions: grid.distributions.as_ref().map(aligned).transpose()?,
        })
    }

    /// Returns `true` if a grid has the buckets that these days are made of.
    #[must_use]
    pub fn are_kept_in(&self, grid: &Grid) -> bool {
        let has = |all: &Precisions, needed: &Precisions| {
            needed.iter().all(|part| all.retention(part.precision).is_some())
        };
        self.grid(grid, Timestamp::now())
            .is_ok_and(|needed| has(&grid.counts, &needed.counts) && has(&grid.visitors, &needed.visitors))
    }

    /// Returns `true` if visitors are kept for these days, i.e. if a bucket of at most a day is part of a single day, or
    /// starts like one of the days.
    pub(crate) fn fit(&self, visitors: &Precisions, now: Timestamp) -> bool {
        let starts = self.starts(now);
        visitors.iter().filter(|part| divides_day(part.precision)).all(|part| {
            let (width, offset) = (part.precision.as_seconds(), part.precision.offset());
            let is_start = |start: &u32| start % width == offset;
            if width == DAY { starts.iter().any(is_start) } else { starts.iter().all(is_start) }
        })
    }
}

impl fmt::Debug for LocalDays {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LocalDays")
    }
}

/// Aligns a precision with the starts of days. When clocks change, there are days for each UTC offset: each day with 24
/// hours is one of these buckets, and a longer day is the union of two of them.
fn aligned(part: Retention, starts: &BTreeSet<u32>) -> Vec<Retention> {
    let seconds = part.precision.as_seconds();
    if !divides_day(part.precision) {
        return vec![part];
    }
    let starting =
        |precision: Precision, start: &u32| precision.starting_at(Timestamp::from_unix((*start).into()));
    if seconds == DAY {
        // One more, because the days of one offset expire up to a day earlier than those of another.
        let samples = part.samples.saturating_add(u32::from(starts.len() > 1));
        return starts
            .iter()
            .map(|start| Retention { precision: starting(part.precision, start), samples })
            .collect();
    }
    let common = common_width(seconds, starts);
    let first = starts.first().copied().unwrap_or(0);
    let samples = part.samples.saturating_mul(NonZeroU32::new(seconds / common).unwrap_or(NonZeroU32::MIN));
    vec![Retention { precision: starting(width(common), &first), samples }]
}

/// Adds what is needed for the counts of days with other than 24 hours: buckets of at most an hour, for as long as days.
fn with_parts_of_days(counts: Precisions, starts: &BTreeSet<u32>) -> Result<Precisions, PrecisionsError> {
    let days = counts.of_width(DAY).filter(|_| starts.len() > 1);
    let Some((days, first)) = days.zip(starts.first()) else { return Ok(counts) };
    let seconds = common_width(3600, starts);
    let part = Retention {
        precision: width(seconds).starting_at(Timestamp::from_unix((*first).into())),
        samples: days.samples.saturating_mul(NonZeroU32::new(DAY / seconds).unwrap_or(NonZeroU32::MIN)),
    };
    Precisions::new(counts.iter().chain([part]))
}

/// Returns the largest divisor of a width such that all days start with a bucket.
fn common_width(seconds: u32, starts: &BTreeSet<u32>) -> u32 {
    let first = starts.first().copied().unwrap_or(0);
    starts.iter().fold(seconds, |common, start| gcd(common, start - first))
}

fn divides_day(precision: Precision) -> bool {
    DAY.is_multiple_of(precision.as_seconds())
}

fn second_of_day(at: Timestamp) -> u32 {
    width(DAY).starting_at(at).offset()
}

const fn width(seconds: u32) -> Precision {
    Precision::new(NonZeroU32::new(seconds).expect("not 0"))
}
