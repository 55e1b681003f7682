use std::ops::Range;

use axum::Json;
use axum::extract::{OriginalUri, RawQuery, State};
use axum::response::{IntoResponse, Response};
use counter_core::{CounterName, Error, ErrorKind, Precision, Retention, Stats, Store, Timestamp};
use http::{HeaderMap, StatusCode};
use serde::Serialize;

use super::caching;
use super::query::{Asked, Query};
use super::response::{
    Counters, KnownCounter, Lifetime, Lifetimes, MoreSeries, OneOrMore, Place, Series, Top, Total, Uniques,
    Unreadable,
};
use crate::admin::problem::Problem;
use crate::admin::status::{Health, Ledger};

/// Samples of several counters in one answer.
const SAMPLES: u64 = 300_000;
/// Sketches that are put together for one answer.
const SKETCHES: u64 = 1000;
/// Buckets that all counters are compared over, where nothing is said of the range: 10,000 counters can be.
const RANKED: u64 = 1000;

type Answer<T> = Result<Json<T>, Problem>;

/// Where the numbers are.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub(crate) struct Index {
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

pub(crate) async fn index(OriginalUri(uri): OriginalUri) -> Json<Index> {
    let path = uri.path().trim_end_matches('/');
    let mount = path.strip_suffix("/api").unwrap_or(path);
    Json(Index { pages: PAGES.iter().map(|page| format!("{mount}/{page}")).collect() })
}

pub(crate) async fn nothing_here() -> Problem {
    Problem::nothing_here()
}

pub(crate) async fn wrong_method() -> Problem {
    Problem::wrong_method()
}

pub(crate) async fn counters<S: Store>(
    State(stats): State<Stats<S>>,
    RawQuery(query): RawQuery,
) -> Answer<Counters> {
    let query = Query::parse(query.as_deref(), &["after", "limit"])?;
    let failed = |error: Error| Problem::of(&error, &stats);
    let limit = query.limit(100)?;
    let known = stats.known(query.after()?.as_ref(), limit).await.map_err(failed)?;
    let names: Vec<_> = known.counters.iter().map(|(name, _)| name.clone()).collect();
    let lifetimes = stats.lifetimes_of_each(&names).await.map_err(failed)?;
    let (mut counters, mut unreadable) = (Vec::with_capacity(names.len()), known.unreadable);
    for ((name, precisions), lifetime) in known.counters.into_iter().zip(lifetimes) {
        counters.push(KnownCounter {
            counter: name.to_string(),
            precisions: precisions.into_iter().map(|precision| precision.as_seconds()).collect(),
            lifetime: lifetime.map_err(|why| unreadable.push(why)).ok(),
        });
    }
    let next = known.next.map(|name| name.to_string());
    Ok(Json(Counters { counters, next, unreadable: Unreadable::list(unreadable) }))
}

/// Whoever asks twice, as after an answer that was lost, is not told that there was nothing to forget.
pub(crate) async fn forget<S: Store>(
    State(stats): State<Stats<S>>,
    RawQuery(query): RawQuery,
) -> Result<StatusCode, Problem> {
    let query = Query::parse(query.as_deref(), &["counter"])?;
    let counter = query.counter()?;
    stats.forget(&counter).await.map_err(|error| Problem::of(&error, &stats))?;
    tracing::info!(%counter, "a counter was forgotten");
    Ok(StatusCode::NO_CONTENT)
}

pub(crate) async fn series<S: Store>(
    State(stats): State<Stats<S>>,
    asked: HeaderMap,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let query = Query::parse(query.as_deref(), &["counter", "precision", "from", "to", "fill"])?;
    let (counters, filled, now) = (query.counters()?, query.zero_filled()?, Timestamp::now());
    let kept = query.kept_or_usual(&stats.grid().counts)?;
    let most = (SAMPLES / counters.len() as u64).min(Stats::<S>::MAX_BUCKETS);
    let Asked { range, cut } = query.range_of(kept, most, now)?;
    let precision = kept.precision;
    let max_age = caching::max_age(precision, range.end, now);
    let from = cut.then(|| range.start.as_unix());
    if let [counter] = &*counters {
        let series = read_range(&stats, counter, precision, range).await?;
        let series = Series { from, ..Series::new(counter, &series, filled) };
        return Ok(caching::answer(&asked, max_age, &OneOrMore::One(series)));
    }
    let all = stats.several(&counters, precision, range).await;
    let all = all.map_err(|error| Problem::of(&error, &stats))?;
    let mut more = MoreSeries { series: Vec::with_capacity(all.len()) };
    for (counter, series) in counters.iter().zip(all) {
        let series = match series {
            Ok(series) => {
                if series.samples.is_empty() {
                    known(&stats, counter).await?;
                }
                Series::new(counter, &series, filled)
            }
            Err(unreadable) => Series::unreadable(counter, precision.as_seconds(), unreadable),
        };
        more.series.push(Series { from, ..series });
    }
    Ok(caching::answer(&asked, max_age, &OneOrMore::More(more)))
}

pub(crate) async fn total<S: Store>(
    State(stats): State<Stats<S>>,
    asked: HeaderMap,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let query = Query::parse(query.as_deref(), &["counter", "precision", "from", "to"])?;
    let (counter, now) = (query.counter()?, Timestamp::now());
    let kept = query.kept(&stats.grid().counts)?;
    let series = read_series(&stats, &query, &counter, kept, now).await?;
    let sum = series.known_total().map_err(|unreadable| Problem::of(&unreadable.into(), &stats))?;
    let total = Total {
        counter: counter.to_string(),
        precision: series.precision.as_seconds(),
        from: series.range.start.as_unix(),
        to: series.range.end.as_unix(),
        total: sum,
    };
    Ok(caching::answer(&asked, caching::max_age(series.precision, series.range.end, now), &total))
}

pub(crate) async fn lifetimes<S: Store>(
    State(stats): State<Stats<S>>,
    RawQuery(query): RawQuery,
) -> Answer<Lifetimes> {
    let query = Query::parse(query.as_deref(), &["counter"])?;
    let counters = query.counters()?;
    let totals = stats.lifetimes_of_each(&counters).await.map_err(|error| Problem::of(&error, &stats))?;
    let (mut lifetimes, mut unreadable) = (Vec::new(), Vec::new());
    for (counter, total) in counters.iter().zip(totals) {
        if total == Ok(0) {
            known(&stats, counter).await?;
        }
        let total = total.map_err(|why| unreadable.push(why)).ok();
        lifetimes.push(Lifetime { counter: counter.to_string(), total });
    }
    Ok(Json(Lifetimes { lifetimes, unreadable: Unreadable::list(unreadable) }))
}

pub(crate) async fn top<S: Store>(
    State(stats): State<Stats<S>>,
    asked: HeaderMap,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let query = Query::parse(query.as_deref(), &["precision", "from", "to", "limit", "prefix"])?;
    let (kept, now) = (&stats.grid().counts, Timestamp::now());
    let (kept, limit, prefix) = (query.kept(kept)?, query.limit(10)?, query.prefix()?);
    let (precision, Asked { range, .. }) = (kept.precision, query.range_of(kept, RANKED, now)?);
    let top = stats.top(precision, range.clone(), limit, |name| name.starts_with(prefix)).await;
    let top = top.map_err(|error| Problem::of(&error, &stats))?;
    let place = |(counter, count): (CounterName, u64)| Place { counter: counter.to_string(), count };
    let top = Top {
        precision: precision.as_seconds(),
        from: range.start.as_unix(),
        to: range.end.as_unix(),
        top: top.counters.into_iter().map(place).collect(),
        unreadable: Unreadable::list(top.unreadable),
    };
    Ok(caching::answer(&asked, caching::max_age(precision, range.end, now), &top))
}

pub(crate) async fn uniques<S: Store>(
    State(stats): State<Stats<S>>,
    asked: HeaderMap,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let query = Query::parse(query.as_deref(), &["counter", "precision", "from", "to"])?;
    let (counters, kept, now) = (query.counters()?, &stats.grid().visitors, Timestamp::now());
    let kept = query.kept(kept)?;
    let most = SKETCHES / counters.len() as u64;
    let (precision, Asked { range, .. }) = (kept.precision, query.range_of(kept, most, now)?);
    let failed = |error: Error| Problem::of(&error, &stats);
    let uniques = stats.uniques(&counters, precision, range.clone()).await.map_err(failed)?;
    if uniques.visitors == 0 {
        for counter in &counters {
            known(&stats, counter).await?;
        }
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
    Ok(caching::answer(&asked, max_age, &uniques))
}

pub(crate) async fn ledger<S: Store>(State(stats): State<Stats<S>>) -> Json<Ledger> {
    Json(stats.ledger().into())
}

pub(crate) async fn health<S: Store>(State(stats): State<Stats<S>>) -> Response {
    let health = stats.health();
    let status = if health.is_well() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, Json(Health::from(health))).into_response()
}

pub(crate) async fn read_series<S: Store>(
    stats: &Stats<S>,
    query: &Query,
    counter: &CounterName,
    kept: Retention,
    now: Timestamp,
) -> Result<counter_core::Series, Problem> {
    let Asked { range, .. } = query.range_of(kept, Stats::<S>::MAX_BUCKETS, now)?;
    read_range(stats, counter, kept.precision, range).await
}

pub(crate) async fn read_range<S: Store>(
    stats: &Stats<S>,
    counter: &CounterName,
    precision: Precision,
    range: Range<Timestamp>,
) -> Result<counter_core::Series, Problem> {
    let series = stats.series(counter, precision, range).await;
    let series = series.map_err(|error| Problem::of(&error, stats))?;
    if series.samples.is_empty() && series.unreadable.is_none() {
        known(stats, counter).await?;
    }
    Ok(series)
}

pub(crate) async fn known<S: Store>(stats: &Stats<S>, counter: &CounterName) -> Result<(), Problem> {
    match stats.knows(counter).await {
        Ok(true) => Ok(()),
        Ok(false) => Err(Problem::unknown_counter(counter)),
        // Where the list of counters cannot be read, none is denied.
        Err(error) if matches!(error.kind(), ErrorKind::Malformed { .. }) => Ok(()),
        Err(error) => Err(Problem::of(&error, stats)),
    }
}
