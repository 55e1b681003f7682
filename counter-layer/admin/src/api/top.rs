use axum::response::Response;
use counter_core::{CounterName, Stats, Timestamp};

use super::caching;
use super::parameter::{Asked, KeptPrecision, Limit, OfKind, Prefix, Range};
use super::response::{Place, Top, Unreadable};
use super::route::Route;
use crate::problem::Problem;

/// The default number of buckets. With this limit, a ranking can compare 10,000 counters.
const RANKED: u64 = 1000;

pub(crate) fn route(stats: &Stats) -> Route {
    Route::get("/api/top", "The pages with the most hits", stats.clone(), top)
        .json::<Top>()
        .cached()
        .most(
            "At most 10,000 buckets of each counter, 10,000,000 of all together, and 10,000 counters; \
             without `from` the latest 1,000.",
        )
        .refusal("422", "There are more than 10,000 counters")
}

async fn top(
    asked: Asked<Stats, (KeptPrecision, Range, Limit<10>, Prefix, OfKind)>,
) -> Result<Response, Problem> {
    let Asked { state: stats, headers, .. } = asked;
    let (KeptPrecision(kept), range, Limit(limit), Prefix(prefix), OfKind(kind)) = asked.parameters;
    let now = Timestamp::now();
    let (precision, range) = (kept.precision, range.buckets(kept, RANKED, now)?.range);
    let is_wanted = |name: &CounterName| name.starts_with(&prefix) && kind.has(name);
    let top = stats.top(precision, range.clone(), limit, is_wanted).await;
    let top = top.map_err(|error| Problem::of(&error, &stats))?;
    let place = |(counter, count): (CounterName, u64)| Place { counter: counter.to_string(), count };
    let top = Top {
        precision: precision.as_seconds(),
        from: range.start.as_unix(),
        to: range.end.as_unix(),
        top: top.counters.into_iter().map(place).collect(),
        unreadable: Unreadable::list(top.unreadable),
    };
    Ok(caching::answer(&headers, caching::max_age(precision, range.end, now), &top))
}
