//! The forecast of the first chart line, and the backtest error.

use counter_alert::forecast::{Forecast, ForecastError, Method, Point};
use counter_core::{CounterName, Error, ErrorKind, Stats, Timestamp};

use crate::dashboard::chart::forecast::{ForecastPoint, ForecastView};
use crate::dashboard::format::units;
use crate::dashboard::view::timeline::Timeline;
use crate::dashboard::view::view::View;

/// Reads the forecast if requested. Buckets from `until` on are not yet known.
pub(crate) async fn read(
    stats: &Stats,
    (counter, line): (&CounterName, String),
    view: &View,
    timeline: &Timeline,
    until: Timestamp,
) -> Result<Option<ForecastView>, Error> {
    if !view.chart.forecast {
        return Ok(None);
    }
    let Some(precision) = timeline.bucket_precision() else {
        let words =
            "Forecasts are only available for intervals that the store keeps; choose hours.".to_owned();
        return Ok(Some(ForecastView { line, words, ..ForecastView::default() }));
    };
    let horizon = (timeline.buckets.starts.len() / 4).clamp(6, 48);
    let mut forecast = Forecast::read(stats, counter, precision, horizon, until).await;
    if let Err(ForecastError::Horizon { max, .. }) = forecast {
        forecast = Forecast::read(stats, counter, precision, max, until).await;
    }
    match forecast {
        Ok(forecast) => Ok(Some(forecast_view(line, &forecast))),
        Err(ForecastError::Unread(error)) if !matches!(error.kind(), ErrorKind::Malformed { .. }) => {
            Err(error)
        }
        Err(unavailable) => {
            let words = format!("No forecast yet: {unavailable}.");
            Ok(Some(ForecastView { line, words, ..ForecastView::default() }))
        }
    }
}

fn forecast_view(line: String, forecast: &Forecast) -> ForecastView {
    let point = |point: &Point| ForecastPoint {
        start: point.start,
        count: point.expected,
        lower: point.lower,
        upper: point.upper,
    };
    ForecastView {
        line,
        points: forecast.points.iter().map(point).collect(),
        unusual: forecast.unusual.iter().map(|sample| sample.start).collect(),
        words: words(forecast),
    }
}

fn words(forecast: &Forecast) -> String {
    let width = u64::from(forecast.precision.as_seconds());
    let season = forecast.season.map(|buckets| units::span(width * buckets as u64));
    let mut words = format!(
        "Forecast from {} complete values{}, with a band for {:.0} % of the counts.",
        forecast.history,
        season.as_ref().map_or_else(String::new, |season| format!(" and a season of {season}")),
        forecast.level * 100.0
    );
    let tested = forecast.backtest;
    let naive = format!(
        "the naive forecast (each value as {})",
        season.map_or_else(|| "the one before".to_owned(), |season| format!("the one {season} earlier"))
    );
    words += &match (tested.mase, tested.naive_mase) {
        (Some(mase), Some(other_mase)) => {
            let (mase, other_mase, prefix, other_method) = match forecast.method {
                Method::Naive => {
                    (other_mase, mase, format!("This is {naive}, which was closer. Its"), "smoothing")
                }
                _ => (mase, other_mase, "Its".to_owned(), naive.as_str()),
            };
            format!(
                " {prefix} error on past data, {} ahead in {} tests, is a MASE of {mase:.2}, compared to {other_mase:.2} for {other_method}.",
                units::span(width * tested.horizon as u64),
                tested.folds
            )
        }
        _ => " No error is available because the past values are constant.".to_owned(),
    };
    match forecast.unusual.len() {
        0 => {}
        1 => words += " One past value, marked ◇, was unusual.",
        many => words += &format!(" {many} past values, marked ◇, were unusual."),
    }
    words
}
