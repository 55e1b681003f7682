//! Simulated series with the properties of real ones: missing rows, drift, plateaus, profiles that differ by
//! weekday, levels that stay, spikes that repeat, heavy tails, and few distinct values. These are not
//! anomalies. The output only depends on the seed.

use std::f64::consts::TAU;

use super::simulated::{FORTNIGHT, Labeled, Random, labeled, random_row, rows, traffic, whole};

const DAY: usize = 288;

/// Returns series of all kinds, with random parameters.
pub fn corpus(seed: u64) -> Vec<Labeled> {
    let mut random = Random(seed.wrapping_mul(0x2545_F491_4F6C_DD1D));
    let kinds: [fn(&mut Random) -> Labeled; 8] =
        [spikes, load, plateaus, weekdays, wandering, bursts, schedule, latency];
    let mut all: Vec<Labeled> = (0..3).flat_map(|_| kinds.map(|kind| kind(&mut random))).collect();
    all.extend(days(&mut random));
    all.extend(requests(&mut random));
    all
}

/// Returns a random number generator for a series.
fn fork(random: &mut Random) -> Random {
    let inner = random.clone();
    _ = random.unit();
    inner
}

/// Returns two random rows, one in each half of the scored part.
fn two_rows(random: &mut Random, rows: usize) -> [usize; 2] {
    [0.2, 0.6].map(|first| whole(rows as f64 * (first + 0.3 * random.unit())))
}

/// Rounds to a multiple of this step.
fn quantized(value: f64, step: f64) -> f64 {
    (value / step).round() * step
}

/// Removes each of these rows.
fn without(series: Labeled, is_missing: impl Fn(usize) -> bool) -> Labeled {
    let kept: Vec<usize> = (0..series.values.len()).filter(|row| !is_missing(*row)).collect();
    let windows = series.windows.iter().map(|window| {
        kept.partition_point(|row| *row < window.start)..kept.partition_point(|row| *row < window.end)
    });
    Labeled {
        windows: windows.collect(),
        times: kept.iter().map(|row| series.times[*row]).collect(),
        values: kept.iter().map(|row| series.values[*row]).collect(),
        ..series
    }
}

/// A rate that is mostly 0, with spikes. The anomaly is a day with more spikes, or a spike of twice the
/// height.
fn spikes(random: &mut Random) -> Labeled {
    let (rate, is_dense) = (0.01 + 0.03 * random.unit(), random.unit() < 0.5);
    let at = random_row(random, FORTNIGHT);
    let mut random = fork(random);
    let series = rows("spikes", 300, FORTNIGHT, |row, _| {
        let is_odd = row >= at && row < at + DAY;
        let rate = if is_odd && is_dense { 6.0 * rate } else { rate };
        let spike = if random.unit() < rate { 10.0 + 10.0 * random.unit() } else { 0.0 };
        if row == at && !is_dense { 40.0 } else { quantized(spike, 0.5) }
    });
    labeled(series, &[at])
}

/// The load of a machine, with few distinct values and a job that runs at times. The anomalies are a new
/// level that stays, and hours at the limit.
fn load(random: &mut Random) -> Labeled {
    let [shift, limit] = two_rows(random, FORTNIGHT);
    let (level, step) = (20.0 + 30.0 * random.unit(), 6.0 + 10.0 * random.unit());
    let (mut random, mut job) = (fork(random), 0_u32);
    let series = rows("load", 300, FORTNIGHT, |row, _| {
        job = if random.unit() < 0.01 { 6 } else { job.saturating_sub(1) };
        let busy = if job > 0 { 8.0 } else { 0.0 };
        let shifted = if row >= shift { step } else { 0.0 };
        let value = level + shifted + busy + 1.5 * random.normal();
        quantized(if (limit..limit + 20).contains(&row) { 99.5 } else { value }, 0.2)
    });
    labeled(series, &[shift, limit])
}

/// A sensor that sends a value when it changes, with rows that are missing. The anomaly is a jump.
fn plateaus(random: &mut Random) -> Labeled {
    let at = random_row(random, FORTNIGHT);
    let (size, gap) = (4.0 + 4.0 * random.unit(), random_row(random, FORTNIGHT));
    let (mut random, mut held) = (fork(random), 20.0);
    let series = rows("plateaus", 300, FORTNIGHT, |row, _| {
        let typical = 20.0 + 3.0 * (TAU * row as f64 / DAY as f64).sin() + 0.3 * random.normal();
        if random.unit() < 0.05 {
            held = quantized(typical, 0.5);
        }
        if (at..at + 30).contains(&row) { held + size } else { held }
    });
    without(labeled(series, &[at]), |row| row % 37 == 5 || (gap..gap + 60).contains(&row))
}

/// Half-hourly counts of a city, with another profile on each weekday and a slow decline. The anomalies are
/// days with a third less.
fn weekdays(random: &mut Random) -> Labeled {
    let days = two_rows(random, 150);
    let late: Vec<f64> = (0..7).map(|_| 0.2 * random.unit()).collect();
    let mut random = fork(random);
    let series = rows("weekdays", 1800, 150 * 48, |row, time| {
        let weekday = row / 48 % 7;
        let night = if row % 48 < 8 { 1.0 + 4.0 * late[weekday] } else { 1.0 };
        let holiday = if days.contains(&(row / 48)) { 0.65 } else { 1.0 };
        let trend = 1.0 - 0.1 * row as f64 / 7200.0;
        (12_000.0 * traffic(time) * night * holiday * trend * (1.0 + 0.05 * random.normal())).round()
    });
    labeled(series, &days.map(|day| day * 48 + 16))
}

/// A temperature that drifts, with rows that are missing. The anomalies are a deep drop and a slow rise.
fn wandering(random: &mut Random) -> Labeled {
    let [drop, rise] = two_rows(random, 8000);
    let (mut random, mut wander) = (fork(random), 0.0);
    let series = rows("wandering", 300, 8000, |row, _| {
        wander = 0.998 * wander + 0.25 * random.normal();
        let fall = if (drop..drop + 60).contains(&row) { 25.0 } else { 0.0 };
        let heat = if (rise..rise + 300).contains(&row) { 0.06 * (row - rise) as f64 } else { 0.0 };
        85.0 + wander + 0.5 * random.normal() - fall + heat
    });
    without(labeled(series, &[drop, rise]), |row| row % 101 == 7)
}

/// Mentions of a company: few by night, heavy tails, and bursts that fade. The anomalies are bursts that are
/// larger and last longer.
fn bursts(random: &mut Random) -> Labeled {
    let odd = two_rows(random, 12_000);
    let mean = [2.0, 20.0, 60.0][whole(3.0 * random.unit()).min(2)];
    let (mut random, mut burst) = (fork(random), 0.0);
    let series = rows("bursts", 300, 12_000, |row, time| {
        burst *= 0.8;
        if random.unit() < 0.004 {
            burst += mean * 3.0 / random.unit().max(0.2);
        }
        if odd.contains(&row) {
            burst += 40.0 * mean;
        }
        let typical = mean * (0.4 + 0.6 * traffic(time)) * (0.5 * random.normal()).exp();
        random.poisson(typical + burst)
    });
    labeled(series, &odd)
}

/// A batch job by schedule: the same values each day, with one of a few heights. Nothing is odd.
fn schedule(random: &mut Random) -> Labeled {
    let (start, length) = (whole(200.0 * random.unit()), 20 + whole(60.0 * random.unit()));
    let mut random = fork(random);
    rows("schedule", 300, FORTNIGHT, |row, _| {
        let height = if random.unit() < 0.2 { 60.0 } else { 50.0 };
        if (start..start + length).contains(&(row % DAY)) { height } else { 5.0 }
    })
}

/// Hourly prices or times with heavy tails, and a level that changes by the week. The anomaly is a spike.
fn latency(random: &mut Random) -> Labeled {
    let at = random_row(random, 1600);
    let (mut random, mut level) = (fork(random), 0.0);
    let series = rows("latency", 3600, 1600, |row, _| {
        if row % 168 == 0 {
            level = 0.2 * random.normal();
        }
        let typical = (0.4 * random.normal() + level).exp();
        if (at..at + 3).contains(&row) { 8.0 + typical } else { typical }
    });
    labeled(series, &[at])
}

/// A daily pattern that is high from 9 am to 6 pm, with an anomalous day.
fn days(random: &mut Random) -> Vec<Labeled> {
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

/// Counts of requests.
fn requests(random: &mut Random) -> Vec<Labeled> {
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
    made
}
