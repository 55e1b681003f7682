use std::num::NonZeroU32;
use std::ops;

use counter_core::time::{Grid, Retention};
use counter_core::{Precision, Precisions, Timestamp};
use serde_json::{Value, json};

use super::{Description, Parameters, Times, Values};
use crate::api::mark::Mark;
use crate::problem::Problem;

/// The default bucket width, if it is retained.
pub(crate) const USUAL: u32 = 60;

/// Seconds after the end of a bucket in which the final flush may still add hits.
pub(crate) const LAG: u64 = 2;

/// Route state with the retained precisions.
pub(crate) trait HasGrid {
    fn grid(&self) -> &Grid;

    /// Returns the grid of the samples that can be read. This includes an archive.
    fn reach(&self) -> &Grid {
        self.grid()
    }
}

/// A precision, with the numbers of retained and readable samples.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kept {
    pub(crate) precision: Precision,
    pub(crate) samples: NonZeroU32,
    pub(crate) reach: NonZeroU32,
}

/// A retained precision of counts.
#[derive(Debug)]
pub(crate) struct KeptPrecision(pub(crate) Kept);

/// A retained precision of counts, or the [default](default_precision).
#[derive(Debug)]
pub(crate) struct UsualPrecision(pub(crate) Kept);

/// An optional precision of counts.
#[derive(Debug)]
pub(crate) struct OptionalPrecision(pub(crate) Option<Kept>);

/// A retained precision of visitors.
#[derive(Debug)]
pub(crate) struct VisitorPrecision(pub(crate) Kept);

/// A retained precision of distributions.
#[derive(Debug)]
pub(crate) struct DistributionPrecision(pub(crate) Kept);

/// The optional bounds of a range.
#[derive(Debug)]
pub(crate) struct Range {
    from: Option<Time>,
    to: Option<Time>,
}

/// The mark of the latest event that a client received.
#[derive(Debug)]
pub(crate) struct LastEventId(pub(crate) Option<Mark>);

/// The buckets of a response.
#[derive(Debug)]
pub(crate) struct Buckets {
    pub(crate) range: ops::Range<Timestamp>,
    /// Earlier samples are available, but the request has no `from` and the response limit is reached.
    pub(crate) is_cut: bool,
}

/// A time range with optional bounds.
#[derive(Debug)]
pub(crate) struct Instants(pub(crate) (ops::Bound<Timestamp>, ops::Bound<Timestamp>));

#[derive(Debug)]
pub(super) struct Time {
    pub(super) at: Timestamp,
    text: String,
}

const PRECISION: Description = Description {
    times: Times::Once,
    ..Description::new("precision", "The width of the buckets, in seconds", |grid| widths(&grid.counts))
};

const USUAL_PRECISION: Description = Description {
    times: Times::AtMostOnce,
    text: "The width of the buckets, in seconds; without it 60, or the smallest",
    ..PRECISION
};

fn widths(kept: &Precisions) -> Value {
    let widths: Vec<_> = kept.iter().map(|kept| kept.precision.as_seconds()).collect();
    json!({"type": "integer", "enum": widths})
}

/// Returns the default precision: one minute if it is retained, otherwise the finest precision.
pub(crate) fn usual(kept: &Precisions) -> Retention {
    kept.of_width(USUAL).or_else(|| kept.iter().next()).expect("a set of precisions is never empty")
}

/// Parses a precision. The text can be just the width, for any offset, or the full notation.
pub(crate) fn precision(text: &str, kept: &Precisions) -> Option<Retention> {
    match text.parse() {
        Ok(width) => kept.of_width(width),
        Err(_) => kept.retention(text.parse().ok()?),
    }
}

fn optional(values: &Values<'_>, kept: &Precisions) -> Result<Option<Retention>, Problem> {
    let Some(value) = values.one(PRECISION.name)? else { return Ok(None) };
    let unknown =
        || Problem::parameter("not a precision that is kept", PRECISION.name, Some(value), kept.to_string());
    precision(value, kept).ok_or_else(unknown).map(Some)
}

fn required(values: &Values<'_>, kept: &Precisions) -> Result<Retention, Problem> {
    let missing = || Problem::parameter("a parameter is missing", PRECISION.name, None, kept.to_string());
    optional(values, kept)?.ok_or_else(missing)
}

impl Kept {
    /// Looks up how far this precision can be read.
    pub(crate) fn of(kept: Retention, reach: &Precisions) -> Self {
        let Retention { precision, samples } = kept;
        Self { precision, samples, reach: reach.retention(precision).map_or(samples, |reach| reach.samples) }
    }

    /// Returns the start of the oldest bucket that can be read.
    fn oldest(self, now: Timestamp) -> Timestamp {
        Retention { precision: self.precision, samples: self.reach }.oldest(now)
    }
}

impl<S: HasGrid> Parameters<S> for KeptPrecision {
    fn describe() -> Vec<Description> {
        vec![PRECISION]
    }

    fn read(values: &Values<'_>, state: &S) -> Result<Self, Problem> {
        Ok(Self(Kept::of(required(values, &state.grid().counts)?, &state.reach().counts)))
    }
}

impl<S: HasGrid> Parameters<S> for UsualPrecision {
    fn describe() -> Vec<Description> {
        vec![USUAL_PRECISION]
    }

    fn read(values: &Values<'_>, state: &S) -> Result<Self, Problem> {
        let kept = &state.grid().counts;
        let named = optional(values, kept)?.unwrap_or_else(|| usual(kept));
        Ok(Self(Kept::of(named, &state.reach().counts)))
    }
}

impl<S: HasGrid> Parameters<S> for OptionalPrecision {
    fn describe() -> Vec<Description> {
        vec![USUAL_PRECISION]
    }

    fn read(values: &Values<'_>, state: &S) -> Result<Self, Problem> {
        let named = optional(values, &state.grid().counts)?;
        Ok(Self(named.map(|kept| Kept::of(kept, &state.reach().counts))))
    }
}

impl<S: HasGrid> Parameters<S> for VisitorPrecision {
    fn describe() -> Vec<Description> {
        vec![Description { schema: |grid| widths(&grid.visitors), ..PRECISION }]
    }

    fn read(values: &Values<'_>, state: &S) -> Result<Self, Problem> {
        Ok(Self(Kept::of(required(values, &state.grid().visitors)?, &state.reach().visitors)))
    }
}

impl<S: HasGrid> Parameters<S> for DistributionPrecision {
    fn describe() -> Vec<Description> {
        let schema = |grid: &Grid| grid.distributions.as_ref().map_or(Value::Null, widths);
        vec![Description { schema, ..PRECISION }]
    }

    fn read(values: &Values<'_>, state: &S) -> Result<Self, Problem> {
        // These routes only exist if distributions are retained, so this should not happen.
        let none = || Problem::parameter("no distributions are kept", PRECISION.name, None, "nothing");
        let kept = state.grid().distributions.as_ref().ok_or_else(none)?;
        let reach = state.reach().distributions.as_ref().unwrap_or(kept);
        Ok(Self(Kept::of(required(values, kept)?, reach)))
    }
}

impl<S> Parameters<S> for Range {
    fn describe() -> Vec<Description> {
        // A range must not be empty, which excludes the maximum as start and the minimum as end.
        let from = |_: &_| {
            let last = Timestamp::MAX.as_unix() - 1;
            json!({"type": "integer", "minimum": 0, "maximum": last})
        };
        let to = |_: &_| json!({"type": "integer", "minimum": 1, "maximum": Timestamp::MAX.as_unix()});
        vec![
            Description::new(
                "from",
                "The first second of the range, before `to` and before now; `/api` says how far back samples reach",
                from,
            ),
            Description::new(
                "to",
                "The first second after the range, after `from` and after the oldest bucket",
                to,
            ),
        ]
    }

    fn read(values: &Values<'_>, _: &S) -> Result<Self, Problem> {
        Ok(Self { to: time(values, "to")?, from: time(values, "from")? })
    }
}

pub(super) fn time(values: &Values<'_>, name: &str) -> Result<Option<Time>, Problem> {
    let Some(text) = values.one(name)? else { return Ok(None) };
    match text.parse() {
        Ok(seconds) if seconds <= Timestamp::MAX.as_unix() => {
            Ok(Some(Time { at: Timestamp::from_unix(seconds), text: text.to_owned() }))
        }
        _ => {
            let allowed = format!("Unix seconds, 0 to {}", Timestamp::MAX);
            Err(Problem::parameter("not a time", name, Some(text), allowed))
        }
    }
}

impl Range {
    /// Returns `true` if the request has neither `from` nor `to`.
    pub(crate) const fn is_open(&self) -> bool {
        self.from.is_none() && self.to.is_none()
    }

    /// Returns the buckets to read. Defaults to the retained buckets, up to the current bucket, but not more
    /// than `max`. Samples that are only available in an archive are read if `from` is set, or if `to` is in
    /// the archived part.
    pub(crate) fn buckets(&self, kept: Kept, most: u64, now: Timestamp) -> Result<Buckets, Problem> {
        let precision = kept.precision;
        let to = self.to.as_ref().map_or_else(|| precision.bucket(now).end(), |to| to.at);
        let last = precision.bucket(to.minus(1)).start;
        let before = |last: Timestamp, buckets: u64| {
            last.minus(buckets.saturating_sub(1).saturating_mul(precision.as_seconds().into()))
        };
        let current = precision.bucket(now).start;
        let latest = before(last, most).max(before(last.min(current), kept.samples.get().into()));
        let oldest = kept.oldest(now);
        let from = self.from.as_ref().map_or(oldest.max(latest), |from| from.at);
        if from < to {
            return Ok(Buckets { range: from..to, is_cut: self.from.is_none() && oldest < latest });
        }
        let (parameter, value, allowed) = match &self.to {
            Some(time) => ("to", Some(time), format!("Unix seconds after {from}")),
            None => ("from", self.from.as_ref(), format!("Unix seconds before {to}")),
        };
        let value = value.map(|time| time.text.as_str());
        Err(Problem::parameter("the range ends before it begins", parameter, value, allowed))
    }
}

impl<S> Parameters<S> for Instants {
    fn describe() -> Vec<Description> {
        let second = |_: &_| json!({"type": "integer", "minimum": 0, "maximum": Timestamp::MAX.as_unix()});
        vec![
            Description::new(
                "from",
                "The first second; without it, the range begins with the first note",
                second,
            ),
            Description::new(
                "to",
                "The first second after the range; without it, the range has no end",
                second,
            ),
        ]
    }

    fn read(values: &Values<'_>, _: &S) -> Result<Self, Problem> {
        let bound = |time: Option<Time>, of: fn(Timestamp) -> ops::Bound<Timestamp>| {
            time.map_or(ops::Bound::Unbounded, |time| of(time.at))
        };
        let (from, to) = (time(values, "from")?, time(values, "to")?);
        Ok(Self((bound(from, ops::Bound::Included), bound(to, ops::Bound::Excluded))))
    }
}

impl<S> Parameters<S> for LastEventId {
    fn describe() -> Vec<Description> {
        let id = Description::new(
            "last-event-id",
            "The mark of the last event that arrived",
            |_| json!({"type": "string"}),
        );
        vec![Description { is_header: true, ..id }]
    }

    fn read(values: &Values<'_>, _: &S) -> Result<Self, Problem> {
        Ok(Self(values.headers.get("last-event-id").and_then(|id| id.to_str().ok()?.parse().ok())))
    }
}
