use axum::response::Response;
use counter_core::{Stats, Timestamp};

use super::parameter::{Asked, Counters, Range, VisitorPrecision};
use super::response::Uniques;
use super::route::Route;
use super::{caching, read};
use crate::problem::Problem;

pub(crate) fn route(stats: &Stats) -> Route {
    let summary = "The unique visitors of counters together, estimated";
    Route::get("/api/uniques", summary, stats.clone(), uniques)
        .json::<Uniques>()
        .cached()
        .most("At most 1,000 buckets of all counters together.")
}

async fn uniques(asked: Asked<Stats, (Counters, VisitorPrecision, Range)>) -> Result<Response, Problem> {
    let Asked { state: stats, headers, .. } = asked;
    let (Counters(counters), VisitorPrecision(kept), range) = asked.parameters;
    let now = Timestamp::now();
    let most = Stats::MAX_SKETCHES / counters.len() as u64;
    let (precision, range) = (kept.precision, range.buckets(kept, most, now)?.range);
    let uniques = stats.uniques(&counters, precision, range.clone()).await;
    let uniques = uniques.map_err(|error| Problem::of(&error, &stats))?;
    if uniques.visitors == 0 {
        read::known(&stats, &counters).await?;
    }
    let max_age = caching::max_age(precision, range.end, now);
    let uniques = Uniques {
        counters: counters.iter().map(ToString::to_string).collect(),
        precision: precision.as_seconds(),
        from: range.start.as_unix(),
        to: range.end.as_unix(),
        uniques: uniques.visitors,
        standard_error: uniques.standard_error,
        salt_epoch: stats.salt_epoch().as_seconds(),
    };
    Ok(caching::answer(&headers, max_age, &uniques))
}
