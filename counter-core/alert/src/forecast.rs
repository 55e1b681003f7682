//! Forecasts of a series: the expected counts, how certain they are, and how well the method would have done
//! before.
//!
//! The season of a series is found by STL, the remainder follows exponential smoothing, and the band is
//! derived from how far counts strayed until now. Nothing here reads the clock or waits for anything.

mod season;
mod smoothing;
mod band;
mod backtest;
mod model;
#[allow(clippy::module_inception, reason = "the `Forecast` itself, beside what it is made by")]
mod forecast;
#[cfg(test)]
mod tests;

pub use backtest::Backtest;
pub use forecast::{Forecast, ForecastError, Method, Point};
