//! Simulated series that are difficult for detectors: strong noise, slow drift, level shifts, spikes in
//! a season, and a changing season. The output only depends on the seed.

use std::f64::consts::TAU;

use super::simulated::{FORTNIGHT, Labeled, Random, labeled, random_row, rows, traffic, whole};

const DAY: usize = 288;

/// Returns two series for each shape, with random parameters.
pub fn corpus(seed: u64) -> Vec<Labeled> {
    let mut random = Random(seed.wrapping_mul(0x5851_F42D_4C95_7F2D));
    let shapes: [fn(&mut Random) -> Vec<Labeled>; 5] =
        [strong_noise, slow_drift, new_levels, spikes_in_seasons, changed_seasons];
    (0..2).flat_map(|_| shapes.map(|shape| shape(&mut random))).flatten().collect()
}

/// Returns a uniform random number in this range.
fn between(random: &mut Random, min: f64, max: f64) -> f64 {
    min + (max - min) * random.unit()
}

/// Returns a random sign.
fn sign(random: &mut Random) -> f64 {
    if random.unit() < 0.5 { -1.0 } else { 1.0 }
}

/// Returns two weeks with an anomaly that starts at a random row. `value` is called with the row and the
/// number of rows since the start of the anomaly.
fn one_anomaly(
    random: &mut Random,
    name: &str,
    mut value: impl FnMut(&mut Random, usize, Option<usize>) -> f64,
) -> Labeled {
    let at = random_row(random, FORTNIGHT);
    let mut inner = random.clone();
    _ = random.unit();
    let series = rows(name, 300, FORTNIGHT, |row, _| value(&mut inner, row, row.checked_sub(at)));
    labeled(series, &[at])
}

/// Returns two weeks without an anomaly.
fn no_anomaly(random: &mut Random, name: &str, mut value: impl FnMut(&mut Random, usize) -> f64) -> Labeled {
    let mut inner = random.clone();
    _ = random.unit();
    rows(name, 300, FORTNIGHT, |row, _| value(&mut inner, row))
}

/// Noise with normal or heavy tails, with a burst of a few rows.
fn strong_noise(random: &mut Random) -> Vec<Labeled> {
    let (length, size) = (whole(between(random, 2.0, 12.0)), between(random, 7.0, 12.0));
    let burst =
        move |since: Option<usize>| if since.is_some_and(|since| since < length) { size } else { 0.0 };
    let heavy = |random: &mut Random| {
        // Student's t-distribution with four degrees of freedom.
        let squares: f64 = (0..4).map(|_| random.normal().powi(2)).sum();
        random.normal() / (squares / 4.0).sqrt()
    };
    let mut noise = 0.0;
    vec![
        one_anomaly(random, "strong noise", move |random, _, since| {
            100.0 + 30.0 * (random.normal() + burst(since))
        }),
        one_anomaly(random, "strong noise", move |random, _, since| {
            100.0 + 10.0 * (heavy(random) + 2.0 * burst(since))
        }),
        one_anomaly(random, "strong noise", move |random, _, since| {
            let mean = 8.0 * (0.7 * random.normal() + 0.35 * burst(since)).exp();
            random.poisson(mean)
        }),
        // Autocorrelated noise.
        one_anomaly(random, "strong noise", move |random, _, since| {
            noise = 0.9 * noise + random.normal();
            50.0 + 5.0 * noise + 10.0 * burst(since)
        }),
        no_anomaly(random, "strong noise", move |random, _| 100.0 + 10.0 * heavy(random)),
        no_anomaly(random, "strong noise", move |random, _| (20.0 + 12.0 * random.normal()).abs()),
    ]
}

/// Levels that wander, rise, or oscillate with a period that is not a day.
fn slow_drift(random: &mut Random) -> Vec<Labeled> {
    let (slope, swing) = (sign(random) * between(random, 0.5, 2.0), between(random, 60.0, 120.0));
    let period = between(random, 700.0, 2500.0);
    let size = sign(random) * between(random, 8.0, 14.0);
    let odd = move |since: Option<usize>| if since.is_some_and(|since| since < 8) { size } else { 0.0 };
    let step = between(random, 0.3, 1.5);
    let (mut walk, mut level, mut pull) = (0.0, 0.0, 0.0);
    vec![
        one_anomaly(random, "slow drift", move |random, row, since| {
            500.0 + slope * 0.1 * row as f64 + 10.0 * (random.normal() + odd(since))
        }),
        one_anomaly(random, "slow drift", move |random, row, since| {
            300.0 + swing * (TAU * row as f64 / period).sin() + 6.0 * (random.normal() + odd(since))
        }),
        one_anomaly(random, "slow drift", move |random, _, since| {
            walk += step * random.normal();
            200.0 + walk + 2.0 * random.normal() + 2.0 * step.max(1.0) * odd(since)
        }),
        no_anomaly(random, "slow drift", move |random, _| {
            level += step * random.normal();
            200.0 + level
        }),
        no_anomaly(random, "slow drift", move |random, _| {
            pull = 0.998 * pull + 0.4 * random.normal();
            random.poisson((4.5_f64 + 0.15 * pull).exp())
        }),
    ]
}

/// Level shifts in noise and in a season.
fn new_levels(random: &mut Random) -> Vec<Labeled> {
    let (up, down) = (between(random, 5.0, 12.0), between(random, 5.0, 12.0));
    let factor = if random.unit() < 0.5 { between(random, 0.35, 0.6) } else { between(random, 1.6, 3.0) };
    let mut noise = 0.0;
    vec![
        one_anomaly(random, "new level", move |random, _, since| {
            80.0 + 4.0 * (random.normal() + since.map_or(0.0, |_| up))
        }),
        one_anomaly(random, "new level", move |random, _, since| {
            let spike = if random.unit() < 0.005 { 10.0 * random.unit() } else { 0.0 };
            200.0 + 8.0 * (random.normal() + spike - since.map_or(0.0, |_| down))
        }),
        one_anomaly(random, "new level", move |random, row, since| {
            let factor = since.map_or(1.0, |_| factor);
            visits(random, 80.0 * factor * traffic(time(row)))
        }),
        one_anomaly(random, "new level", move |random, _, since| {
            noise = 0.8 * noise + random.normal();
            50.0 + 3.0 * noise + 6.0 * since.map_or(0.0, |_| up)
        }),
    ]
}

/// Spikes that would be normal at a different time of day.
fn spikes_in_seasons(random: &mut Random) -> Vec<Labeled> {
    let (height, rows) = (between(random, 0.5, 0.9), whole(between(random, 3.0, 9.0)));
    let is_odd = move |since: Option<usize>| since.is_some_and(|since| since < rows);
    let swing = |row: usize| 0.5 - 0.5 * (TAU * row as f64 / DAY as f64).cos();
    vec![
        one_anomaly(random, "spike in a season", move |random, row, since| {
            let typical = 20.0 + 60.0 * swing(row) + 3.0 * random.normal();
            if is_odd(since) { typical + 60.0 * height } else { typical }
        }),
        one_anomaly(random, "spike in a season", move |random, row, since| {
            let typical = 20.0 + 60.0 * swing(row) + 3.0 * random.normal();
            if is_odd(since) { typical - 60.0 * height } else { typical }
        }),
        one_anomaly(random, "spike in a season", move |random, row, since| {
            let more = if is_odd(since) { 150.0 * height } else { 0.0 };
            visits(random, 150.0 * traffic(time(row)) + more)
        }),
    ]
}

/// Seasons that change at a row: later, steeper, or without a night.
fn changed_seasons(random: &mut Random) -> Vec<Labeled> {
    let late = between(random, 0.2, 0.45);
    let steep = if random.unit() < 0.5 { between(random, 0.1, 0.4) } else { between(random, 1.8, 2.5) };
    let wave = |phase: f64| (TAU * phase).sin();
    vec![
        one_anomaly(random, "changed season", move |random, row, since| {
            let phase = row as f64 / DAY as f64 + since.map_or(0.0, |_| late);
            100.0 + 40.0 * wave(phase) + 4.0 * random.normal()
        }),
        one_anomaly(random, "changed season", move |random, row, since| {
            let size = since.map_or(1.0, |_| steep);
            100.0 + 40.0 * size * wave(row as f64 / DAY as f64) + 4.0 * random.normal()
        }),
        one_anomaly(random, "changed season", move |random, row, since| {
            let busy = if since.is_some() { 0.8 } else { traffic(time(row)) };
            visits(random, 60.0 * busy)
        }),
    ]
}

/// Returns a count whose mean has a relative error of 8 %, in addition to the Poisson variance of independent
/// visits.
fn visits(random: &mut Random, mean: f64) -> f64 {
    let relative = (1.0 + 0.08 * random.normal()).max(0.1);
    random.poisson(mean * relative)
}

/// Returns the time of a five-minute row.
fn time(row: usize) -> u64 {
    super::simulated::START + 300 * row as u64
}
