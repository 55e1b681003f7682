//! Counts of a site like those from its access log: six weeks to learn from, and a month with incidents. The
//! output only depends on the seed.

use std::ops::Range;

use super::simulated::{Random, START, traffic, whole};

/// Width of a row in seconds.
pub const WIDTH: u32 = 300;
const DAY: u64 = 86_400;
const HOUR: u64 = 3600;
/// Days to learn from, and days in total.
const MONTH: u64 = 42;
const DAYS: usize = 70;

/// Counts per five minutes, and the incidents among them.
#[derive(Clone, Debug)]
pub struct Site {
    /// Number of hits in each row.
    pub counts: Vec<f64>,
    /// Incidents in ascending order.
    pub incidents: Vec<Incident>,
}

/// An event in the month.
#[derive(Clone, Debug)]
pub struct Incident {
    /// Kind of the event.
    pub kind: &'static str,
    /// Rows in which it can be seen.
    pub rows: Range<usize>,
}

/// Kinds of incidents, with the day of the month, the hour, and the duration in hours.
const KINDS: [(&str, u64, u64, u64); 6] = [
    ("deploy breaks a page", 2, 10, 3),
    ("scraper", 6, 2, 1),
    ("viral link", 9, 15, 8),
    ("slow database", 14, 11, 2),
    ("holiday", 18, 0, 24),
    ("clock change", 22, 0, 6 * 24),
];

/// Returns the counts of a site with this mean number of hits per row.
pub fn site(mean: f64, seed: u64) -> Site {
    let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0x51);
    let incidents = KINDS.map(|(kind, day, hour, hours)| {
        // Up to two hours later.
        let start = ((MONTH + day) * DAY + hour * HOUR) / 300;
        let start = start + if hours < 24 { whole(24.0 * random.unit()) as u64 } else { 0 };
        let end = start + hours * HOUR / 300;
        Incident { kind, rows: whole(start as f64)..whole(end as f64) }
    });
    let (mut slow, mut news) = (0.0, 0.0);
    let counts = (0..DAYS * 288).map(|row| {
        let inside = |kind: &str| incidents.iter().find(|of| of.kind == kind && of.rows.contains(&row));
        let past = |incident: &Incident| (row - incident.rows.start) as f64 / 12.0;
        let time = START + 300 * row as u64;
        let is_changed = incidents.iter().any(|of| of.kind == "clock change" && row >= of.rows.start);
        let usual = traffic(if is_changed { time + HOUR } else { time });
        // The level wanders, and a newsletter brings more for two hours on Tuesdays.
        slow = 0.995 * slow + 0.01 * random.normal();
        news *= 0.96;
        if row % (7 * 288) == 288 + 108 {
            news = 0.6 + 0.4 * random.unit();
        }
        let factor = match () {
            () if inside("deploy breaks a page").is_some() => 0.3,
            () if inside("slow database").is_some() => 0.5,
            () if inside("holiday").is_some() => 0.5,
            () => inside("viral link").map_or(1.0, |of| 1.0 + 4.0 * (-past(of) / 3.0).exp()),
        };
        let more = if inside("scraper").is_some() { 5.0 } else { 0.0 };
        let relative = (1.0 + slow + 0.06 * random.normal()).max(0.0);
        random.poisson(mean * ((usual * relative + news) * factor + more))
    });
    let counts = counts.collect();
    Site { counts, incidents: incidents.to_vec() }
}

impl Site {
    /// Returns the row at which the month starts.
    pub fn month(&self) -> usize {
        self.counts.len() * 3 / 5
    }

    /// Returns the same counts per hour.
    #[must_use]
    pub fn hourly(&self) -> Self {
        let incidents = self
            .incidents
            .iter()
            .map(|Incident { kind, rows }| Incident { kind, rows: rows.start / 12..rows.end.div_ceil(12) });
        Self {
            counts: self.counts.chunks(12).map(|hour| hour.iter().sum()).collect(),
            incidents: incidents.collect(),
        }
    }
}
