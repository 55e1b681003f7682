use axum::response::Response;
use counter_core::{Stats, Timestamp};

use super::parameter::{CountPrecision, Counter, Range, RequestParts};
use super::response::Total;
use super::route::Route;
use super::{caching, read};
use crate::problem::Problem;

pub(crate) fn route(stats: &Stats) -> Route {
    Route::get("/api/total", "The sum of the samples of a counter", stats.clone(), total)
        .json::<Total>()
        .cached()
        .details("At most 10,000 buckets per counter.")
}

async fn total(request: RequestParts<Stats, (Counter, CountPrecision, Range)>) -> Result<Response, Problem> {
    let RequestParts { state: stats, headers, .. } = request;
    let (Counter(counter), CountPrecision(retention), range) = request.parameters;
    let now = Timestamp::now();
    let range = range.buckets(retention, Stats::MAX_BUCKETS, now)?.range;
    let series = read::series(&stats, &counter, retention.precision, range).await?;
    let sum = series.total().map_err(|unreadable| Problem::of(&unreadable.into(), &stats))?;
    let total = Total {
        counter: counter.to_string(),
        precision: series.precision.as_seconds(),
        from: series.range.start.as_unix(),
        to: series.range.end.as_unix(),
        total: sum,
    };
    Ok(caching::json_response(&headers, caching::max_age(series.precision, series.range.end, now), &total))
}
