use axum::response::Response;
use counter_core::visits::{Distribution, Measure};
use counter_core::{CounterName, Stats, Timestamp};

use super::caching;
use super::parameter::{DistributionPrecision, KindFilter, Limit, Range, RangeMeasure, RequestParts};
use super::response::{Slowest, Summary, Unreadable};
use super::route::Route;
use crate::problem::Problem;

/// The default number of buckets: the open bucket and the one before it.
const DEFAULT_BUCKETS: u64 = 2;

pub(crate) fn route(stats: &Stats) -> Route {
    let summary = "The pages with the highest mean response time or size";
    Route::get("/api/slowest", summary, stats.clone(), slowest)
        .json::<Slowest>()
        .cached()
        .details("At most 10,000 buckets per counter, and 100,000 in total; without `from` the latest 2.")
}

type Query = (DistributionPrecision, Range, RangeMeasure, Limit<10>, KindFilter);

async fn slowest(request: RequestParts<Stats, Query>) -> Result<Response, Problem> {
    let RequestParts { state: stats, headers, .. } = request;
    let (DistributionPrecision(retention), range, RangeMeasure(of), Limit(limit), KindFilter(kind)) =
        request.parameters;
    let now = Timestamp::now();
    let (precision, range) = (retention.precision, range.buckets(retention, DEFAULT_BUCKETS, now)?.range);
    let filter = |name: &CounterName| kind.has(name);
    let found = stats.slowest(precision, range.clone(), limit, of, filter).await;
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
    Ok(caching::json_response(&headers, caching::max_age(precision, range.end, now), &slowest))
}
