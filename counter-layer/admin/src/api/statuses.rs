use axum::response::Response;
use counter_core::Stats;
use counter_core::visits::Bin;

use super::parameter::{Asked, Counters, DistributionPrecision, OfStatus, Range};
use super::read::Measured;
use super::response::{StatusCount, Statuses, Unreadable};
use super::route::Route;
use super::{caching, read};
use crate::problem::Problem;

pub(crate) fn route(stats: &Stats) -> Route {
    let summary = "How requests of counters ended: how many had which status";
    Route::get("/api/statuses", summary, stats.clone(), statuses)
        .json::<Statuses>()
        .cached()
        .most("At most 10,000 buckets of all counters together.")
}

async fn statuses(
    asked: Asked<Stats, (Counters, DistributionPrecision, Range, OfStatus)>,
) -> Result<Response, Problem> {
    let Asked { state: stats, headers, .. } = asked;
    let (Counters(counters), DistributionPrecision(kept), range, OfStatus(of)) = asked.parameters;
    let Measured { range, found, merged, max_age } =
        read::distributions(&stats, &counters, kept, &range, of).await?;
    let status = |(bin, count): (Bin, u64)| StatusCount { status: bin.index().unsigned_abs(), count };
    let statuses = Statuses {
        counters: counters.iter().map(ToString::to_string).collect(),
        precision: kept.precision.as_seconds(),
        from: range.start.as_unix(),
        to: range.end.as_unix(),
        of: of.name(),
        count: merged.count(),
        statuses: merged.bins().map(status).collect(),
        unreadable: Unreadable::list(found.unreadable),
    };
    Ok(caching::answer(&headers, max_age, &statuses))
}
