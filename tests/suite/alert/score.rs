//! The score of the Numenta benchmark, with examples computed by hand.

use std::collections::BTreeMap;

use tests::anomalies::score::{Scored, at, best, cross_validated, probation, sigmoid};

/// Returns a series of 100 rows with these scores, and an anomaly from row 40 to row 49.
fn series(scores: &[(usize, f64)]) -> Scored {
    let mut all = vec![0.0; 100];
    for (row, score) in scores {
        all[*row] = *score;
    }
    Scored { scores: all, windows: std::iter::once(40..50).collect() }
}

fn score(series: &[Scored]) -> f64 {
    (best(series).score * 100.0).round() / 100.0
}

#[test]
fn the_sigmoid_matches_the_paper() {
    for (position, value) in [(-1.0, 0.98661), (-0.5, 0.84828), (0.0, 0.0), (1.0, -0.98661), (3.0, -1.0)] {
        assert!((sigmoid(position) - value).abs() < 1e-5, "{position}: {}", sigmoid(position));
    }
}

#[test]
fn earlier_detections_score_higher_and_only_the_first_one_counts() {
    assert_eq!(score(&[series(&[])]), 0.0);
    assert_eq!(score(&[series(&[(40, 1.0)])]), 100.0);
    // 0.84828 / 0.98661 = 0.85979, and (1 + 0.85979) / 2.
    assert_eq!(score(&[series(&[(45, 1.0)])]), 92.99);
    assert_eq!(score(&[series(&[(45, 1.0), (46, 1.0), (49, 2.0)])]), 92.99);
    // The final row is a tenth from the end: 2 / (1 + e^-0.5) - 1 = 0.24492, / 0.98661 = 0.24824.
    assert_eq!(score(&[series(&[(49, 1.0)])]), 62.41);
}

#[test]
fn a_false_alarm_costs_up_to_eleven_hundredths() {
    // 1 - 0.11 of a window, i.e. 1.89 / 2.
    assert_eq!(score(&[series(&[(20, 2.0), (40, 1.0)])]), 94.5);
    // Row 54 is 5 rows after row 49, of 9: 2 / (1 + e^2.7778) - 1 = -0.88292, and 0.11 of it is -0.09712.
    assert_eq!(score(&[series(&[(54, 2.0), (40, 1.0)])]), 95.14);
    // The best threshold is above scores that would cost more than they gain.
    let outcome = best(&[series(&[(40, 2.0), (20, 1.0), (21, 1.0)])]);
    assert_eq!((outcome.score, outcome.threshold, outcome.false_alarms, outcome.found), (100.0, 2.0, 0, 1));
}

#[test]
fn all_series_have_the_same_threshold() {
    // At 1, both windows score 1, with 20 false alarms: (4 - 2.2) / 4. At 3, a window is missed: (1 - 1 + 2)
    // / 4.
    let noisy: Vec<_> = (60..80).map(|row| (row, 2.0)).chain([(40, 3.0)]).collect();
    let outcome = best(&[series(&noisy), series(&[(40, 1.0)])]);
    assert_eq!((outcome.score.round(), outcome.threshold), (50.0, 3.0));
    let quiet = Scored { scores: vec![0.0; 100], windows: Vec::new() };
    assert_eq!(score(&[quiet, series(&[(40, 1.0)])]), 100.0);
}

#[test]
fn a_fixed_threshold_has_the_score_of_the_best_one() {
    let all = [series(&[(40, 2.0), (20, 3.0)]), series(&[(41, 1.0), (45, 2.0)])];
    let outcome = best(&all);
    let fixed = at(&all, outcome.threshold);
    assert!(
        (fixed.score - outcome.score).abs() < 1e-9 && fixed.found == outcome.found,
        "{fixed:?} {outcome:?}"
    );
    assert_eq!((at(&all, 3.0).found, at(&all, 3.0).false_alarms, at(&all, 4.0).gain), (0, 1, 0.0));
}

#[test]
fn the_threshold_of_a_category_is_chosen_on_the_others() {
    // The best threshold is 2 for one category and 4 for the other. So one gets no detections, and the other
    // a false alarm.
    let one = series(&[(40, 2.0)]);
    let other = series(&[(40, 4.0), (20, 3.0)]);
    let categories = BTreeMap::from([("one".to_owned(), vec![one]), ("other".to_owned(), vec![other])]);
    let outcome = cross_validated(&categories);
    assert_eq!((outcome.found, outcome.windows, outcome.false_alarms), (1, 2, 1));
    assert!((outcome.gain - 1.89).abs() < 1e-9, "{outcome:?}");
}

#[test]
fn the_probation_period_is_not_scored() {
    assert_eq!((probation(100), probation(4032), probation(22_695)), (15, 604, 750));
    assert_eq!(score(&[series(&[(14, 2.0), (40, 1.0)])]), 100.0);
    let early = Scored { scores: vec![1.0; 100], windows: std::iter::once(5..10).collect() };
    assert_eq!(best(&[early, series(&[])]).windows, 1);
}
