//! Which buckets exist, and for how long.
//!
//! Folding happens on the finest partition of time that keeps every precision exact. For one hit at
//! `t` that is the latest bucket start at or before `t` over all the precisions that still want it:
//!
//! `start = max over p of floor(t / p) × p`
//!
//! Every precision finds its own bucket again from that start, whether the widths divide one another
//! or not (18,000 s does not divide a day), and there are at most about two such starts for each sample
//! that is kept: one where the widths do divide one another.

use std::fmt;
use std::num::NonZeroU32;

use crate::{Precision, Timestamp};

/// A precision and how many of its samples are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// The width of the buckets.
    pub precision: Precision,
    /// How many buckets are kept, the current one included.
    pub samples: NonZeroU32,
}

/// A set of precisions, finest first, each with its retention; between 1 and 16 of them.
///
/// The default is that of the book *Redis in Action* (section 5.2.1): 1, 5, 60, 300, 3600, 18000 and
/// 86400 seconds, 120 samples each.
///
/// ```
/// use counter_core::{Precision, Precisions};
///
/// let set = Precisions::new([60, 3600].map(|s| Precision::try_from(s).unwrap()))?;
/// assert_eq!(set.iter().map(|kept| kept.precision.as_seconds()).collect::<Vec<_>>(), [60, 3600]);
/// assert_eq!(Precisions::default().iter().count(), 7);
/// # Ok::<(), counter_core::PrecisionsError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Precisions {
    kept: Vec<Retention>,
    base: Precision,
}

/// Not between 1 and 16 different precisions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrecisionsError(usize);

/// The buckets a set of counters keeps: one set of precisions for counts, one for visitors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grid {
    /// For counts.
    pub counts: Precisions,
    /// For visitors; by default 3600 and 86400 seconds, 120 samples each.
    pub visitors: Precisions,
}

/// What a precision keeps unless somebody says otherwise.
pub(crate) const SAMPLES: NonZeroU32 = NonZeroU32::new(120).expect("120 is not 0");

impl Retention {
    /// When the bucket that starts at `start` is no longer wanted: `samples` widths later.
    #[must_use]
    pub const fn expiry(self, start: Timestamp) -> Timestamp {
        start.plus(self.precision.as_seconds() as u64 * self.samples.get() as u64)
    }

    /// The oldest instant whose bucket is still kept at `now`.
    #[must_use]
    pub fn oldest(self, now: Timestamp) -> Timestamp {
        let width = u64::from(self.precision.as_seconds());
        self.precision.bucket(now).start.minus(width * u64::from(self.samples.get() - 1))
    }

    fn wants(self, at: Timestamp, now: Timestamp) -> bool {
        self.expiry(self.precision.bucket(at).start) > now
    }
}

impl From<Precision> for Retention {
    /// 120 samples.
    fn from(precision: Precision) -> Self {
        Self { precision, samples: SAMPLES }
    }
}

impl Precisions {
    /// These precisions in any order, with 120 samples of each or with as many as their retention says;
    /// of one that is named twice the longer is kept.
    ///
    /// ```
    /// use std::num::NonZeroU32;
    /// use counter_core::{Precision, Precisions, Retention};
    ///
    /// let (hour, day) = (Precision::try_from(3600)?, Precision::try_from(86_400)?);
    /// let days = Retention { precision: day, samples: NonZeroU32::new(400).unwrap() };
    /// let set = Precisions::new([hour.into(), days])?;
    /// assert_eq!(set.retention(hour).unwrap().samples.get(), 120);
    /// assert_eq!(set.retention(day), Some(days));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// When there are none, or more than 16.
    pub fn new(kept: impl IntoIterator<Item: Into<Retention>>) -> Result<Self, PrecisionsError> {
        let mut kept: Vec<Retention> = kept.into_iter().map(Into::into).collect();
        kept.sort_unstable_by_key(|kept| (kept.precision, std::cmp::Reverse(kept.samples)));
        kept.dedup_by_key(|kept| kept.precision);
        let base = kept.iter().map(|kept| kept.precision.as_seconds()).reduce(gcd).and_then(NonZeroU32::new);
        match base {
            Some(base) if kept.len() <= 16 => Ok(Self { kept, base: Precision::new(base) }),
            _ => Err(PrecisionsError(kept.len())),
        }
    }

    /// The same precisions with that many samples of each.
    #[must_use]
    pub fn samples(mut self, samples: NonZeroU32) -> Self {
        for kept in &mut self.kept {
            kept.samples = samples;
        }
        self
    }

    /// The precisions and their retention, finest first.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Retention> + Clone {
        self.kept.iter().copied()
    }

    /// The retention of one precision of the set.
    #[must_use]
    pub fn retention(&self, precision: Precision) -> Option<Retention> {
        self.iter().find(|kept| kept.precision == precision)
    }

    /// The retention of any precision: 120 samples for one that is not of the set.
    pub(crate) fn retention_or_default(&self, precision: Precision) -> Retention {
        self.retention(precision).unwrap_or_else(|| precision.into())
    }

    /// The precisions from `finest` on, with their place in the set.
    pub(crate) fn from(&self, finest: usize) -> impl Iterator<Item = (usize, Retention)> {
        self.iter().enumerate().skip(finest)
    }

    pub(crate) fn precision(&self, place: usize) -> Precision {
        self.kept[place].precision
    }

    /// The greatest common divisor: buckets of this width lie inside one bucket of every precision.
    pub(crate) const fn base(&self) -> Precision {
        self.base
    }

    /// The place of the first precision, from `finest` on, that still wants a hit of `at`.
    pub(crate) fn finest_wanted(&self, finest: usize, at: Timestamp, now: Timestamp) -> Option<usize> {
        self.from(finest).find(|(_, kept)| kept.wants(at, now)).map(|(place, _)| place)
    }

    /// The coarsest start that still gives every precision from `finest` on its own bucket.
    pub(crate) fn start(&self, finest: usize, at: Timestamp) -> Timestamp {
        self.from(finest).map(|(_, kept)| kept.precision.bucket(at).start).max().unwrap_or(at)
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
        Self { counts: Precisions::default(), visitors }
    }
}

impl fmt::Display for Precisions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, kept) in self.from(0) {
            write!(f, "{}{}", if place == 0 { "" } else { ", " }, kept.precision)?;
        }
        Ok(())
    }
}

impl fmt::Display for PrecisionsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a set of precisions has between 1 and 16 of them, not {}", self.0)
    }
}

impl std::error::Error for PrecisionsError {}

fn whole(seconds: u32) -> Precision {
    Precision::try_from(seconds).expect("the default widths are not 0")
}

pub(crate) const fn gcd(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn set(widths: &[u32]) -> Precisions {
        Precisions::new(widths.iter().copied().map(whole)).expect("a set")
    }

    #[test]
    fn none_and_seventeen_precisions_are_refused() {
        assert_eq!(Precisions::new([0_u8; 0].map(|_| whole(1))), Err(PrecisionsError(0)));
        assert_eq!(Precisions::new((1..=17).map(whole)), Err(PrecisionsError(17)));
    }

    #[test]
    fn each_precision_has_its_own_retention_and_the_longer_of_two() {
        let keep = |seconds, samples| Retention {
            precision: whole(seconds),
            samples: NonZeroU32::new(samples).expect("not 0"),
        };
        let set = Precisions::new([keep(86_400, 7), keep(60, 30), keep(86_400, 400)]).expect("a set");
        let kept: Vec<_> = set.iter().map(|kept| (kept.precision.as_seconds(), kept.samples.get())).collect();
        assert_eq!(kept, [(60, 30), (86_400, 400)]);
    }

    #[test]
    fn retention_keeps_exactly_its_samples() {
        let kept = Retention { precision: whole(60), samples: SAMPLES };
        for now in [1_000_000, 1_000_019, 1_000_020, 1_000_021].map(Timestamp::from_unix) {
            let starts: Vec<_> = kept.precision.starts(kept.oldest(now), now.plus(1)).collect();
            assert_eq!(starts.len(), 120);
            assert!(starts.iter().all(|start| kept.expiry(*start) > now));
            assert!(kept.expiry(kept.oldest(now).minus(1)) <= now.plus(60));
            assert!(!kept.wants(kept.oldest(now).minus(1), now));
        }
    }

    proptest! {
        #[test]
        fn a_start_finds_every_coarser_bucket_again(
            widths in prop::collection::vec(1_u32..100_000, 1..8),
            at in 0_u64..4_000_000_000,
        ) {
            let set = set(&widths);
            let at = Timestamp::from_unix(at);
            let base = set.base().bucket(at).start;
            for finest in 0..set.iter().count() {
                let start = set.start(finest, at);
                prop_assert_eq!(set.start(finest, start), start);
                prop_assert!(start <= at);
                for (_, kept) in set.from(finest) {
                    prop_assert_eq!(kept.precision.bucket(start), kept.precision.bucket(at));
                    prop_assert_eq!(kept.precision.bucket(base), kept.precision.bucket(at));
                }
            }
        }

        #[test]
        fn no_outage_makes_more_starts_than_samples_are_kept(seconds in 1_u64..40_000) {
            let set = set(&[1, 5, 18, 60]).samples(NonZeroU32::new(10).expect("not 0"));
            let now = Timestamp::from_unix(1_000_000 + seconds);
            let starts: std::collections::HashSet<_> = (1_000_000..=now.as_unix())
                .map(Timestamp::from_unix)
                .filter_map(|at| set.finest_wanted(0, at, now).map(|finest| (finest, set.start(finest, at))))
                .collect();
            prop_assert!(starts.len() <= 4 * 10 * 2, "{}", starts.len());
        }
    }
}
