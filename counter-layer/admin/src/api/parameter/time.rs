use std::num::NonZeroU32;
use std::ops;

use counter_core::time::{Grid, Retention};
use counter_core::{Precision, Precisions, Timestamp};
use serde_json::{Value, json};

use super::{Description, Parameters, Times, Values};
use crate::api::mark::Mark;
use crate::problem::Problem;

/// The default bucket width, if it is retained.
const DEFAULT_WIDTH: u32 = 60;

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
pub(crate) struct ReadableRetention {
    pub(crate) precision: Precision,
    pub(crate) samples: NonZeroU32,
    pub(crate) reach: NonZeroU32,
}

/// A retained precision of counts.
#[derive(Debug)]
pub(crate) struct CountPrecision(pub(crate) ReadableRetention);

/// A retained precision of counts, or the [default](default_precision).
#[derive(Debug)]
pub(crate) struct DefaultPrecision(pub(crate) ReadableRetention);

/// An optional precision of counts.
#[derive(Debug)]
pub(crate) struct OptionalPrecision(pub(crate) Option<ReadableRetention>);

/// A retained precision of visitors.
#[derive(Debug)]
pub(crate) struct VisitorPrecision(pub(crate) ReadableRetention);

/// A retained precision of views, by default the finest.
#[derive(Debug)]
pub(crate) struct ViewPrecision(pub(crate) ReadableRetention);

/// A retained precision of distributions.
#[derive(Debug)]
pub(crate) struct DistributionPrecision(pub(crate) ReadableRetention);

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
    ..Description::new("precision", "The bucket width in seconds", |grid| widths(&grid.counts))
};

const PRECISION_OR_DEFAULT: Description = Description {
    times: Times::AtMostOnce,
    text: "The bucket width in seconds; the default is 60, or the smallest width",
    ..PRECISION
};

fn widths(stored: &Precisions) -> Value {
    let widths: Vec<_> = stored.iter().map(|stored| stored.precision.as_seconds()).collect();
    json!({"type": "integer", "enum": widths})
}

/// Returns the default precision: one minute if it is retained, otherwise the finest precision.
pub(crate) fn default_precision(stored: &Precisions) -> Retention {
    stored
        .of_width(DEFAULT_WIDTH)
        .or_else(|| stored.iter().next())
        .expect("a set of precisions is never empty")
}

/// Parses a precision. The text can be just the width, for any offset, or the full notation.
fn precision(text: &str, stored: &Precisions) -> Option<Retention> {
    match text.parse() {
        Ok(width) => stored.of_width(width),
        Err(_) => stored.retention(text.parse().ok()?),
    }
}

fn optional(values: &Values<'_>, stored: &Precisions) -> Result<Option<Retention>, Problem> {
    let Some(value) = values.one(PRECISION.name)? else { return Ok(None) };
    let unknown =
        || Problem::parameter("not a retained precision", PRECISION.name, Some(value), stored.to_string());
    precision(value, stored).ok_or_else(unknown).map(Some)
}

fn required(values: &Values<'_>, stored: &Precisions) -> Result<Retention, Problem> {
    let missing = || Problem::parameter("missing parameter", PRECISION.name, None, stored.to_string());
    optional(values, stored)?.ok_or_else(missing)
}

impl ReadableRetention {
    /// Looks up how far this precision can be read.
    pub(crate) fn of(stored: Retention, reach: &Precisions) -> Self {
        let Retention { precision, samples } = stored;
        Self { precision, samples, reach: reach.retention(precision).map_or(samples, |reach| reach.samples) }
    }

    /// Returns the start of the oldest bucket that can be read.
    fn oldest(self, now: Timestamp) -> Timestamp {
        Retention { precision: self.precision, samples: self.reach }.oldest(now)
    }
}

impl<S: HasGrid> Parameters<S> for CountPrecision {
    fn describe() -> Vec<Description> {
        vec![PRECISION]
    }

    fn read(values: &Values<'_>, state: &S) -> Result<Self, Problem> {
        Ok(Self(ReadableRetention::of(required(values, &state.grid().counts)?, &state.reach().counts)))
    }
}

impl<S: HasGrid> Parameters<S> for DefaultPrecision {
    fn describe() -> Vec<Description> {
        vec![PRECISION_OR_DEFAULT]
    }

    fn read(values: &Values<'_>, state: &S) -> Result<Self, Problem> {
        let stored = &state.grid().counts;
        let named = optional(values, stored)?.unwrap_or_else(|| default_precision(stored));
        Ok(Self(ReadableRetention::of(named, &state.reach().counts)))
    }
}

impl<S: HasGrid> Parameters<S> for OptionalPrecision {
    fn describe() -> Vec<Description> {
        vec![PRECISION_OR_DEFAULT]
    }

    fn read(values: &Values<'_>, state: &S) -> Result<Self, Problem> {
        let named = optional(values, &state.grid().counts)?;
        Ok(Self(named.map(|stored| ReadableRetention::of(stored, &state.reach().counts))))
    }
}

impl<S: HasGrid> Parameters<S> for VisitorPrecision {
    fn describe() -> Vec<Description> {
        vec![Description { schema: |grid| widths(&grid.visitors), ..PRECISION }]
    }

    fn read(values: &Values<'_>, state: &S) -> Result<Self, Problem> {
        Ok(Self(ReadableRetention::of(required(values, &state.grid().visitors)?, &state.reach().visitors)))
    }
}

impl<S: HasGrid> Parameters<S> for ViewPrecision {
    fn describe() -> Vec<Description> {
        let text = "The bucket width in seconds; the default is 3600, or the smallest width";
        vec![Description { text, schema: |grid| widths(&grid.counts.of_views()), ..PRECISION_OR_DEFAULT }]
    }

    fn read(values: &Values<'_>, state: &S) -> Result<Self, Problem> {
        let stored = state.grid().counts.of_views();
        let named = optional(values, &stored)?.or_else(|| stored.iter().next());
        let named = named.expect("a set of precisions is never empty");
        Ok(Self(ReadableRetention::of(named, &state.reach().counts)))
    }
}

impl<S: HasGrid> Parameters<S> for DistributionPrecision {
    fn describe() -> Vec<Description> {
        let schema = |grid: &Grid| grid.distributions.as_ref().map_or(Value::Null, widths);
        vec![Description { schema, ..PRECISION }]
    }

    fn read(values: &Values<'_>, state: &S) -> Result<Self, Problem> {
        // These routes only exist if distributions are retained, so this should not happen.
        let none = || Problem::parameter("distributions are not enabled", PRECISION.name, None, "nothing");
        let stored = state.grid().distributions.as_ref().ok_or_else(none)?;
        let reach = state.reach().distributions.as_ref().unwrap_or(stored);
        Ok(Self(ReadableRetention::of(required(values, stored)?, reach)))
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
                "The start of the range, before `to` and now, and in a bucket that is kept (see `/api`)",
                from,
            ),
            Description::new(
                "to",
                "The end of the range (exclusive), after `from` and after the oldest bucket",
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
    pub(crate) fn buckets(
        &self,
        stored: ReadableRetention,
        max: u64,
        now: Timestamp,
    ) -> Result<Buckets, Problem> {
        let precision = stored.precision;
        let to = self.to.as_ref().map_or_else(|| precision.bucket(now).end(), |to| to.at);
        let last = precision.bucket(to.minus(1)).start;
        let before = |last: Timestamp, buckets: u64| {
            last.minus(buckets.saturating_sub(1).saturating_mul(precision.as_seconds().into()))
        };
        let current = precision.bucket(now).start;
        let latest = before(last, max).max(before(last.min(current), stored.samples.get().into()));
        let oldest = stored.oldest(now);
        let from = self.from.as_ref().map_or(oldest.max(latest), |from| from.at);
        if from < to {
            if let Some(from) = self.from.as_ref().filter(|from| from.at < oldest) {
                let allowed = format!("Unix seconds, {oldest} or later");
                let detail = "data before this time is no longer kept";
                return Err(Problem::parameter(detail, "from", Some(&from.text), allowed));
            }
            return Ok(Buckets { range: from..to, is_cut: self.from.is_none() && oldest < latest });
        }
        let (parameter, value, allowed) = match &self.to {
            Some(time) => ("to", Some(time), format!("Unix seconds after {from}")),
            None => ("from", self.from.as_ref(), format!("Unix seconds before {to}")),
        };
        let value = value.map(|time| time.text.as_str());
        Err(Problem::parameter("the range ends before it starts", parameter, value, allowed))
    }
}

impl<S> Parameters<S> for Instants {
    fn describe() -> Vec<Description> {
        let second = |_: &_| json!({"type": "integer", "minimum": 0, "maximum": Timestamp::MAX.as_unix()});
        vec![
            Description::new("from", "The start of the range; the default is the oldest note", second),
            Description::new("to", "The end of the range (exclusive); the default is unlimited", second),
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
            "The id of the latest event that was received",
            |_| json!({"type": "string"}),
        );
        vec![Description { is_header: true, ..id }]
    }

    fn read(values: &Values<'_>, _: &S) -> Result<Self, Problem> {
        Ok(Self(values.headers.get("last-event-id").and_then(|id| id.to_str().ok()?.parse().ok())))
    }
}
