//! The score of Numenta's anomaly benchmark, by its published rules: Lavin & Ahmad 2015, *Evaluating Real-time Anomaly
//! Detection Algorithms*.
//!
//! - An anomaly is a window of rows. The first detection in a window counts, the earlier the more, by a scaled sigmoid from
//!   nearly 1 at its first row to 0 behind its last; a window without any costs 1.
//! - A detection outside of windows costs up to 0.11, less only shortly after a window.
//! - The first 15 % of a series, 750 rows at most, are for learning and count nothing.
//! - One threshold is used for all series, the best there is. A score of 0 is that of a detector that never detects, and
//!   100 that of one that detects all windows at their first row and nothing else.

use std::collections::BTreeSet;
use std::ops::Range;

/// A series of scores between which a threshold decides, and the windows of its anomalies, ascending.
#[derive(Clone, Debug)]
pub struct Scored {
    /// The score of each row: the larger the more unusual.
    pub scores: Vec<f64>,
    /// The rows of each anomaly.
    pub windows: Vec<Range<usize>>,
}

/// The weights of the standard profile.
const FALSE_ALARM: f64 = 0.11;
const MISSED: f64 = 1.0;

/// The outcome of a threshold over all series.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outcome {
    /// The rows with this score, and with a larger one, are detections.
    pub threshold: f64,
    /// The score, normalized: 0 without detections, 100 for the perfect ones.
    pub score: f64,
    /// The windows that have a detection, and those there are.
    pub found: usize,
    /// The windows that there are.
    pub windows: usize,
    /// The detections outside of windows.
    pub false_alarms: usize,
}

/// Returns the number of rows at the beginning of a series that are not scored.
pub fn probation(rows: usize) -> usize {
    rows.min(5000) * 15 / 100
}

/// Returns what a position is worth: -1 is the first row of a window, 0 its end, and 3 or more far behind it.
pub fn sigmoid(position: f64) -> f64 {
    if position >= 3.0 { -1.0 } else { 2.0 / (1.0 + (5.0 * position).exp()) - 1.0 }
}

/// The worth of a row as a detection, and its window.
struct Row {
    score: f64,
    worth: f64,
    window: Option<usize>,
}

/// Returns the outcome of the best threshold.
pub fn best(series: &[Scored]) -> Outcome {
    let (mut rows, mut windows) = (Vec::new(), 0);
    for one in series {
        windows += add(&mut rows, one, windows);
    }
    rows.sort_by(|one, other| other.score.total_cmp(&one.score));
    // What each window is worth so far, without any detection.
    let mut worth = vec![-MISSED; windows];
    let (mut sum, mut found, mut false_alarms) = (-MISSED * windows as f64, 0, 0);
    let outcome = |threshold, sum: f64, found, false_alarms| Outcome {
        threshold,
        // The null detector has -windows, and the perfect one 1 for each.
        score: 100.0 * (sum + windows as f64) / (2.0 * windows as f64),
        found,
        windows,
        false_alarms,
    };
    let mut best = outcome(f64::INFINITY, sum, found, false_alarms);
    let mut rows = rows.into_iter().peekable();
    while let Some(row) = rows.next() {
        match row.window {
            Some(window) => {
                found += usize::from(worth[window] == -MISSED);
                sum += (row.worth - worth[window]).max(0.0);
                worth[window] = worth[window].max(row.worth);
            }
            None => {
                false_alarms += 1;
                sum += row.worth;
            }
        }
        // A threshold takes all rows of the same score.
        if rows.peek().is_none_or(|next| next.score < row.score) {
            let now = outcome(row.score, sum, found, false_alarms);
            if now.score > best.score {
                best = now;
            }
        }
    }
    best
}

/// Returns the numbers of windows found, of windows, and of false alarms with this threshold.
pub fn counts(series: &[Scored], threshold: f64) -> (usize, usize, usize) {
    let (mut rows, mut windows) = (Vec::new(), 0);
    for one in series {
        windows += add(&mut rows, one, windows);
    }
    let detected = || rows.iter().filter(|row| row.score >= threshold);
    let found: BTreeSet<_> = detected().filter_map(|row| row.window).collect();
    (found.len(), windows, detected().filter(|row| row.window.is_none()).count())
}

/// Adds the rows of a series that count; returns the number of its windows that do.
fn add(rows: &mut Vec<Row>, series: &Scored, windows: usize) -> usize {
    let probation = probation(series.scores.len());
    let counted: Vec<_> = series.windows.iter().filter(|window| window.end > probation).collect();
    for (at, score) in series.scores.iter().enumerate().skip(probation) {
        let inside = counted.iter().position(|window| window.contains(&at));
        let worth = match inside {
            Some(number) => {
                let window = counted[number];
                let width = window.len() as f64;
                sigmoid(-((window.end - at) as f64) / width) / sigmoid(-1.0)
            }
            None => {
                let before = series.windows.iter().rfind(|window| window.end <= at && window.len() > 1);
                let position =
                    before.map_or(3.0, |window| (at + 1 - window.end) as f64 / (window.len() - 1) as f64);
                FALSE_ALARM * sigmoid(position)
            }
        };
        rows.push(Row { score: *score, worth, window: inside.map(|number| windows + number) });
    }
    counted.len()
}
