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

use std::collections::BTreeMap;
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
    /// Rewards and costs, compared with no detections. A perfectly detected window is 2.
    pub gain: f64,
    /// Normalized score: 0 for no detections, 100 for perfect detections.
    pub score: f64,
    /// Number of windows with a detection.
    pub found: usize,
    /// Total number of windows.
    pub windows: usize,
    /// Number of detections outside the windows.
    pub false_alarms: usize,
}

impl Outcome {
    fn new(threshold: f64, gain: f64, found: usize, windows: usize, false_alarms: usize) -> Self {
        // For each window, the null detector gets -1, and the perfect detector gets 1.
        Self { threshold, gain, score: 100.0 * gain / (2.0 * windows as f64), found, windows, false_alarms }
    }
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
    let outcome = |threshold, sum: f64, found, false_alarms| {
        Outcome::new(threshold, sum + MISSED_WEIGHT * windows as f64, found, windows, false_alarms)
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
            if now.gain > best.gain {
                best = now;
            }
        }
    }
    best
}

/// Returns the result of this threshold.
pub fn at(series: &[Scored], threshold: f64) -> Outcome {
    let (mut rows, mut windows) = (Vec::new(), 0);
    for one in series {
        windows += add(&mut rows, one, windows);
    }
    let (mut rewards, mut false_alarms, mut cost) = (BTreeMap::new(), 0, 0.0);
    for row in rows.iter().filter(|row| row.score >= threshold) {
        match row.window {
            Some(window) => {
                let reward = rewards.entry(window).or_insert(row.reward);
                *reward = f64::max(*reward, row.reward);
            }
            None => {
                false_alarms += 1;
                cost += row.reward;
            }
        }
    }
    let found = rewards.len();
    let gain = rewards.values().sum::<f64>() + cost + MISSED_WEIGHT * found as f64;
    Outcome::new(threshold, gain, found, windows, false_alarms)
}

/// Returns the total result if the threshold for each category is the best one for all other categories, so
/// that no series has an effect on its own threshold.
pub fn cross_validated(categories: &BTreeMap<String, Vec<Scored>>) -> Outcome {
    let outcomes: Vec<Outcome> = categories
        .iter()
        .map(|(name, series)| {
            let others = categories.iter().filter(|(other, _)| *other != name);
            let others: Vec<Scored> = others.flat_map(|(_, series)| series.iter().cloned()).collect();
            at(series, best(&others).threshold)
        })
        .collect();
    let sum = |of: fn(&Outcome) -> usize| outcomes.iter().map(of).sum::<usize>();
    let gain = outcomes.iter().map(|outcome| outcome.gain).sum();
    let (found, windows) = (sum(|outcome| outcome.found), sum(|outcome| outcome.windows));
    Outcome::new(f64::NAN, gain, found, windows, sum(|outcome| outcome.false_alarms))
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
