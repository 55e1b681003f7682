use axum::response::Response;
use counter_core::visits::{Distribution, Measure};
use counter_core::{Stats, Timestamp};

use super::parameter::{Asked, Counters, DistributionPrecision, OfRange, Quantiles, Range};
use super::read::Measured;
use super::response::{Percentile, PercentileBucket, Percentiles, Unreadable};
use super::route::Route;
use super::{caching, read};
use crate::problem::Problem;

pub(crate) fn route(stats: &Stats) -> Route {
    let summary = "How long requests of counters took, or how large the responses were: percentiles";
    Route::get("/api/percentiles", summary, stats.clone(), percentiles)
        .json::<Percentiles>()
        .cached()
        .most("At most 10,000 buckets of all counters together.")
}

type Asking = (Counters, DistributionPrecision, Range, OfRange, Quantiles);

async fn percentiles(asked: Asked<Stats, Asking>) -> Result<Response, Problem> {
    let Asked { state: stats, headers, .. } = asked;
    let (Counters(counters), DistributionPrecision(kept), range, OfRange(of), Quantiles(quantiles)) =
        asked.parameters;
    let Measured { range, found, merged, max_age } =
        read::distributions(&stats, &counters, kept, &range, of).await?;
    let values = |of: &Distribution| quantiles.iter().map(|q| of.quantile(*q)).collect::<Vec<_>>();
    let bucket = |(start, of): &(Timestamp, Distribution)| PercentileBucket {
        start: start.as_unix(),
        count: of.count(),
        values: values(of).into_iter().flatten().collect(),
    };
    let percentile = |(q, value): (&f64, Option<f64>)| Percentile { q: *q, value };
    let percentiles = Percentiles {
        counters: counters.iter().map(ToString::to_string).collect(),
        precision: kept.precision.as_seconds(),
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
    Ok(caching::answer(&headers, max_age, &percentiles))
}
