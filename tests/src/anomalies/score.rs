//! Score of the Numenta Anomaly Benchmark, based on the published rules: Lavin & Ahmad 2015, *Evaluating
//! Real-time Anomaly Detection Algorithms*.
//!
//! - An anomaly is a window of rows. Only the first detection in a window counts. The reward is a scaled
//!   sigmoid that falls from almost 1 at the first row to 0 at the end of the window. A missed window costs
//!   1.
//! - A detection outside the windows costs up to 0.11, but less if it is just past a window.
//! - The first 15 % of a series, but at most 750 rows, are used for training and are not scored.
//! - The threshold is the same for all series, and is chosen to maximize the score. A score of 0 means no
//!   detections, and 100 means that all windows are detected at the first row without false alarms.

use std::collections::BTreeSet;
use std::ops::Range;

/// Anomaly scores for a series, and the labeled anomaly windows in ascending order.
#[derive(Clone, Debug)]
pub struct Scored {
    /// Score of each row. Larger means more unusual.
    pub scores: Vec<f64>,
    /// Rows of the anomalies.
    pub windows: Vec<Range<usize>>,
}

/// Weights of the standard profile.
const FALSE_ALARM_WEIGHT: f64 = 0.11;
const MISSED_WEIGHT: f64 = 1.0;

/// Result of a threshold for all series.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outcome {
    /// Rows with this score or above are detections.
    pub threshold: f64,
    /// Normalized score: 0 for no detections, 100 for perfect detections.
    pub score: f64,
    /// Number of windows with a detection.
    pub found: usize,
    /// Total number of windows.
    pub windows: usize,
    /// Number of detections outside the windows.
    pub false_alarms: usize,
}

/// Returns the number of rows at the start of a series that are not scored.
pub fn probation(rows: usize) -> usize {
    rows.min(5000) * 15 / 100
}

/// Returns the reward for a position relative to a window: -1 is the first row, 0 is the end, and 3 or more
/// is far past the end.
pub fn sigmoid(position: f64) -> f64 {
    if position >= 3.0 { -1.0 } else { 2.0 / (1.0 + (5.0 * position).exp()) - 1.0 }
}

/// Reward for a detection at this row, and the window that contains it.
struct Row {
    score: f64,
    reward: f64,
    window: Option<usize>,
}

/// Returns the result of the best threshold.
pub fn best(series: &[Scored]) -> Outcome {
    let (mut rows, mut windows) = (Vec::new(), 0);
    for one in series {
        windows += add(&mut rows, one, windows);
    }
    rows.sort_by(|one, other| other.score.total_cmp(&one.score));
    // Reward for each window so far. Initially, all windows are missed.
    let mut reward = vec![-MISSED_WEIGHT; windows];
    let (mut sum, mut found, mut false_alarms) = (-MISSED_WEIGHT * windows as f64, 0, 0);
    let outcome = |threshold, sum: f64, found, false_alarms| Outcome {
        threshold,
        // For each window, the null detector gets -1, and the perfect detector gets 1.
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
                found += usize::from(reward[window] == -MISSED_WEIGHT);
                sum += (row.reward - reward[window]).max(0.0);
                reward[window] = reward[window].max(row.reward);
            }
            None => {
                false_alarms += 1;
                sum += row.reward;
            }
        }
        // A threshold must include all rows with the same score.
        if rows.peek().is_none_or(|next| next.score < row.score) {
            let now = outcome(row.score, sum, found, false_alarms);
            if now.score > best.score {
                best = now;
            }
        }
    }
    best
}

/// Returns the number of detected windows, the total number of windows, and the number of false alarms with
/// this threshold.
pub fn counts(series: &[Scored], threshold: f64) -> (usize, usize, usize) {
    let (mut rows, mut windows) = (Vec::new(), 0);
    for one in series {
        windows += add(&mut rows, one, windows);
    }
    let detected = || rows.iter().filter(|row| row.score >= threshold);
    let found: BTreeSet<_> = detected().filter_map(|row| row.window).collect();
    (found.len(), windows, detected().filter(|row| row.window.is_none()).count())
}

/// Adds the rows that are scored. Returns the number of windows that are scored.
fn add(rows: &mut Vec<Row>, series: &Scored, windows: usize) -> usize {
    let probation = probation(series.scores.len());
    let counted: Vec<_> = series.windows.iter().filter(|window| window.end > probation).collect();
    for (at, score) in series.scores.iter().enumerate().skip(probation) {
        let inside = counted.iter().position(|window| window.contains(&at));
        let reward = match inside {
            Some(number) => {
                let window = counted[number];
                let width = window.len() as f64;
                sigmoid(-((window.end - at) as f64) / width) / sigmoid(-1.0)
            }
            None => {
                let before = series.windows.iter().rfind(|window| window.end <= at && window.len() > 1);
                let position =
                    before.map_or(3.0, |window| (at + 1 - window.end) as f64 / (window.len() - 1) as f64);
                FALSE_ALARM_WEIGHT * sigmoid(position)
            }
        };
        rows.push(Row { score: *score, reward, window: inside.map(|number| windows + number) });
    }
    counted.len()
}
