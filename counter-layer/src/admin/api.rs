use axum::Json;
use axum::extract::{OriginalUri, RawQuery, State};
use axum::response::{IntoResponse, Response};
use counter_core::{CounterName, Error, Stats, Store, Timestamp};
use http::{HeaderMap, StatusCode};
use serde::Serialize;

use super::fresh;
use super::problem::Problem;
use super::query::Query;
use super::shape::{
    Counters, Health, KnownCounter, Ledger, Lifetime, Lifetimes, MoreSeries, OneOrMore, Place, Series, Top,
    Total, Uniques,
};

type Answer<T> = Result<Json<T>, Problem>;

/// Where the numbers are.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub(super) struct Index {
    pages: Vec<String>,
}

/// The paths that can be read under the mount.
const PAGES: &[&str] = &[
    "api/counters",
    "api/series",
    "api/total",
    "api/lifetimes",
    "api/top",
    "api/uniques",
    #[cfg(feature = "forecast")]
    "api/forecast",
    "api/live",
    "api/ledger",
    "api/health",
    "api/export",
    #[cfg(feature = "openapi")]
    "api/openapi.json",
    #[cfg(feature = "openapi")]
    "api/explore",
    "metrics",
    "badge.svg",
    "sparkline.svg",
];

pub(super) async fn index(OriginalUri(uri): OriginalUri) -> Json<Index> {
    let path = uri.path().trim_end_matches('/');
    let mount = path.strip_suffix("/api").unwrap_or(path);
    Json(Index { pages: PAGES.iter().map(|page| format!("{mount}/{page}")).collect() })
}

pub(super) async fn nothing_here() -> Problem {
    Problem::nothing_here()
}

pub(super) async fn wrong_method() -> Problem {
    Problem::wrong_method()
}

pub(super) async fn counters<S: Store>(
    State(stats): State<Stats<S>>,
    RawQuery(query): RawQuery,
) -> Answer<Counters> {
    let query = Query::parse(query.as_deref(), &["after", "limit"])?;
    let failed = |error: Error| Problem::of(&error, &stats);
    let limit = query.limit(100)?;
    let known = stats.known(query.after()?.as_ref(), limit).await.map_err(failed)?;
    let names: Vec<_> = known.counters.iter().map(|(name, _)| name.clone()).collect();
    let lifetimes = stats.lifetimes(&names).await.map_err(failed)?;
    let counters =
        known.counters.into_iter().zip(lifetimes).map(|((name, precisions), lifetime)| KnownCounter {
            counter: name.to_string(),
            precisions: precisions.into_iter().map(|precision| precision.as_seconds()).collect(),
            lifetime,
        });
    Ok(Json(Counters { counters: counters.collect(), next: known.next.map(|name| name.to_string()) }))
}

/// Whoever asks twice, as after an answer that was lost, is not told that there was nothing to forget.
pub(super) async fn forget<S: Store>(
    State(stats): State<Stats<S>>,
    RawQuery(query): RawQuery,
) -> Result<StatusCode, Problem> {
    let query = Query::parse(query.as_deref(), &["counter"])?;
    let counter = query.counter()?;
    stats.forget(&counter).await.map_err(|error| Problem::of(&error, &stats))?;
    tracing::info!(%counter, "a counter was forgotten");
    Ok(StatusCode::NO_CONTENT)
}

pub(super) async fn series<S: Store>(
    State(stats): State<Stats<S>>,
    asked: HeaderMap,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let query = Query::parse(query.as_deref(), &["counter", "precision", "from", "to", "fill"])?;
    let (counters, filled, now) = (query.counters()?, query.zero_filled()?, Timestamp::now());
    let precision = query.precision(&stats.grid().counts)?;
    let range = query.range(precision, &stats.grid().counts, now)?;
    let max_age = fresh::max_age(precision, range.end, now);
    if let [counter] = &*counters {
        let series = read_series(&stats, &query, counter, now).await?;
        return Ok(fresh::answer(&asked, max_age, &OneOrMore::One(Series::new(counter, &series, filled))));
    }
    let all = stats.several(&counters, precision, range).await;
    let all = all.map_err(|error| Problem::of(&error, &stats))?;
    for (counter, series) in counters.iter().zip(&all) {
        if series.samples.is_empty() {
            known(&stats, counter).await?;
        }
    }
    let series = counters.iter().zip(&all).map(|(counter, series)| Series::new(counter, series, filled));
    Ok(fresh::answer(&asked, max_age, &OneOrMore::More(MoreSeries { series: series.collect() })))
}

pub(super) async fn total<S: Store>(
    State(stats): State<Stats<S>>,
    asked: HeaderMap,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let query = Query::parse(query.as_deref(), &["counter", "precision", "from", "to"])?;
    let (counter, now) = (query.counter()?, Timestamp::now());
    let series = read_series(&stats, &query, &counter, now).await?;
    let total = Total {
        counter: counter.to_string(),
        precision: series.precision.as_seconds(),
        from: series.range.start.as_unix(),
        to: series.range.end.as_unix(),
        total: series.total(),
    };
    Ok(fresh::answer(&asked, fresh::max_age(series.precision, series.range.end, now), &total))
}

pub(super) async fn lifetimes<S: Store>(
    State(stats): State<Stats<S>>,
    RawQuery(query): RawQuery,
) -> Answer<Lifetimes> {
    let query = Query::parse(query.as_deref(), &["counter"])?;
    let counters = query.counters()?;
    let totals = stats.lifetimes(&counters).await.map_err(|error| Problem::of(&error, &stats))?;
    let mut lifetimes = Vec::new();
    for (counter, total) in counters.iter().zip(totals) {
        if total == 0 {
            known(&stats, counter).await?;
        }
        lifetimes.push(Lifetime { counter: counter.to_string(), total });
    }
    Ok(Json(Lifetimes { lifetimes }))
}

pub(super) async fn top<S: Store>(
    State(stats): State<Stats<S>>,
    asked: HeaderMap,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let query = Query::parse(query.as_deref(), &["precision", "from", "to", "limit", "prefix"])?;
    let (kept, now) = (&stats.grid().counts, Timestamp::now());
    let (precision, limit, prefix) = (query.precision(kept)?, query.limit(10)?, query.prefix()?);
    let range = query.range(precision, kept, now)?;
    let top = stats.top(precision, range.clone(), limit, |name| name.starts_with(prefix)).await;
    let top = top.map_err(|error| Problem::of(&error, &stats))?;
    let places = top.into_iter().map(|(counter, count)| Place { counter: counter.to_string(), count });
    let top = Top {
        precision: precision.as_seconds(),
        from: range.start.as_unix(),
        to: range.end.as_unix(),
        top: places.collect(),
    };
    Ok(fresh::answer(&asked, fresh::max_age(precision, range.end, now), &top))
}

pub(super) async fn uniques<S: Store>(
    State(stats): State<Stats<S>>,
    asked: HeaderMap,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let query = Query::parse(query.as_deref(), &["counter", "precision", "from", "to"])?;
    let (counters, kept, now) = (query.counters()?, &stats.grid().visitors, Timestamp::now());
    let precision = query.precision(kept)?;
    let range = query.range(precision, kept, now)?;
    let failed = |error: Error| Problem::of(&error, &stats);
    let uniques = stats.uniques(&counters, precision, range.clone()).await.map_err(failed)?;
    if uniques.visitors == 0 {
        for counter in &counters {
            known(&stats, counter).await?;
        }
    }
    let max_age = fresh::max_age(precision, range.end, now);
    let uniques = Uniques {
        counters: counters.iter().map(ToString::to_string).collect(),
        precision: precision.as_seconds(),
        from: range.start.as_unix(),
        to: range.end.as_unix(),
        uniques: uniques.visitors,
        standard_error: uniques.standard_error,
        salt_epoch: stats.salt_epoch().as_seconds(),
    };
    Ok(fresh::answer(&asked, max_age, &uniques))
}

pub(super) async fn ledger<S: Store>(State(stats): State<Stats<S>>) -> Json<Ledger> {
    Json(stats.ledger().into())
}

pub(super) async fn health<S: Store>(State(stats): State<Stats<S>>) -> Response {
    let health = stats.health();
    let status = if health.is_well() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, Json(Health::from(health))).into_response()
}

pub(super) async fn read_series<S: Store>(
    stats: &Stats<S>,
    query: &Query,
    counter: &CounterName,
    now: Timestamp,
) -> Result<counter_core::Series, Problem> {
    let kept = &stats.grid().counts;
    let precision = query.precision(kept)?;
    let range = query.range(precision, kept, now)?;
    let series = stats.series(counter, precision, range).await;
    let series = series.map_err(|error| Problem::of(&error, stats))?;
    if series.samples.is_empty() {
        known(stats, counter).await?;
    }
    Ok(series)
}

pub(super) async fn known<S: Store>(stats: &Stats<S>, counter: &CounterName) -> Result<(), Problem> {
    match stats.knows(counter).await {
        Ok(true) => Ok(()),
        Ok(false) => Err(Problem::unknown_counter(counter)),
        Err(error) => Err(Problem::of(&error, stats)),
    }
}
