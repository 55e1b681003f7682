use axum::response::Response;
use counter_core::visits::{Distribution, Measure};
use counter_core::{Stats, Timestamp};

use super::parameter::{Counters, DistributionPrecision, Quantiles, Range, RangeMeasure, RequestParts};
use super::read::Measured;
use super::response::{Percentile, PercentileBucket, Percentiles, Unreadable};
use super::route::Route;
use super::{caching, read};
use crate::problem::Problem;

pub(crate) fn route(stats: &Stats) -> Route {
    let summary = "Percentiles of response times or sizes";
    Route::get("/api/percentiles", summary, stats.clone(), percentiles)
        .json::<Percentiles>()
        .cached()
        .details("At most 10,000 buckets over all counters.")
}

type Query = (Counters, DistributionPrecision, Range, RangeMeasure, Quantiles);

async fn percentiles(request: RequestParts<Stats, Query>) -> Result<Response, Problem> {
    let RequestParts { state: stats, headers, .. } = request;
    let (Counters(counters), DistributionPrecision(retention), range, RangeMeasure(of), Quantiles(quantiles)) =
        request.parameters;
    let Measured { range, found, merged, max_age } =
        read::distributions(&stats, &counters, retention, &range, of).await?;
    let values = |of: &Distribution| quantiles.iter().map(|q| of.quantile(*q)).collect::<Vec<_>>();
    let bucket = |(start, of): &(Timestamp, Distribution)| PercentileBucket {
        start: start.as_unix(),
        count: of.count(),
        values: values(of).into_iter().flatten().collect(),
    };
    let percentile = |(q, value): (&f64, Option<f64>)| Percentile { q: *q, value };
    let percentiles = Percentiles {
        counters: counters.iter().map(ToString::to_string).collect(),
        precision: retention.precision.as_seconds(),
        from: range.start.as_unix(),
        to: range.end.as_unix(),
        of: of.name(),
        unit: if of == Measure::Size { "bytes" } else { "seconds" },
        count: merged.count(),
        percentiles: quantiles.iter().zip(values(&merged)).map(percentile).collect(),
        relative_error: Measure::RELATIVE_ERROR,
        buckets: found.buckets.iter().map(bucket).collect(),
        unreadable: Unreadable::list(found.unreadable),
    };
    Ok(caching::json_response(&headers, max_age, &percentiles))
}
