//! The bucket grid: the configured precisions and the number of buckets to retain.
//!
//! Folding uses the coarsest partition that is still exact for all precisions. For a hit at `t`, this is the
//! latest bucket start at or before `t`, across all precisions that still retain the hit:
//!
//! `start = max over p of the start of p's bucket of t`
//!
//! The bucket in any precision can be derived from this start, even if the precisions do not divide one
//! another (18,000 s does not divide a day, and an hour does not divide a day that starts at half past).
//! There are about two starts per retained sample at most, or just one if the precisions divide one another.

use std::fmt;
use std::num::NonZeroU32;

use super::precision::Precision;
use super::timestamp::Timestamp;

/// A precision, and the number of samples to retain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// The bucket width.
    pub precision: Precision,
    /// The number of buckets to retain, including the current bucket.
    pub samples: NonZeroU32,
}

/// A set of 1 to 16 precisions and their retention, ordered from finest to coarsest.
///
/// The default is taken from the book *Redis in Action* (section 5.2.1): 1, 5, 60, 300, 3600, 18000 and 86400
/// seconds, with 120 samples each.
///
/// ```
/// use counter_core::{Precision, Precisions};
///
/// let set = Precisions::new([60, 3600].map(|s| Precision::try_from(s).unwrap()))?;
/// assert_eq!(set.iter().map(|retained| retained.precision.as_seconds()).collect::<Vec<_>>(), [60, 3600]);
/// assert_eq!(Precisions::default().iter().count(), 7);
/// # Ok::<(), counter_core::time::PrecisionsError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Precisions {
    retained: Vec<Retention>,
    base: Precision,
}

/// An error returned if precisions can't be combined to a set.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum PrecisionsError {
    /// The number of precisions is not between 1 and 16.
    Number(usize),
}

/// Kinds of values in buckets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Counts of hits.
    Counts,
    /// Visitors, as sketches.
    Visitors,
    /// Distributions, as bins.
    Distributions,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Self; 3] = [Self::Counts, Self::Visitors, Self::Distributions];
}

/// The buckets that counters retain: a set of precisions for counts, a set for visitors, and optionally a set
/// for distributions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grid {
    /// Precisions for counts.
    pub counts: Precisions,
    /// Precisions for visitors. The default is 3600 and 86400 seconds, with 120 samples each.
    pub visitors: Precisions,
    /// Precisions for [distributions](crate::visits::Distribution). The default is `None`.
    pub distributions: Option<Precisions>,
}

/// The default number of samples to retain per precision.
pub(crate) const DEFAULT_SAMPLES: NonZeroU32 = NonZeroU32::new(120).expect("120 is not 0");

impl Retention {
    /// Returns the time at which a bucket expires: `samples` widths after `start`.
    #[must_use]
    pub const fn expiry(self, start: Timestamp) -> Timestamp {
        start.plus(self.precision.as_seconds() as u64 * self.samples.get() as u64)
    }

    /// Returns the time at which visitors and distributions of a bucket are removed from a store. This is four widths after
    /// the [expiry](Self::expiry), because a copier makes the final copy for an archive when the bucket has expired.
    #[must_use]
    pub(crate) const fn removal(self, start: Timestamp) -> Timestamp {
        self.expiry(start).plus(self.removal_delay())
    }

    /// Returns the time from the expiry to the [removal](Self::removal), in seconds.
    pub(crate) const fn removal_delay(self) -> u64 {
        4 * self.precision.as_seconds() as u64
    }

    /// Returns the start of the oldest bucket that is still retained at `now`.
    #[must_use]
    pub fn oldest(self, now: Timestamp) -> Timestamp {
        let width = u64::from(self.precision.as_seconds());
        self.precision.bucket(now).start.minus(width * u64::from(self.samples.get() - 1))
    }

    fn retains(self, at: Timestamp, now: Timestamp) -> bool {
        self.expiry(self.precision.bucket(at).start) > now
    }
}

impl Grid {
    /// Returns the precisions for values of a kind, or `None` if they are not kept.
    #[must_use]
    pub const fn precisions(&self, kind: Kind) -> Option<&Precisions> {
        match kind {
            Kind::Counts => Some(&self.counts),
            Kind::Visitors => Some(&self.visitors),
            Kind::Distributions => self.distributions.as_ref(),
        }
    }

    /// Returns this grid, but with the longer retention if a width is also contained in the other grid.
    pub(crate) fn with_longest_retention(&self, other: &Self) -> Self {
        Self {
            counts: self.counts.with_longest_retention(&other.counts),
            visitors: self.visitors.with_longest_retention(&other.visitors),
            distributions: self.distributions.as_ref().map(|ours| match &other.distributions {
                Some(other) => ours.with_longest_retention(other),
                None => ours.clone(),
            }),
        }
    }
}

impl From<Precision> for Retention {
    /// Retains 120 samples.
    fn from(precision: Precision) -> Self {
        Self { precision, samples: DEFAULT_SAMPLES }
    }
}

impl Precisions {
    /// Creates a set. Precisions can be passed in any order, and retain 120 samples unless a [`Retention`] is
    /// passed. If a precision is passed more than once, the longest retention is used.
    ///
    /// ```
    /// use std::num::NonZeroU32;
    /// use counter_core::time::Retention;
    /// use counter_core::{Precision, Precisions};
    ///
    /// let (hour, day) = (Precision::HOUR, Precision::DAY);
    /// let days = Retention { precision: day, samples: NonZeroU32::new(400).unwrap() };
    /// let set = Precisions::new([hour.into(), days])?;
    /// assert_eq!(set.retention(hour).unwrap().samples.get(), 120);
    /// assert_eq!(set.retention(day), Some(days));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Returns an error if there are zero or more than 16 precisions.
    pub fn new(retained: impl IntoIterator<Item: Into<Retention>>) -> Result<Self, PrecisionsError> {
        let mut retained: Vec<Retention> = retained.into_iter().map(Into::into).collect();
        retained
            .sort_unstable_by_key(|retention| (retention.precision, std::cmp::Reverse(retention.samples)));
        retained.dedup_by_key(|retention| retention.precision);
        match base(retained.iter().map(|retention| retention.precision)) {
            Some(base) if retained.len() <= 16 => Ok(Self { retained, base }),
            _ => Err(PrecisionsError::Number(retained.len())),
        }
    }

    /// Sets the number of samples to retain for all precisions.
    #[must_use]
    pub fn samples(self, samples: NonZeroU32) -> Self {
        self.with_samples(|_| samples)
    }

    /// Returns this set with a different number of samples for each precision.
    pub(crate) fn with_samples(&self, mut samples: impl FnMut(Retention) -> NonZeroU32) -> Self {
        let retained =
            self.iter().map(|retention| Retention { samples: samples(retention), ..retention }).collect();
        Self { retained, base: self.base }
    }

    fn with_longest_retention(&self, other: &Self) -> Self {
        self.with_samples(|retention| {
            let other = other.of_width(retention.precision.as_seconds());
            other.map_or(retention.samples, |other| other.samples.max(retention.samples))
        })
    }

    /// Shifts the buckets of all precisions to start earlier by this number of seconds. See
    /// [`Precision::utc_offset`].
    ///
    /// ```
    /// use counter_core::Precisions;
    ///
    /// // In India (UTC+05:30), hours start at half past, and days at 18:30 UTC.
    /// let set = Precisions::default().utc_offset(19_800);
    /// assert_eq!(set.to_string(), "1, 5, 60, 300, 3600@1800, 18000@16200, 86400@66600");
    /// ```
    #[must_use]
    pub fn utc_offset(self, seconds: i32) -> Self {
        let moved = |retention: &Retention| Retention {
            precision: retention.precision.utc_offset(seconds),
            ..*retention
        };
        // Boundaries shared by all precisions are shifted along with them.
        Self { retained: self.retained.iter().map(moved).collect(), base: self.base.utc_offset(seconds) }
    }

    /// Returns the precisions and retentions, ordered from finest to coarsest.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Retention> + Clone {
        self.retained.iter().copied()
    }

    /// Returns the retention for a precision in this set.
    #[must_use]
    pub fn retention(&self, precision: Precision) -> Option<Retention> {
        self.iter().find(|retention| retention.precision == precision)
    }

    /// Returns the precision with this width, regardless of the offset, and its retention. If there are several, as for
    /// the days of a [time zone](super::LocalDays), this is the one with the smallest offset.
    ///
    /// ```
    /// use counter_core::Precisions;
    ///
    /// let set = Precisions::default().utc_offset(-18_000);
    /// assert_eq!(set.of_width(86_400).unwrap().precision.offset(), 18_000);
    /// assert_eq!(set.of_width(7), None);
    /// ```
    #[must_use]
    pub fn of_width(&self, seconds: u32) -> Option<Retention> {
        self.iter().find(|retention| retention.precision.as_seconds() == seconds)
    }

    /// Returns the retention for any precision, based on the width, or 120 samples if the set does not
    /// contain this width. This way, samples with an old offset are retained as before if the offset changes.
    pub(crate) fn retention_or_default(&self, precision: Precision) -> Retention {
        let retained = self.retention(precision).or_else(|| self.of_width(precision.as_seconds()));
        Retention { precision, samples: retained.map_or(DEFAULT_SAMPLES, |retention| retention.samples) }
    }

    /// Returns the index of the finest precision of at least an hour, or otherwise of the coarsest precision.
    pub(crate) fn hours(&self) -> usize {
        self.finest_of(Precision::HOUR)
    }

    /// Returns the index of the finest precision of at least a day, or otherwise of the coarsest precision.
    pub(crate) fn days(&self) -> usize {
        self.finest_of(Precision::DAY)
    }

    fn finest_of(&self, least: Precision) -> usize {
        let is_long = |retention: &Retention| retention.precision >= least;
        self.retained.iter().position(is_long).unwrap_or(self.retained.len() - 1)
    }

    /// Returns the precisions in which [label values](crate::visits::LabelValues::people) have visitors: days and coarser
    /// ones, but at least the coarsest.
    ///
    /// ```
    /// use counter_core::time::Grid;
    ///
    /// assert_eq!(Grid::default().visitors.of_label_values().to_string(), "86400");
    /// ```
    #[must_use]
    pub fn of_label_values(&self) -> Self {
        self.starting_from(self.days())
    }

    /// Returns the precisions in which views have samples: hours and coarser ones, but at least the coarsest.
    ///
    /// ```
    /// use counter_core::Precisions;
    ///
    /// assert_eq!(Precisions::default().of_views().to_string(), "3600, 18000, 86400");
    /// ```
    #[must_use]
    pub fn of_views(&self) -> Self {
        self.starting_from(self.hours())
    }

    /// Returns the precisions starting from an index.
    fn starting_from(&self, finest: usize) -> Self {
        let retained = self.retained[finest..].to_vec();
        Self {
            base: base(retained.iter().map(|retention| retention.precision)).unwrap_or(self.base),
            retained,
        }
    }

    /// Returns the precisions starting from the index `finest`, including the index.
    pub(crate) fn from(&self, finest: usize) -> impl Iterator<Item = (usize, Retention)> {
        self.iter().enumerate().skip(finest)
    }

    /// Returns the precision with this index, or [`Precision::COARSEST`] if out of bounds.
    pub(crate) fn precision(&self, place: usize) -> Precision {
        self.retained.get(place).map_or(Precision::COARSEST, |retention| retention.precision)
    }

    /// Returns the index of a precision in this set. For [`Precision::COARSEST`], this is the number of
    /// precisions.
    #[cfg(feature = "spool")]
    pub(crate) fn place(&self, precision: Precision) -> Option<usize> {
        if precision == Precision::COARSEST {
            return Some(self.retained.len());
        }
        self.iter().position(|retention| retention.precision == precision)
    }

    /// Returns the coarsest precision that divides all precisions in this set.
    pub(crate) const fn base(&self) -> Precision {
        self.base
    }

    /// Returns the index of the finest precision that still retains a hit at `at`, starting from `finest`.
    pub(crate) fn finest_retained(&self, finest: usize, at: Timestamp, now: Timestamp) -> Option<usize> {
        self.from(finest).find(|(_, retained)| retained.retains(at, now)).map(|(place, _)| place)
    }

    /// Returns the earliest start that is in the same bucket as `at`, for all precisions starting from
    /// `finest`.
    ///
    /// If `finest` is out of bounds, there are no buckets, and the start is always the same.
    pub(crate) fn start(&self, finest: usize, at: Timestamp) -> Timestamp {
        let Some(Retention { precision: first, .. }) = self.retained.get(finest).copied() else {
            return Timestamp::MIN;
        };
        if first == self.base {
            // All other precisions consist of whole base buckets, so their buckets can't start later.
            return first.bucket(at).start;
        }
        self.from(finest).map(|(_, retained)| retained.precision.bucket(at).start).max().unwrap_or(at)
    }
}

impl Default for Precisions {
    fn default() -> Self {
        Self::new([1, 5, 60, 300, 3600, 18_000, 86_400].map(whole)).expect("seven precisions are a set")
    }
}

impl Default for Grid {
    fn default() -> Self {
        let visitors = Precisions::new([3600, 86_400].map(whole)).expect("two precisions are a set");
        Self { counts: Precisions::default(), visitors, distributions: None }
    }
}

impl fmt::Display for Precisions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, retained) in self.from(0) {
            write!(f, "{}{}", if place == 0 { "" } else { ", " }, retained.precision)?;
        }
        Ok(())
    }
}

impl fmt::Display for PrecisionsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => {
                write!(f, "expected 1 to 16 precisions, not {number}")
            }
        }
    }
}

impl std::error::Error for PrecisionsError {}

crate::log::debug::debug_in_full!(PrecisionsError);

fn whole(seconds: u32) -> Precision {
    Precision::try_from(seconds).expect("the default widths are not 0")
}

/// Returns the coarsest precision that divides all of the given precisions.
fn base(mut precisions: impl Iterator<Item = Precision>) -> Option<Precision> {
    let first = precisions.next()?;
    let width = precisions.fold(first.as_seconds(), |width, other| {
        gcd(gcd(width, other.as_seconds()), first.offset().abs_diff(other.offset()))
    });
    let first = Timestamp::from_unix(first.offset().into());
    Some(Precision::new(NonZeroU32::new(width)?).starting_at(first))
}

pub(super) const fn gcd(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Arbitrary widths, or typical widths, with any offsets.
    fn sets() -> impl Strategy<Value = Precisions> {
        let typical = prop::sample::select(vec![1, 5, 60, 300, 3600, 18_000, 86_400]);
        let widths = prop::collection::btree_set(prop_oneof![1_u32..100_000, typical], 1..8);
        let offsets = prop::collection::vec(prop_oneof![any::<i32>(), -50..50_i32, Just(19_800)], 8);
        (widths, offsets).prop_map(|(widths, offsets)| {
            let moved =
                widths.into_iter().zip(offsets).map(|(width, offset)| whole(width).utc_offset(offset));
            Precisions::new(moved).expect("one offset for each width")
        })
    }

    #[test]
    fn zero_or_seventeen_precisions_are_rejected() {
        assert_eq!(Precisions::new([0_u8; 0].map(|_| whole(1))), Err(PrecisionsError::Number(0)));
        assert_eq!(Precisions::new((1..=17).map(whole)), Err(PrecisionsError::Number(17)));
    }

    #[test]
    fn the_longest_retention_of_a_duplicate_precision_is_used() {
        let keep = |seconds, samples| Retention {
            precision: whole(seconds),
            samples: NonZeroU32::new(samples).expect("not 0"),
        };
        let set = Precisions::new([keep(86_400, 7), keep(60, 30), keep(86_400, 400)]).expect("a set");
        let retained: Vec<_> =
            set.iter().map(|retention| (retention.precision.as_seconds(), retention.samples.get())).collect();
        assert_eq!(retained, [(60, 30), (86_400, 400)]);
    }

    #[test]
    fn retention_covers_exactly_the_configured_samples() {
        for offset in [0, 19, 20, 59] {
            let retained = Retention { precision: whole(60).utc_offset(-offset), samples: DEFAULT_SAMPLES };
            for now in [1_000_000, 1_000_019, 1_000_020, 1_000_021].map(Timestamp::from_unix) {
                let starts: Vec<_> = retained.precision.starts(retained.oldest(now)..now.plus(1)).collect();
                assert_eq!(starts.len(), 120);
                assert!(starts.iter().all(|start| retained.expiry(*start) > now));
                assert!(retained.expiry(retained.oldest(now).minus(1)) <= now.plus(60));
                assert!(!retained.retains(retained.oldest(now).minus(1), now));
            }
        }
    }

    proptest! {
        #[test]
        fn a_start_identifies_all_coarser_buckets(
            set in sets(),
            at in prop_oneof![0_u64..200_000, 0_u64..4_000_000_000],
        ) {
            let at = Timestamp::from_unix(at);
            let base = set.base().bucket(at).start;
            for finest in 0..set.iter().count() {
                let start = set.start(finest, at);
                prop_assert_eq!(set.start(finest, start), start);
                prop_assert!(start <= at);
                for (_, retained) in set.from(finest) {
                    prop_assert_eq!(retained.precision.bucket(start), retained.precision.bucket(at));
                    prop_assert_eq!(retained.precision.bucket(base), retained.precision.bucket(at));
                }
            }
        }

        #[test]
        fn the_base_is_the_coarsest_common_divisor(set in sets(), seconds: i32) {
            let divides_all = |base: Precision| set.iter().all(|retention| base.divides(retention.precision));
            prop_assert!(divides_all(set.base()));
            let coarser = set.base().as_seconds() + 1..=set.base().as_seconds().saturating_mul(7);
            for width in coarser.step_by(set.base().as_seconds().div_ceil(100) as usize) {
                let first = set.precision(0).offset();
                let base = whole(width).starting_at(Timestamp::from_unix(first.into()));
                prop_assert!(!divides_all(base), "{base} divides {set}");
            }
            let moved = set.clone().utc_offset(seconds);
            let precisions = moved.iter().map(|retention| retention.precision);
            prop_assert_eq!(base(precisions), Some(moved.base()));
        }

        #[test]
        fn the_number_of_starts_is_bounded_by_retained_samples(
            seconds in 1_u64..40_000,
            offsets in prop::array::uniform4(0_i32..60),
        ) {
            let widths = [1, 5, 18, 60].map(whole).into_iter().zip(offsets);
            let set = Precisions::new(widths.map(|(width, offset)| width.utc_offset(offset))).expect("a set");
            let set = set.samples(NonZeroU32::new(10).expect("not 0"));
            let now = Timestamp::from_unix(1_000_000 + seconds);
            let starts: std::collections::HashSet<_> = (1_000_000..=now.as_unix())
                .map(Timestamp::from_unix)
                .filter_map(|at| set.finest_retained(0, at, now).map(|finest| (finest, set.start(finest, at))))
                .collect();
            prop_assert!(starts.len() <= 4 * 10 * 2, "{}", starts.len());
        }
    }
}
