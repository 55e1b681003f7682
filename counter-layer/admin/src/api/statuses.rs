use axum::response::Response;
use counter_core::Stats;
use counter_core::visits::Bin;

use super::parameter::{Counters, DistributionPrecision, Range, RequestParts, StatusMeasure};
use super::read::Measured;
use super::response::{StatusCount, Statuses, Unreadable};
use super::route::Route;
use super::{caching, read};
use crate::problem::Problem;

pub(crate) fn route(stats: &Stats) -> Route {
    let summary = "The number of requests by status";
    Route::get("/api/statuses", summary, stats.clone(), statuses)
        .json::<Statuses>()
        .cached()
        .details("At most 10,000 buckets over all counters.")
}

async fn statuses(
    request: RequestParts<Stats, (Counters, DistributionPrecision, Range, StatusMeasure)>,
) -> Result<Response, Problem> {
    let RequestParts { state: stats, headers, .. } = request;
    let (Counters(counters), DistributionPrecision(retention), range, StatusMeasure(of)) = request.parameters;
    let Measured { range, found, merged, max_age } =
        read::distributions(&stats, &counters, retention, &range, of).await?;
    let status = |(bin, count): (Bin, u64)| StatusCount { status: bin.index().unsigned_abs(), count };
    let statuses = Statuses {
        counters: counters.iter().map(ToString::to_string).collect(),
        precision: retention.precision.as_seconds(),
        from: range.start.as_unix(),
        to: range.end.as_unix(),
        of: of.name(),
        count: merged.count(),
        statuses: merged.bins().map(status).collect(),
        unreadable: Unreadable::list(found.unreadable),
    };
    Ok(caching::json_response(&headers, max_age, &statuses))
}
