use axum::response::Response;
use counter_core::visits::Bin;
use counter_core::{Stats, Timestamp};

use super::parameter::{Asked, Counters, DistributionPrecision, OfStatus, Range};
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
    let now = Timestamp::now();
    let most = Stats::MAX_DISTRIBUTIONS / counters.len() as u64;
    let (precision, range) = (kept.precision, range.buckets(kept, most, now)?.range);
    let found = stats.distribution(&counters, precision, range.clone(), of).await;
    let found = found.map_err(|error| Problem::of(&error, &stats))?;
    let merged = found.merged();
    if merged.count() == 0 && found.unreadable.is_empty() {
        read::known(&stats, &counters).await?;
    }
    let status = |(bin, count): (Bin, u64)| StatusCount { status: bin.index().unsigned_abs(), count };
    let statuses = Statuses {
        counters: counters.iter().map(ToString::to_string).collect(),
        precision: precision.as_seconds(),
        from: range.start.as_unix(),
        to: range.end.as_unix(),
        of: of.name(),
        count: merged.count(),
        statuses: merged.bins().map(status).collect(),
        unreadable: Unreadable::list(found.unreadable),
    };
    Ok(caching::answer(&headers, caching::max_age(precision, range.end, now), &statuses))
}
