use axum::response::Response;
use counter_core::{Stats, Timestamp};

use super::parameter::{Asked, Counter, KeptPrecision, Range};
use super::response::Total;
use super::route::Route;
use super::{caching, read};
use crate::problem::Problem;

pub(crate) fn route(stats: &Stats) -> Route {
    Route::get("/api/total", "The sum of the samples of a counter", stats.clone(), total)
        .json::<Total>()
        .cached()
        .most("At most 10,000 buckets of each counter.")
}

async fn total(asked: Asked<Stats, (Counter, KeptPrecision, Range)>) -> Result<Response, Problem> {
    let Asked { state: stats, headers, .. } = asked;
    let (Counter(counter), KeptPrecision(kept), range) = asked.parameters;
    let now = Timestamp::now();
    let range = range.buckets(kept, Stats::MAX_BUCKETS, now)?.range;
    let series = read::series(&stats, &counter, kept.precision, range).await?;
    let sum = series.known_total().map_err(|unreadable| Problem::of(&unreadable.into(), &stats))?;
    let total = Total {
        counter: counter.to_string(),
        precision: series.precision.as_seconds(),
        from: series.range.start.as_unix(),
        to: series.range.end.as_unix(),
        total: sum,
    };
    Ok(caching::answer(&headers, caching::max_age(series.precision, series.range.end, now), &total))
}
