use axum::Json;
use counter_alert::forecast::{self, ForecastError, Method};
use counter_core::{Stats, Timestamp};
use serde::Serialize;
use utoipa::ToSchema;

use super::parameter::{Asked, Counter, Horizon, KeptPrecision, LAG};
use super::read;
use super::response::Sample;
use super::route::Route;
use crate::problem::Problem;

/// The expected counts of a counter, and the forecast error on past data.
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
    Route::get("/api/forecast", "The expected counts of a counter", stats.clone(), forecast)
        .json::<Forecast>()
        .most("The horizon is at most half of the history, which has 20 buckets or more.")
        .refusal("422", "The history is too short, or the horizon too far for it")
}

async fn forecast(
    asked: Asked<Stats, (Counter, KeptPrecision, Horizon<HORIZON>)>,
) -> Result<Json<Forecast>, Problem> {
    let Asked { state: stats, parameters, .. } = asked;
    let (Counter(counter), KeptPrecision(kept), Horizon(horizon)) = parameters;
    let precision = kept.precision;
    let forecast =
        match forecast::Forecast::read(&stats, &counter, precision, horizon, Timestamp::now().minus(LAG))
            .await
        {
            Ok(forecast) => forecast,
            Err(ForecastError::Unread(error)) => return Err(Problem::of(&error, &stats)),
            Err(refused) => {
                read::known(&stats, std::slice::from_ref(&counter)).await?;
                return Err(Problem::no_forecast(&refused));
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
