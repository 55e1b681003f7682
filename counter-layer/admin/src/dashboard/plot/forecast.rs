//! The forecast of the first chart line, and the backtest error.

use counter_alert::forecast::{Forecast, ForecastError, Method, Point};
use counter_core::{Error, ErrorKind, Stats, Timestamp};

use crate::dashboard::chart::forecast::{ForecastPoint, ForecastView};
use crate::dashboard::format::units;
use crate::dashboard::view::view::View;

/// Reads the forecast if requested. Buckets from `until` on are not yet known.
pub(crate) async fn read(
    stats: &Stats,
    view: &View,
    until: Timestamp,
) -> Result<Option<ForecastView>, Error> {
    let Some(counter) = view.chart.counters.first().filter(|_| view.chart.forecast) else { return Ok(None) };
    if view.is_of_zone_days(until) {
        let words = "Nothing is expected of days of a time zone: choose hours.".to_owned();
        return Ok(Some(ForecastView { line: counter.to_string(), words, ..ForecastView::default() }));
    }
    let (precision, horizon) = (view.chart.precision.precision, view.horizon());
    let mut forecast = Forecast::read(stats, counter, precision, horizon, until).await;
    if let Err(ForecastError::Horizon { most, .. }) = forecast {
        forecast = Forecast::read(stats, counter, precision, most, until).await;
    }
    match forecast {
        Ok(forecast) => Ok(Some(forecast_view(counter.to_string(), &forecast))),
        Err(ForecastError::Unread(error)) if !matches!(error.kind(), ErrorKind::Malformed { .. }) => {
            Err(error)
        }
        Err(refused) => {
            let words = format!("Nothing is expected yet: {refused}.");
            Ok(Some(ForecastView { line: counter.to_string(), words, ..ForecastView::default() }))
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
        "What is expected, from {} finished buckets{}, with the band that {:.0} of 100 counts should stay in.",
        forecast.history,
        season.as_ref().map_or_else(String::new, |season| format!(" and a season of {season}")),
        forecast.level * 100.0
    );
    let tested = forecast.backtest;
    let naive = format!(
        "the naive forecast (each bucket as {})",
        season.map_or_else(|| "the one before".to_owned(), |season| format!("that {season} before"))
    );
    words += &match (tested.mase, tested.naive_mase) {
        (Some(own), Some(other)) => {
            let (own, other, by, beside) = match forecast.method {
                Method::Naive => (other, own, format!("This is {naive}, which was closer: its"), "smoothing"),
                _ => (own, other, "Its".to_owned(), naive.as_str()),
            };
            format!(
                " {by} error on the past, {} ahead from each of {} moments, is a MASE of {own:.2}; that of {beside} is {other:.2}.",
                units::span(width * tested.horizon as u64),
                tested.folds
            )
        }
        _ => " Its error on the past cannot be scaled: nothing changed there.".to_owned(),
    };
    match forecast.unusual.len() {
        0 => {}
        1 => words += " One sample of the past, marked ◇, was out of the ordinary.",
        many => words += &format!(" {many} samples of the past, marked ◇, were out of the ordinary."),
    }
    words
}
