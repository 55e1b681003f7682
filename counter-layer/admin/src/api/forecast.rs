use axum::Json;
use counter_alert::forecast::{self, ForecastError, Method};
use counter_core::{Stats, Timestamp};
use serde::Serialize;
use utoipa::ToSchema;

use super::parameter::{CountPrecision, Counter, Horizon, LAG, RequestParts};
use super::read;
use super::response::Sample;
use super::route::Route;
use crate::problem::Problem;

/// A forecast for a counter, and the forecast error on past data.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Forecast {
    counter: String,
    precision: u32,
    /// Number of closed buckets in the history.
    history: usize,
    /// Buckets per season; null if the history contains less than three seasons, or is not seasonal.
    season: Option<usize>,
    /// `smoothing`, or `naive` if the naive forecast is more accurate.
    method: &'static str,
    /// The fraction of future counts that should be inside the bands.
    level: f64,
    points: Vec<Point>,
    backtest: Backtest,
    /// Unusual samples in the history.
    unusual: Vec<Sample>,
}

#[derive(Debug, Serialize, ToSchema)]
struct Point {
    start: u64,
    expected: f64,
    lower: u64,
    upper: u64,
}

/// Mean absolute scaled error over multiple origins. At 1 the error is equal to a naive forecast of the next
/// bucket.
#[derive(Debug, Serialize, ToSchema)]
struct Backtest {
    folds: usize,
    horizon: usize,
    mase: Option<f64>,
    naive_mase: Option<f64>,
}

/// Default number of buckets to forecast.
const HORIZON: usize = 12;

pub(crate) fn route(stats: &Stats) -> Route {
    Route::get("/api/forecast", "A forecast for a counter", stats.clone(), forecast)
        .json::<Forecast>()
        .details("The history must have at least 20 buckets, and the horizon can be up to half of it.")
        .error_response("422", "The history is too short for this horizon")
}

async fn forecast(
    request: RequestParts<Stats, (Counter, CountPrecision, Horizon<HORIZON>)>,
) -> Result<Json<Forecast>, Problem> {
    let RequestParts { state: stats, parameters, .. } = request;
    let (Counter(counter), CountPrecision(retention), Horizon(horizon)) = parameters;
    let precision = retention.precision;
    let forecast =
        match forecast::Forecast::read(&stats, &counter, precision, horizon, Timestamp::now().minus(LAG))
            .await
        {
            Ok(forecast) => forecast,
            Err(ForecastError::Unread(error)) => return Err(Problem::of(&error, &stats)),
            Err(error) => {
                read::require_known(&stats, std::slice::from_ref(&counter)).await?;
                return Err(Problem::forecast_failed(&error));
            }
        };
    let point = |point: counter_alert::forecast::Point| Point {
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
