use axum::response::Response;
use counter_core::{Stats, Timestamp};

use super::parameter::{Counters, Range, RequestParts, VisitorPrecision};
use super::response::Uniques;
use super::route::Route;
use super::{caching, read};
use crate::problem::Problem;

pub(crate) fn route(stats: &Stats) -> Route {
    let summary = "An estimate of the unique visitors of one or more counters";
    Route::get("/api/uniques", summary, stats.clone(), uniques)
        .json::<Uniques>()
        .cached()
        .details("At most 1,000 buckets over all counters.")
}

async fn uniques(
    request: RequestParts<Stats, (Counters, VisitorPrecision, Range)>,
) -> Result<Response, Problem> {
    let RequestParts { state: stats, headers, .. } = request;
    let (Counters(counters), VisitorPrecision(retention), range) = request.parameters;
    let now = Timestamp::now();
    let max = Stats::MAX_SKETCHES / counters.len() as u64;
    let (precision, range) = (retention.precision, range.buckets(retention, max, now)?.range);
    let uniques = stats.uniques(&counters, precision, range.clone()).await;
    let uniques = uniques.map_err(|error| Problem::of(&error, &stats))?;
    if uniques.visitors == 0 {
        read::require_known(&stats, &counters).await?;
    }
    let max_age = caching::max_age(precision, range.end, now);
    let uniques = Uniques {
        counters: counters.iter().map(ToString::to_string).collect(),
        precision: precision.as_seconds(),
        from: range.start.as_unix(),
        to: range.end.as_unix(),
        uniques: uniques.visitors,
        standard_error: uniques.standard_error,
        is_upper_bound: uniques.is_upper_bound,
        salt_epoch: stats.salt_epoch().as_seconds(),
    };
    Ok(caching::json_response(&headers, max_age, &uniques))
}
