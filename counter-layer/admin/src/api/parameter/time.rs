use std::num::NonZeroU32;
use std::ops;

use counter_core::time::{Grid, Retention};
use counter_core::{Precision, Precisions, Timestamp};
use serde_json::{Value, json};

use super::{Description, Parameters, Times, Values};
use crate::api::mark::Mark;
use crate::problem::Problem;

/// The width of the precision of a request that names none, where it is kept.
pub(crate) const USUAL: u32 = 60;

/// For this many seconds after its end a bucket may still get hits from the last flush.
pub(crate) const LAG: u64 = 2;

/// The state of a route that knows which precisions are kept.
pub(crate) trait HasGrid {
    fn grid(&self) -> &Grid;

    /// The grid with the samples that can be read, which are more where there is an archive.
    fn reach(&self) -> &Grid {
        self.grid()
    }
}

/// A precision, with how many of its samples are kept, and how many can be read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kept {
    pub(crate) precision: Precision,
    pub(crate) samples: NonZeroU32,
    pub(crate) reach: NonZeroU32,
}

/// A precision that is kept of counts.
#[derive(Debug)]
pub(crate) struct KeptPrecision(pub(crate) Kept);

/// A precision that is kept of counts; the [usual] one where none is named.
#[derive(Debug)]
pub(crate) struct UsualPrecision(pub(crate) Kept);

/// A precision that is kept of counts, or none.
#[derive(Debug)]
pub(crate) struct OptionalPrecision(pub(crate) Option<Kept>);

/// A precision that is kept of visitors.
#[derive(Debug)]
pub(crate) struct VisitorPrecision(pub(crate) Kept);

/// A precision that is kept of distributions.
#[derive(Debug)]
pub(crate) struct DistributionPrecision(pub(crate) Kept);

/// The beginning and the end of a range, each where it is named.
#[derive(Debug)]
pub(crate) struct Range {
    from: Option<Time>,
    to: Option<Time>,
}

/// The mark of the last event that a client saw.
#[derive(Debug)]
pub(crate) struct LastEventId(pub(crate) Option<Mark>);

/// The buckets that an answer is about.
#[derive(Debug)]
pub(crate) struct Buckets {
    pub(crate) range: ops::Range<Timestamp>,
    /// The request does not name the beginning, and more can be read than the answer has.
    pub(crate) is_cut: bool,
}

/// The instants from one on until another, where they are named.
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

/// The precision of a request that names none: minutes where they are kept, or the finest.
pub(crate) fn usual(kept: &Precisions) -> Retention {
    kept.of_width(USUAL).or_else(|| kept.iter().next()).expect("a set of precisions is never empty")
}

/// The precision of this width, wherever its buckets begin, or the one of this text in full.
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
    /// A precision of which more may be read than is kept.
    pub(crate) fn of(kept: Retention, reach: &Precisions) -> Self {
        let Retention { precision, samples } = kept;
        Self { precision, samples, reach: reach.retention(precision).map_or(samples, |reach| reach.samples) }
    }

    /// The oldest instant of which there may be a sample.
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
        // The routes of distributions are there where these are kept.
        let none = || Problem::parameter("no distributions are kept", PRECISION.name, None, "nothing");
        let kept = state.grid().distributions.as_ref().ok_or_else(none)?;
        let reach = state.reach().distributions.as_ref().unwrap_or(kept);
        Ok(Self(Kept::of(required(values, kept)?, reach)))
    }
}

impl<S> Parameters<S> for Range {
    fn describe() -> Vec<Description> {
        // A range is not empty, so it neither begins with the last second nor ends before the second one.
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
    /// Returns `true` if the request names neither a beginning nor an end.
    pub(crate) const fn is_open(&self) -> bool {
        self.from.is_none() && self.to.is_none()
    }

    /// The buckets up to the current one, where the request names no others: as many as are kept, and not more than
    /// `most`, which one answer may have. What an archive has besides is read when the request names its beginning, or
    /// an end in it.
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
