//! Forecasts of a series: expected counts, a band around them, and a backtest of the method.
//!
//! We use STL to find the season, and exponential smoothing to follow the remainder. The band is derived from
//! the errors so far. Forecasts never read the clock, and only [`Forecast::read`] waits for anything, i.e.
//! the store.

mod season;
mod smoothing;
mod band;
mod backtest;
mod model;
#[allow(clippy::module_inception, reason = "the main type of this module")]
mod forecast;
#[cfg(test)]
mod tests;

pub use backtest::Backtest;
pub use forecast::{Forecast, ForecastError, Method, Point};
