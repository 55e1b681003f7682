use axum::Json;
use axum::extract::{OriginalUri, RawQuery, State};
use axum::response::{IntoResponse, Response};
use counter_core::{CounterName, Error, Stats, Store, Timestamp};
use http::StatusCode;
use serde::Serialize;

use super::problem::Problem;
use super::query::Query;

type Answer<T> = Result<Json<T>, Problem>;

#[derive(Debug, Serialize)]
pub(super) struct Index {
    pages: Vec<String>,
}

#[derive(Debug, Serialize)]
pub(super) struct Counters {
    counters: Vec<KnownCounter>,
    next: Option<String>,
}

#[derive(Debug, Serialize)]
struct KnownCounter {
    counter: String,
    precisions: Vec<u32>,
}

#[derive(Debug, Serialize)]
pub(super) struct Series {
    counter: String,
    precision: u32,
    samples: Vec<Sample>,
}

#[derive(Debug, Serialize)]
struct Sample {
    start: u64,
    count: u64,
}

#[derive(Debug, Serialize)]
pub(super) struct Total {
    counter: String,
    precision: u32,
    from: u64,
    to: u64,
    total: u64,
}

#[derive(Debug, Serialize)]
pub(super) struct Uniques {
    counters: Vec<String>,
    precision: u32,
    from: u64,
    to: u64,
    uniques: u64,
    standard_error: f64,
}

#[derive(Debug, Serialize)]
pub(super) struct Ledger {
    requests: Requests,
    hits: Hits,
}

#[derive(Debug, Serialize)]
struct Requests {
    observed: u64,
    recorded: u64,
    excluded: u64,
    unmatched: u64,
    ignored: Ignored,
    bots: u64,
    unconfirmed: u64,
}

#[derive(Debug, Serialize)]
struct Ignored {
    outcome: u64,
    prefetch: u64,
}

#[derive(Debug, Serialize)]
struct Hits {
    recorded: u64,
    applied: u64,
    pending: u64,
    expired: u64,
    dropped: Dropped,
    overflow: u64,
    lost_by_server: u64,
}

#[derive(Debug, Serialize)]
struct Dropped {
    wrong_type: u64,
    not_a_number: u64,
    out_of_range: u64,
    other: u64,
}

#[derive(Debug, Serialize)]
pub(super) struct Health {
    status: &'static str,
    pending: u64,
    pending_cells: usize,
    retained_bytes: usize,
    connections: u64,
    seconds_since_acknowledged: Option<f64>,
    failing_for_seconds: Option<f64>,
    last_error: Option<String>,
}

pub(super) async fn index(OriginalUri(uri): OriginalUri) -> Json<Index> {
    let path = uri.path().trim_end_matches('/');
    let mount = path.strip_suffix("/api").unwrap_or(path);
    let pages = ["counters", "series", "total", "uniques", "ledger", "health"];
    Json(Index { pages: pages.map(|page| format!("{mount}/api/{page}")).into() })
}

pub(super) async fn nothing_here() -> Problem {
    Problem::nothing_here()
}

pub(super) async fn counters<S: Store>(
    State(stats): State<Stats<S>>,
    RawQuery(query): RawQuery,
) -> Answer<Counters> {
    let query = Query::parse(query.as_deref(), &["after", "limit"])?;
    let known = stats.known(query.after()?.as_ref(), query.limit()?).await;
    let known = known.map_err(|error| Problem::of(&error, &stats))?;
    let counters = known.counters.into_iter().map(|(name, precisions)| KnownCounter {
        counter: name.to_string(),
        precisions: precisions.into_iter().map(|precision| precision.as_seconds()).collect(),
    });
    Ok(Json(Counters { counters: counters.collect(), next: known.next.map(|name| name.to_string()) }))
}

pub(super) async fn series<S: Store>(
    State(stats): State<Stats<S>>,
    RawQuery(query): RawQuery,
) -> Answer<Series> {
    let query = Query::parse(query.as_deref(), &["counter", "precision", "from", "to", "fill"])?;
    let (counter, filled) = (query.counter()?, query.zero_filled()?);
    let series = read_series(&stats, &query, &counter).await?;
    let json = |sample: counter_core::Sample| Sample { start: sample.start.as_unix(), count: sample.count };
    let samples = if filled {
        series.zero_filled().map(json).collect()
    } else {
        series.samples.iter().copied().map(json).collect()
    };
    Ok(Json(Series { counter: counter.to_string(), precision: series.precision.as_seconds(), samples }))
}

pub(super) async fn total<S: Store>(
    State(stats): State<Stats<S>>,
    RawQuery(query): RawQuery,
) -> Answer<Total> {
    let query = Query::parse(query.as_deref(), &["counter", "precision", "from", "to"])?;
    let counter = query.counter()?;
    let series = read_series(&stats, &query, &counter).await?;
    Ok(Json(Total {
        counter: counter.to_string(),
        precision: series.precision.as_seconds(),
        from: series.range.start.as_unix(),
        to: series.range.end.as_unix(),
        total: series.total(),
    }))
}

pub(super) async fn uniques<S: Store>(
    State(stats): State<Stats<S>>,
    RawQuery(query): RawQuery,
) -> Answer<Uniques> {
    let query = Query::parse(query.as_deref(), &["counter", "precision", "from", "to"])?;
    let (counters, kept) = (query.counters()?, &stats.grid().visitors);
    let precision = query.precision(kept)?;
    let range = query.range(precision, kept, Timestamp::now())?;
    let failed = |error: Error| Problem::of(&error, &stats);
    let uniques = stats.uniques(&counters, precision, range.clone()).await.map_err(failed)?;
    if uniques.visitors == 0 {
        for counter in &counters {
            known(&stats, counter).await?;
        }
    }
    Ok(Json(Uniques {
        counters: counters.iter().map(ToString::to_string).collect(),
        precision: precision.as_seconds(),
        from: range.start.as_unix(),
        to: range.end.as_unix(),
        uniques: uniques.visitors,
        standard_error: uniques.standard_error,
    }))
}

pub(super) async fn ledger<S: Store>(State(stats): State<Stats<S>>) -> Json<Ledger> {
    Json(stats.ledger().into())
}

pub(super) async fn health<S: Store>(State(stats): State<Stats<S>>) -> Response {
    let health = stats.health();
    let status = match health.failing_for {
        None => StatusCode::OK,
        Some(_) => StatusCode::SERVICE_UNAVAILABLE,
    };
    (status, Json(Health::from(health))).into_response()
}

async fn read_series<S: Store>(
    stats: &Stats<S>,
    query: &Query,
    counter: &CounterName,
) -> Result<counter_core::Series, Problem> {
    let kept = &stats.grid().counts;
    let precision = query.precision(kept)?;
    let range = query.range(precision, kept, Timestamp::now())?;
    let series = stats.series(counter, precision, range).await;
    let series = series.map_err(|error| Problem::of(&error, stats))?;
    if series.samples.is_empty() {
        known(stats, counter).await?;
    }
    Ok(series)
}

async fn known<S: Store>(stats: &Stats<S>, counter: &CounterName) -> Result<(), Problem> {
    match stats.knows(counter).await {
        Ok(true) => Ok(()),
        Ok(false) => Err(Problem::unknown_counter(counter)),
        Err(error) => Err(Problem::of(&error, stats)),
    }
}

impl From<counter_core::Ledger> for Ledger {
    fn from(ledger: counter_core::Ledger) -> Self {
        let (requests, hits) = (ledger.requests, ledger.hits);
        Self {
            requests: Requests {
                observed: requests.observed,
                recorded: requests.recorded,
                excluded: requests.excluded,
                unmatched: requests.unmatched,
                ignored: Ignored { outcome: requests.ignored.outcome, prefetch: requests.ignored.prefetch },
                bots: requests.bots,
                unconfirmed: requests.unconfirmed,
            },
            hits: Hits {
                recorded: hits.recorded,
                applied: hits.applied,
                pending: hits.pending,
                expired: hits.expired,
                dropped: Dropped {
                    wrong_type: hits.dropped.wrong_type,
                    not_a_number: hits.dropped.not_a_number,
                    out_of_range: hits.dropped.out_of_range,
                    other: hits.dropped.other,
                },
                overflow: hits.overflow,
                lost_by_server: hits.lost_by_server,
            },
        }
    }
}

impl From<counter_core::Health> for Health {
    fn from(health: counter_core::Health) -> Self {
        Self {
            status: if health.failing_for.is_some() { "failing" } else { "ok" },
            pending: health.pending,
            pending_cells: health.pending_cells,
            retained_bytes: health.retained_bytes,
            connections: health.connections,
            seconds_since_acknowledged: health.since_acknowledged.map(|since| since.as_secs_f64()),
            failing_for_seconds: health.failing_for.map(|since| since.as_secs_f64()),
            last_error: health.last_error,
        }
    }
}
