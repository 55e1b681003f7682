use axum::response::Response;
use counter_core::{CounterName, Stats, Timestamp};
use counter_layer::internal::{HITS, is_reserved};

use super::parameter::{Limit, Prefix, Range, RequestParts, ViewPrecision};
use super::response::{Place, Unreadable, Views};
use super::route::Route;
use super::{caching, read};
use crate::problem::Problem;

/// The default number of buckets.
const DEFAULT_BUCKETS: u64 = 1000;

pub(crate) fn route(stats: &Stats) -> Route {
    Route::get("/api/views", "Views of the site, and the pages with the most views", stats.clone(), views)
        .json::<Views>()
        .cached()
        .details(
            "A view is a page that a person saw. Views are kept by the hour and coarser precisions. At most 10,000 \
             buckets per page, 10,000,000 in total; without `from` the latest 1,000. A page that began to count \
             views within the range has no earlier views.",
        )
        .error_response("422", "There are more than 50,000 pages")
}

async fn views(
    request: RequestParts<Stats, (ViewPrecision, Range, Limit<10>, Prefix)>,
) -> Result<Response, Problem> {
    let RequestParts { state: stats, headers, .. } = request;
    let (ViewPrecision(retention), range, Limit(limit), Prefix(prefix)) = request.parameters;
    let now = Timestamp::now();
    let (precision, range) = (retention.precision, range.buckets(retention, DEFAULT_BUCKETS, now)?.range);
    let failed = |error| Problem::of(&error, &stats);
    let site = CounterName::new(HITS).ok().and_then(|hits| hits.views()).expect("a short name");
    let total = stats.total(&site, precision, range.clone()).await.map_err(failed)?;
    if total == 0 {
        // Without views, this may be a site that does not count them.
        read::require_known(&stats, &[site]).await?;
    }
    let is_page = |page: &str| page.starts_with(&*prefix) && !is_reserved(page);
    let top = stats.top_views(precision, range.clone(), limit, is_page).await.map_err(failed)?;
    let place = |(counter, count): (CounterName, u64)| Place { counter: counter.to_string(), count };
    let views = Views {
        precision: precision.as_seconds(),
        from: range.start.as_unix(),
        to: range.end.as_unix(),
        total,
        pages: top.counters.into_iter().map(place).collect(),
        unreadable: Unreadable::list(top.unreadable),
    };
    Ok(caching::json_response(&headers, caching::max_age(precision, range.end, now), &views))
}
