//! Simulated series: the building blocks, and ordinary series without anomalies. The output only depends on
//! the seed.

use std::f64::consts::TAU;
use std::ops::Range;

/// A series with labeled anomalies.
#[derive(Clone, Debug)]
pub struct Labeled {
    /// Series name.
    pub name: String,
    /// Row width in seconds.
    pub width: u32,
    /// Unix time of each row.
    pub times: Vec<u64>,
    /// Value of each row.
    pub values: Vec<f64>,
    /// Rows of the anomalies, in ascending order.
    pub windows: Vec<Range<usize>>,
}

/// A SplitMix64 random number generator.
#[derive(Clone, Debug)]
pub struct Random(pub u64);

impl Random {
    /// Returns a uniform number from 0 to 1.
    pub fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((bits ^ (bits >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Returns a number from the standard normal distribution.
    pub fn normal(&mut self) -> f64 {
        (-2.0 * self.unit().max(1e-300).ln()).sqrt() * (TAU * self.unit()).cos()
    }

    /// Returns a Poisson distributed count. If the mean is above 200, this uses the normal approximation.
    pub fn poisson(&mut self, mean: f64) -> f64 {
        if mean > 200.0 {
            return (mean + mean.sqrt() * self.normal()).round().max(0.0);
        }
        let mut left = mean;
        std::iter::repeat_with(|| {
            left += self.unit().max(1e-300).ln();
            left
        })
        .take_while(|left| *left > 0.0)
        .count() as f64
    }
}

/// Start of all series: a Monday at midnight UTC.
pub const START: u64 = 1_585_526_400;
const DAY: f64 = 86_400.0;

/// Returns the relative traffic of a site at this time. The mean is about 1. It falls to a tenth at night and
/// to six tenths on weekends.
pub fn traffic(seconds: u64) -> f64 {
    let days = seconds.saturating_sub(START) as f64 / DAY;
    let time = days.fract();
    let hours = 1.0 - 0.8 * (TAU * (time - 0.1)).cos() + 0.15 * (2.0 * TAU * time).sin();
    // The transitions to and from the weekend take six hours, on Friday evening and Sunday night.
    let weekday = days % 7.0;
    let weekend = ((weekday - 4.875) / 0.25).clamp(0.0, 1.0) - ((weekday - 6.875) / 0.25).clamp(0.0, 1.0);
    let weekend = weekend + (1.0 - ((weekday + 0.125) / 0.25).min(1.0));
    hours.max(0.1) * (1.1 - 0.5 * weekend)
}

/// Builds a series with this number of rows. `value` is called with the row and the time.
pub(super) fn rows(name: &str, width: u32, rows: usize, mut value: impl FnMut(usize, u64) -> f64) -> Labeled {
    let times: Vec<u64> = (0..rows as u64).map(|row| START + row * u64::from(width)).collect();
    let values = times.iter().enumerate().map(|(row, time)| value(row, *time)).collect();
    Labeled { name: name.to_owned(), width, times, values, windows: Vec::new() }
}

/// Adds windows around anomalies that start at these rows. The windows cover a tenth of the series in total.
pub(super) fn labeled(mut series: Labeled, starts: &[usize]) -> Labeled {
    let half = series.values.len() / 20 / starts.len().max(1);
    series.windows = starts.iter().map(|at| at - half..(at + half).min(series.values.len())).collect();
    series
}

/// Returns a random row for an anomaly that is past the training rows.
pub(super) fn random_row(random: &mut Random, rows: usize) -> usize {
    whole(rows as f64 * (0.3 + 0.6 * random.unit()))
}

/// Returns the integer part of a non-negative number.
pub(super) fn whole(number: f64) -> usize {
    (1_u32..).take_while(|next| f64::from(*next) <= number).count()
}

/// Number of five-minute rows in two weeks.
pub(super) const FORTNIGHT: usize = 4032;

/// Returns series without anomalies.
pub fn quiet(random: &mut Random) -> Vec<Labeled> {
    let flat = rows("quiet, a flat line", 300, FORTNIGHT, |_, _| 45.0);
    let mut one = random.clone();
    let noise = rows("quiet, noise", 300, FORTNIGHT, |_, _| 30.0 + 4.0 * one.normal());
    let square =
        rows("quiet, a square wave", 300, FORTNIGHT, |row, _| if row % 288 < 144 { 20.0 } else { 80.0 });
    let mut two = random.clone();
    let site = rows("quiet, requests", 300, FORTNIGHT, |_, time| two.poisson(50.0 * traffic(time)));
    let mut three = random.clone();
    let heavy = rows("quiet, heavy tails", 300, FORTNIGHT, |_, _| 10.0 * (0.8 * three.normal()).exp());
    let (mut four, mut wander) = (random.clone(), 0.0);
    let walk = rows("quiet, wandering", 300, FORTNIGHT, |_, _| {
        wander = 0.99 * wander + four.normal();
        50.0 + wander
    });
    vec![flat, noise, square, site, heavy, walk]
}
