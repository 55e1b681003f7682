use axum::response::Response;
use counter_core::visits::{Distribution, Measure};
use counter_core::{CounterName, Stats, Timestamp};

use super::caching;
use super::parameter::{Asked, DistributionPrecision, Limit, OfKind, OfRange, Range};
use super::response::{Slowest, Summary, Unreadable};
use super::route::Route;
use crate::problem::Problem;

/// The default number of buckets: the open bucket and the one before it.
const RANKED: u64 = 2;

pub(crate) fn route(stats: &Stats) -> Route {
    let summary = "The pages that took longest, or whose responses were largest, by the mean";
    Route::get("/api/slowest", summary, stats.clone(), slowest)
        .json::<Slowest>()
        .cached()
        .most("At most 10,000 buckets, and 100,000 of all counters together; without `from` the latest 2.")
}

type Asking = (DistributionPrecision, Range, OfRange, Limit<10>, OfKind);

async fn slowest(asked: Asked<Stats, Asking>) -> Result<Response, Problem> {
    let Asked { state: stats, headers, .. } = asked;
    let (DistributionPrecision(kept), range, OfRange(of), Limit(limit), OfKind(kind)) = asked.parameters;
    let now = Timestamp::now();
    let (precision, range) = (kept.precision, range.buckets(kept, RANKED, now)?.range);
    let is_wanted = |name: &CounterName| kind.has(name);
    let found = stats.slowest(precision, range.clone(), limit, of, is_wanted).await;
    let found = found.map_err(|error| Problem::of(&error, &stats))?;
    let summary = |(counter, of): (CounterName, Distribution)| {
        Some(Summary {
            counter: counter.to_string(),
            count: of.count(),
            min: of.min()?,
            max: of.max()?,
            sum: of.sum(),
            sum_of_squares: of.sum_of_squares(),
            mean: of.mean()?,
        })
    };
    let slowest = Slowest {
        precision: precision.as_seconds(),
        from: range.start.as_unix(),
        to: range.end.as_unix(),
        of: of.name(),
        unit: if of == Measure::Size { "bytes" } else { "seconds" },
        slowest: found.counters.into_iter().filter_map(summary).collect(),
        relative_error: Measure::RELATIVE_ERROR,
        unreadable: Unreadable::list(found.unreadable),
    };
    Ok(caching::answer(&headers, caching::max_age(precision, range.end, now), &slowest))
}
