//! Simulated series like those in the Numenta Anomaly Benchmark. The output only depends on the seed.

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

/// Returns series of different kinds, with and without anomalies.
pub fn corpus(seed: u64) -> Vec<Labeled> {
    let mut all = Vec::new();
    for round in 0..4 {
        let mut random = Random(seed.wrapping_mul(1000).wrapping_add(round));
        all.extend(artificial(&mut random));
        all.extend(metrics(&mut random));
        all.extend(counted(&mut random));
        all.extend(quiet(&mut random));
    }
    all
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

/// A daily pattern that is high from 9 am to 6 pm, with an anomalous day.
fn artificial(random: &mut Random) -> Vec<Labeled> {
    let busy = |row: usize| (108..216).contains(&(row % 288));
    let mut made = Vec::new();
    for kind in ["no jump", "jumps up", "jumps down", "flat middle"] {
        let day = 6 + whole(random.unit() * 6.0);
        let mut random = random.clone();
        let series = rows(kind, 300, FORTNIGHT, |row, _| {
            let noise = random.unit();
            let is_odd = row / 288 == day && busy(row);
            match kind {
                "no jump" if is_odd => 20.0 + 8.0 * noise,
                "jumps up" if is_odd => 140.0 + 20.0 * noise,
                "jumps down" if is_odd => 5.0 + 2.0 * noise,
                "flat middle" if is_odd => 60.0,
                _ if busy(row) => 70.0 + 18.0 * noise,
                _ => 20.0 + 8.0 * noise,
            }
        });
        made.push(labeled(series, &[day * 288 + 108]));
    }
    made
}

/// Machine metrics: a level with noise and spikes, or a temperature that wanders.
fn metrics(random: &mut Random) -> Vec<Labeled> {
    let mut made = Vec::new();
    for kind in ["shift", "noisier", "spike", "ramp"] {
        let at = random_row(random, FORTNIGHT);
        let mut random = random.clone();
        let series = rows(&format!("machine, {kind}"), 300, FORTNIGHT, |row, _| {
            let spike = if random.unit() < 0.01 { 15.0 * random.unit() } else { 0.0 };
            let (typical, is_odd) = (40.0 + 2.0 * random.normal() + spike, row >= at && row < at + 200);
            match kind {
                "shift" if row >= at => typical + 15.0,
                "noisier" if is_odd => typical + 8.0 * random.normal(),
                "spike" if (at..at + 4).contains(&row) => typical + 50.0,
                "ramp" if is_odd => typical + (row - at) as f64 * 0.5,
                _ => typical,
            }
        });
        made.push(labeled(series, &[at]));
    }
    for kind in ["drop", "jump"] {
        let at = random_row(random, 8000);
        let (mut random, mut wander) = (random.clone(), 0.0);
        let series = rows(&format!("temperature, {kind}"), 300, 8000, |row, time| {
            wander = 0.995 * wander + 0.3 * random.normal();
            let typical = 80.0 + wander + 2.0 * (TAU * time as f64 / DAY).sin() + 0.3 * random.normal();
            match (kind, row >= at && row < at + 100) {
                ("drop", true) => typical - 30.0 * ((row - at) as f64 / 10.0).min(1.0),
                ("jump", true) => typical + 8.0,
                _ => typical,
            }
        });
        made.push(labeled(series, &[at]));
    }
    made
}

/// Counts of requests, bursty messages, and a city with holidays.
fn counted(random: &mut Random) -> Vec<Labeled> {
    let mut made = Vec::new();
    for (kind, mean) in
        [("outage", 60.0), ("half", 300.0), ("double", 60.0), ("burst", 60.0), ("burst at night", 8.0)]
    {
        let mut at = random_row(random, FORTNIGHT);
        // During the day, except for the burst at night.
        at = at / 288 * 288 + if kind == "burst at night" { 20 } else { 150 };
        let mut random = random.clone();
        let series = rows(&format!("requests, {kind}"), 300, FORTNIGHT, |row, time| {
            let typical = mean * traffic(time) * (1.0 + 0.1 * random.normal()).max(0.0);
            let expected = match kind {
                "outage" if (at..at + 12).contains(&row) => 0.0,
                "half" if row >= at => typical / 2.0,
                "double" if row >= at => typical * 2.0,
                "burst" | "burst at night" if (at..at + 6).contains(&row) => typical + mean * 4.0,
                _ => typical,
            };
            random.poisson(expected)
        });
        made.push(labeled(series, &[at]));
    }
    let at = [random_row(random, 8000) / 2, 4500 + random_row(random, 3500)];
    let mut random = random.clone();
    let bursts = rows("messages", 300, 8000, |row, time| {
        let burst = if random.unit() < 0.01 { 150.0 * random.unit() } else { 0.0 };
        let odd = if at.iter().any(|at| (*at..at + 6).contains(&row)) { 900.0 } else { 0.0 };
        let typical = 20.0 * traffic(time) * (0.4 * random.normal()).exp();
        random.poisson(typical + burst + odd)
    });
    made.push(labeled(bursts, &at));
    let holidays = [100, 150, 190];
    let city = rows("city", 1800, 10_320, |row, time| {
        let holiday = if holidays.contains(&(row / 48)) { 0.5 } else { 1.0 };
        (15_000.0 * traffic(time) * holiday * (1.0 + 0.04 * random.normal())).round()
    });
    made.push(labeled(city, &holidays.map(|day| day * 48 + 16)));
    made
}

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
