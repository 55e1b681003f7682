//! The distributions that are retained for a period.

use std::ops::Range;

use counter_core::time::Retention;
use counter_core::{Precision, Precisions, Timestamp};

use super::buckets::MAX_BUCKETS;
use super::period::length;
use super::timeline::Timeline;

/// The retained distributions of a period.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Retained {
    pub(crate) precision: Precision,
    /// The part of the period that is retained.
    pub(crate) range: Range<Timestamp>,
    /// The compared period, up to the same elapsed time, if it is retained.
    pub(crate) compared: Option<Range<Timestamp>>,
}

impl Retained {
    /// Returns `None` if distributions of this period are not retained.
    pub(crate) fn of(retained: &Precisions, timeline: &Timeline, now: Timestamp) -> Option<Self> {
        let (read, range) = (timeline.buckets.read.precision, timeline.buckets.range());
        let retained = fitting(retained, read, &range, now)?;
        let (precision, oldest) = (retained.precision, retained.oldest(now));
        let range = precision.bucket(range.start).start.max(oldest)..range.end;
        // When buckets are longer than in the chart, they could be part of both periods.
        let is_before = |other: &Range<Timestamp>| precision.bucket(other.end.minus(1)).end() <= range.start;
        let compared = timeline.elapsed(now).map(|other| precision.bucket(other.start).start..other.end);
        let compared = compared.filter(|other| is_before(other) && oldest <= other.start);
        (!range.is_empty()).then_some(Self { precision, range, compared })
    }
}

/// Returns the best distribution precision for a chart of this precision: the same precision, or else the
/// coarsest precision that divides it, or else a coarser precision. Prefers precisions that are retained for
/// the whole range.
fn fitting(
    retained: &Precisions,
    chart: Precision,
    range: &Range<Timestamp>,
    now: Timestamp,
) -> Option<Retention> {
    let buckets = |retention: &Retention| length(range) / u64::from(retention.precision.as_seconds());
    let divides = |retention: &Retention| retention.precision.divides(chart);
    let fits =
        |retention: &Retention| buckets(retention) <= MAX_BUCKETS as u64 && retention.oldest(now) < range.end;
    let is_retained = |retention: &Retention| retention.oldest(now) <= range.start;
    let of = |condition: &dyn Fn(&Retention) -> bool| {
        let all = || retained.iter().filter(fits).filter(condition);
        all().filter(divides).last().or_else(|| all().find(|retention| !divides(retention)))
    };
    // Longer buckets are still better than an incomplete range.
    of(&is_retained).or_else(|| of(&|_| true))
}
