use axum::Json;
use axum::extract::{RawQuery, State};
use counter_core::{ForecastError, Method, Stats, Store, Timestamp};
use serde::Serialize;

use super::numbers::known;
use super::query::{LAG, Query};
use super::response::Sample;
use crate::admin::problem::Problem;

/// The expected counts of a counter, and the error of such a forecast on its past.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub(crate) struct Forecast {
    counter: String,
    precision: u32,
    /// Finished buckets that it was made of.
    history: usize,
    /// Buckets in a season; null when the history holds less than three, or there is none.
    season: Option<usize>,
    /// `smoothing`, or `naive` where that was closer.
    method: &'static str,
    /// The part of what comes that the bands are to cover.
    level: f64,
    points: Vec<Point>,
    backtest: Backtest,
    /// Samples of the history that were out of the ordinary.
    unusual: Vec<Sample>,
}

#[derive(Debug, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
struct Point {
    start: u64,
    expected: f64,
    lower: u64,
    upper: u64,
}

/// The mean absolute scaled error over several origins: 1 is as far off as the naive forecast is one
/// bucket ahead.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
struct Backtest {
    folds: usize,
    horizon: usize,
    mase: Option<f64>,
    naive_mase: Option<f64>,
}

/// Buckets that are forecast unless another number is asked for.
const HORIZON: usize = 12;

pub(crate) async fn forecast<S: Store>(
    State(stats): State<Stats<S>>,
    RawQuery(query): RawQuery,
) -> Result<Json<Forecast>, Problem> {
    let query = Query::parse(query.as_deref(), &["counter", "precision", "horizon"])?;
    let (counter, precision) = (query.counter()?, query.kept(&stats.grid().counts)?.precision);
    let horizon = query.horizon(HORIZON)?;
    let forecast = match stats.forecast(&counter, precision, horizon, Timestamp::now().minus(LAG)).await {
        Ok(forecast) => forecast,
        Err(ForecastError::Unread(error)) => return Err(Problem::of(&error, &stats)),
        Err(refused) => {
            known(&stats, &counter).await?;
            return Err(Problem::no_forecast(&refused));
        }
    };
    let point = |point: counter_core::Point| Point {
        start: point.start.as_unix(),
        expected: point.expected,
        lower: point.lower,
        upper: point.upper,
    };
    let sample = |sample: counter_core::Sample| Sample { start: sample.start.as_unix(), count: sample.count };
    Ok(Json(Forecast {
        counter: counter.to_string(),
        precision: precision.as_seconds(),
        history: forecast.history,
        season: forecast.season,
        method: if forecast.method == Method::Naive { "naive" } else { "smoothing" },
        level: forecast.level,
        points: forecast.points.into_iter().map(point).collect(),
        backtest: Backtest {
            folds: forecast.backtest.folds,
            horizon: forecast.backtest.horizon,
            mase: forecast.backtest.mase,
            naive_mase: forecast.backtest.naive_mase,
        },
        unusual: forecast.unusual.into_iter().map(sample).collect(),
    }))
}
