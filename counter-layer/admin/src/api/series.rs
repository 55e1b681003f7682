use axum::response::Response;
use counter_core::{Stats, Timestamp};

use super::parameter::{Counters, DefaultPrecision, Fill, Range, RequestParts};
use super::response::{MoreSeries, OneOrMore, Series};
use super::route::Route;
use super::{caching, read};
use crate::problem::Problem;

pub(crate) fn route(stats: &Stats) -> Route {
    Route::get("/api/series", "Samples of one or more counters", stats.clone(), series)
        .json::<OneOrMore>()
        .cached()
        .details("At most 10,000 buckets per counter, and 300,000 in total.")
}

async fn series(
    request: RequestParts<Stats, (Counters, DefaultPrecision, Range, Fill)>,
) -> Result<Response, Problem> {
    let RequestParts { state: stats, headers, .. } = request;
    let (Counters(counters), DefaultPrecision(retention), range, Fill(filled)) = request.parameters;
    let now = Timestamp::now();
    let max = (Stats::MAX_SAMPLES / counters.len() as u64).min(Stats::MAX_BUCKETS);
    let buckets = range.buckets(retention, max, now)?;
    let (precision, range) = (retention.precision, buckets.range);
    let max_age = caching::max_age(precision, range.end, now);
    let from = buckets.is_cut.then(|| range.start.as_unix());
    if let [counter] = &*counters {
        let series = read::series(&stats, counter, precision, range).await?;
        let series = Series { from, ..Series::new(counter, &series, filled) };
        return Ok(caching::json_response(&headers, max_age, &OneOrMore::One(series)));
    }
    let all = stats.series_many(&counters, precision, range).await;
    let all = all.map_err(|error| Problem::of(&error, &stats))?;
    let is_empty = |series: &Result<counter_core::Series, _>| {
        series.as_ref().is_ok_and(|series| series.samples.is_empty())
    };
    let empty = counters.iter().zip(&all).filter(|(_, series)| is_empty(series));
    read::require_known(&stats, &empty.map(|(counter, _)| counter.clone()).collect::<Vec<_>>()).await?;
    let mut more = MoreSeries { series: Vec::with_capacity(all.len()) };
    for (counter, series) in counters.iter().zip(all) {
        let series = match series {
            Ok(series) => Series::new(counter, &series, filled),
            Err(unreadable) => Series::unreadable(counter, precision.as_seconds(), unreadable),
        };
        more.series.push(Series { from, ..series });
    }
    Ok(caching::json_response(&headers, max_age, &OneOrMore::More(more)))
}
