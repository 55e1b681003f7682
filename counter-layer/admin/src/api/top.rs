use axum::response::Response;
use counter_core::{CounterName, Stats, Timestamp};

use super::caching;
use super::parameter::{CountPrecision, KindFilter, Limit, Prefix, Range, RequestParts};
use super::response::{Place, Top, Unreadable};
use super::route::Route;
use crate::problem::Problem;

/// The default number of buckets. With this limit, a ranking can compare 10,000 counters.
const DEFAULT_BUCKETS: u64 = 1000;

pub(crate) fn route(stats: &Stats) -> Route {
    Route::get("/api/top", "The pages with the most hits", stats.clone(), top)
        .json::<Top>()
        .cached()
        .details(
            "At most 10,000 buckets per counter, 10,000,000 in total, and 10,000 counters; \
             without `from` the latest 1,000.",
        )
        .error_response("422", "There are more than 10,000 counters")
}

async fn top(
    request: RequestParts<Stats, (CountPrecision, Range, Limit<10>, Prefix, KindFilter)>,
) -> Result<Response, Problem> {
    let RequestParts { state: stats, headers, .. } = request;
    let (CountPrecision(retention), range, Limit(limit), Prefix(prefix), KindFilter(kind)) =
        request.parameters;
    let now = Timestamp::now();
    let (precision, range) = (retention.precision, range.buckets(retention, DEFAULT_BUCKETS, now)?.range);
    let filter = |name: &CounterName| name.starts_with(&prefix) && kind.has(name);
    let top = stats.top(precision, range.clone(), limit, filter).await;
    let top = top.map_err(|error| Problem::of(&error, &stats))?;
    let place = |(counter, count): (CounterName, u64)| Place { counter: counter.to_string(), count };
    let top = Top {
        precision: precision.as_seconds(),
        from: range.start.as_unix(),
        to: range.end.as_unix(),
        top: top.counters.into_iter().map(place).collect(),
        unreadable: Unreadable::list(top.unreadable),
    };
    Ok(caching::json_response(&headers, caching::max_age(precision, range.end, now), &top))
}
