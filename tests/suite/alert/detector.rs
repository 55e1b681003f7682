//! The detector on months of simulated traffic: detected events and false alarms.

use std::ops::Range;

use counter_alert::detector::{DetectedSeason, Detector, Evaluation};
use counter_core::{Precision, Timestamp};
use tests::anomalies::score::{Scored, best, probation};
use tests::anomalies::simulated::{Labeled, Random, START, traffic};
use tests::anomalies::{incidents, realistic};

use crate::support::precision;

/// A simulated site with a mean number of hits per bucket, more by day and less on weekends.
#[derive(Clone, Copy, Debug)]
struct Site {
    width: u32,
    mean: f64,
    /// The relative error of the mean, in addition to the Poisson noise. Half of it lasts about an hour.
    noise: f64,
    weeks: u64,
    seed: u64,
}

impl Site {
    const fn new(width: u32, mean: f64, weeks: u64) -> Self {
        Self { width, mean, noise: 0.05, weeks, seed: 7 }
    }

    /// Returns the bucket number of this day and hour in the final week, with Monday as 0.
    fn bucket(self, day: u64, hour: u64) -> u64 {
        ((self.weeks - 1) * 604_800 + day * 86_400 + hour * 3600) / u64::from(self.width)
    }

    /// Returns the number of buckets in this number of hours.
    fn hours(self, hours: u64) -> u64 {
        hours * 3600 / u64::from(self.width)
    }

    /// Runs the detector with means adjusted by `change`, and returns its results. Buckets are skipped if
    /// this returns `None`.
    fn evaluate(self, mut change: impl FnMut(u64, f64) -> Option<f64>) -> Vec<(u64, Evaluation)> {
        let (mut random, mut drift) = (Random(self.seed), 0.0);
        let mut detector = Detector::of_counts(Precision::try_from(self.width).expect("a width"));
        let buckets = self.weeks * 604_800 / u64::from(self.width);
        let evaluate = |bucket| {
            let time = START + bucket * u64::from(self.width);
            drift = 0.98 * drift + 0.2 * self.noise * random.normal();
            let relative = (1.0 + self.noise * random.normal() + drift).max(0.0);
            let hits = random.poisson(change(bucket, self.mean * traffic(time) * relative)?);
            Some((bucket, detector.observe(Timestamp::from_unix(time), hits)?))
        };
        (0..buckets).filter_map(evaluate).collect()
    }
}

/// Returns the buckets in which the condition becomes true, so that an alert would be raised.
fn raised(evaluations: &[(u64, Evaluation)], is_met: fn(&Evaluation) -> bool) -> Vec<u64> {
    let (mut was, mut raised) = (false, Vec::new());
    for (bucket, evaluation) in evaluations {
        if is_met(evaluation) && !was {
            raised.push(*bucket);
        }
        was = is_met(evaluation);
    }
    raised
}

fn unusual(evaluations: &[(u64, Evaluation)]) -> Vec<u64> {
    raised(evaluations, Evaluation::is_unusual)
}

const SIZES: [f64; 5] = [0.2, 2.0, 20.0, 200.0, 5000.0];

#[test]
fn normal_traffic_raises_less_than_an_alert_per_week() {
    let (mut all, mut count) = (0, 0);
    for (width, weeks) in [(60, 3), (300, 5), (3600, 16)] {
        for mean in SIZES {
            for noise in [0.0, 0.05, 0.15] {
                let evaluations =
                    Site { noise, ..Site::new(width, mean, weeks) }.evaluate(|_, usual| Some(usual));
                let (unusual, silent) = (unusual(&evaluations), raised(&evaluations, Evaluation::is_silent));
                let alerts = unusual.len() + silent.len();
                assert!(alerts as u64 <= weeks, "{width} s, {mean}, {noise}: {unusual:?}, {silent:?}");
                (all, count) = (all + alerts, count + weeks);
            }
        }
    }
    assert!(count == 360 && all * 10 <= 360, "{all} alerts in {count} weeks");
}

#[test]
fn events_are_detected_in_their_first_buckets() {
    /// Name, start (hour on Wednesday), duration in hours, and the changed mean.
    type Event = (&'static str, u64, u64, fn(f64) -> f64);
    let events: [Event; 5] = [
        ("an outage by day", 12, 2, |_| 0.0),
        ("an outage by night", 2, 2, |_| 0.0),
        ("half of the hits", 12, 3, |usual| usual / 2.0),
        ("twice the hits", 12, 3, |usual| usual * 2.0),
        ("a burst at night", 2, 1, |usual| usual * 15.0),
    ];
    for (width, weeks) in [(60, 3), (300, 4), (3600, 10)] {
        for mean in [200.0, 5000.0] {
            for (name, hour, hours, change) in events {
                let site = Site::new(width, mean, weeks);
                let at = site.bucket(2, hour)..site.bucket(2, hour) + site.hours(hours);
                let change = |bucket, usual| Some(if at.contains(&bucket) { change(usual) } else { usual });
                let evaluations = site.evaluate(change);
                let found = evaluations
                    .iter()
                    .find(|(bucket, evaluation)| at.contains(bucket) && evaluation.is_unusual());
                let (bucket, _) = found.unwrap_or_else(|| panic!("{name}, {width} s, {mean}"));
                assert!(bucket - at.start <= 2, "{name}, {width} s, {mean}: {}", bucket - at.start);
                // After the event, the traffic is normal.
                let after = |(bucket, _): &&(u64, Evaluation)| *bucket > at.end;
                let later = evaluations
                    .iter()
                    .filter(after)
                    .filter(|(_, evaluation)| evaluation.is_unusual())
                    .count();
                assert!(later <= 1, "{name}, {width} s, {mean}: {later} later");
            }
        }
    }
}

#[test]
fn silence_is_unexpected_when_hits_are_overdue() {
    for (mean, hour, earliest, latest) in
        [(2.0, 13, 4, 20), (2.0, 2, 12, 100), (200.0, 2, 0, 2), (20.0, 2, 2, 25)]
    {
        let site = Site::new(60, mean, 3);
        let at = site.bucket(2, hour)..site.bucket(2, hour) + site.hours(6);
        let evaluations = site.evaluate(|bucket, usual| Some(if at.contains(&bucket) { 0.0 } else { usual }));
        let silent = raised(&evaluations, Evaluation::is_silent);
        let [bucket] = silent[..] else { panic!("{mean}, {hour}: {silent:?}") };
        let after = bucket.checked_sub(at.start).expect("not before");
        assert!((earliest..=latest).contains(&after), "{mean}, {hour}: after {after} minutes");
        // The counter stays silent until there are hits.
        let lasting =
            evaluations.iter().filter(|(at, evaluation)| *at >= bucket && evaluation.is_silent()).count();
        assert!(lasting as u64 + after + 20 >= at.end - at.start, "{mean}, {hour}: {lasting} of {after}");
    }
}

#[test]
fn a_level_shift_raises_a_single_alert_and_is_then_expected() {
    for (width, weeks) in [(60, 3), (300, 4), (3600, 10)] {
        for (mean, factor) in [(200.0, 3.0), (200.0, 0.3), (5000.0, 2.0), (5000.0, 0.5)] {
            let site = Site::new(width, mean, weeks);
            let deploy = site.bucket(1, 11);
            let shifted = |bucket, usual| Some(if bucket >= deploy { usual * factor } else { usual });
            let evaluations = site.evaluate(shifted);
            let later: Vec<_> =
                unusual(&evaluations).into_iter().filter(|bucket| *bucket >= deploy).collect();
            let [bucket, ref rest @ ..] = later[..] else { panic!("{width} s, {mean}, {factor}: nothing") };
            assert!(
                bucket <= deploy + 2 && rest.len() <= 1,
                "{width} s, {mean}, {factor}: {deploy}: {later:?}"
            );
            let (_, last) = evaluations.last().expect("judgements");
            let usual = mean * traffic(START + (weeks * 604_800) - u64::from(width)) * factor;
            assert!((last.expected / usual - 1.0).abs() < 0.35, "{width} s, {mean}: {last:?} for {usual}");
        }
    }
}

#[test]
fn values_after_a_gap_are_not_compared_with_values_before() {
    for (width, weeks) in [(60, 3), (3600, 8)] {
        for (mean, factor, hours) in [(200.0, 1.0, 6), (200.0, 3.0, 6), (5000.0, 0.4, 30), (20.0, 1.0, 100)] {
            let site = Site::new(width, mean, weeks);
            let gap = site.bucket(1, 9)..site.bucket(1, 9) + site.hours(hours);
            let evaluations = site.evaluate(|bucket, usual| match bucket {
                bucket if gap.contains(&bucket) => None,
                bucket if bucket >= gap.end => Some(usual * factor),
                _ => Some(usual),
            });
            let later: Vec<_> =
                unusual(&evaluations).into_iter().filter(|bucket| *bucket >= gap.start).collect();
            assert!(
                later.len() <= usize::from(factor != 1.0),
                "{width} s, {mean}, {factor}: {gap:?}: {later:?}"
            );
        }
    }
}

#[test]
fn an_excluded_holiday_raises_no_alert_and_is_not_learned() {
    let site = Site::new(3600, 2000.0, 8);
    // Easter Monday, a week before the final week.
    let day = site.bucket(0, 0) - site.hours(168)..site.bucket(1, 0) - site.hours(168);
    let is_holiday = |bucket| day.contains(&bucket);
    let given = site.evaluate(|bucket, usual| Some(if is_holiday(bucket) { usual * 0.1 } else { usual }));
    let left_out = site.evaluate(|bucket, usual| (!is_holiday(bucket)).then_some(usual));
    let during = |range: Range<u64>| move |bucket: &&u64| range.contains(*bucket);
    assert!(unusual(&given).iter().filter(during(day.clone())).count() >= 1);
    assert_eq!(unusual(&left_out).iter().filter(during(day.start..u64::MAX)).count(), 0);
    // A week later, the Monday has the same expected value as Mondays before the holiday.
    let noon = site.bucket(0, 12);
    let (_, monday) = left_out.iter().find(|(bucket, _)| *bucket == noon).expect("it is judged");
    let usual = 2000.0 * traffic(START + noon * 3600);
    assert!((monday.expected / usual - 1.0).abs() < 0.15, "{monday:?} for {usual}");
}

#[test]
fn daily_and_weekly_seasons_are_learned() {
    for (width, weeks) in [(300, 6), (3600, 8)] {
        let site = Site { noise: 0.02, ..Site::new(width, 2000.0, weeks) };
        let evaluations = site.evaluate(|_, usual| Some(usual));
        let (mut deviation, mut count, mut by_week) = (0.0, 0.0, 0.0);
        for (bucket, evaluation) in evaluations.iter().filter(|(bucket, _)| *bucket >= site.bucket(0, 0)) {
            let usual = 2000.0 * traffic(START + bucket * u64::from(width));
            deviation += (evaluation.expected / usual - 1.0).abs();
            by_week += f64::from(u8::from(evaluation.season == DetectedSeason::Week));
            count += 1.0;
        }
        assert!(deviation / count < 0.08, "{width} s: {}", deviation / count);
        assert!(width < 3600 || by_week / count > 0.5, "{width} s: {}", by_week / count);
    }
}

#[test]
fn slow_growth_raises_no_alert() {
    for width in [300, 3600] {
        let site = Site::new(width, 300.0, 10);
        let growth = |bucket: u64| 1.05_f64.powf(bucket as f64 * f64::from(width) / 604_800.0);
        let evaluations = site.evaluate(|bucket, usual| Some(usual * growth(bucket)));
        assert!(unusual(&evaluations).len() <= 1, "{width} s: {:?}", unusual(&evaluations));
    }
}

#[test]
fn the_daily_season_of_minutes_is_learned_from_hours() {
    let (minute, hours) = (precision(60), 14 * 24);
    let start = |minutes: u64| Timestamp::from_unix(START + minutes * 60);
    let mut detector = Detector::of_counts(minute);
    for hour in 0..hours {
        detector.learn(start(hour * 60), 3600, 100.0 * traffic(START + hour * 3600 + 1800));
    }
    let (mut random, mut alerts) = (Random(3), 0);
    for minutes in hours * 60..(hours + 24) * 60 {
        let hits = random.poisson(100.0 * traffic(START + minutes * 60));
        let evaluation = detector.observe(start(minutes), hits);
        alerts += u32::from(evaluation.is_some_and(|evaluation| evaluation.is_unusual()));
        if minutes == (hours + 20) * 60 {
            assert_ne!(evaluation.expect("it is judged").season, DetectedSeason::Level);
        }
    }
    assert_eq!(alerts, 0);
}

/// Returns the detector's score, computed like in the benchmark.
fn score(corpus: Vec<Labeled>) -> f64 {
    let scored = corpus.into_iter().map(|series| {
        let is_count = series.values.iter().all(|value| *value >= 0.0 && value.fract() == 0.0);
        let new = if is_count { Detector::of_counts } else { Detector::of_measures };
        let mut detector = new(precision(series.width));
        let rows = series.times.iter().zip(&series.values);
        let score = |evaluation: Evaluation| -evaluation.probability.max(1e-300).log10();
        let mut observe = |(time, value): (&u64, &f64)| detector.observe(Timestamp::from_unix(*time), *value);
        let raw: Vec<f64> = rows.map(|row| observe(row).map_or(0.0, score)).collect();
        let rest = probation(raw.len()) / 5;
        let is_first = |at: usize| raw[at.saturating_sub(rest)..at].iter().all(|before| *before < raw[at]);
        let scores = (0..raw.len()).map(|at| if is_first(at) { raw[at] } else { 0.0 }).collect();
        Scored { scores, windows: series.windows }
    });
    best(&scored.collect::<Vec<_>>()).score
}

#[test]
fn incidents_of_a_month_are_reported_in_their_hours() {
    for seed in 0..3 {
        let site = incidents::site(500.0, seed).hourly();
        let mut detector = Detector::of_counts(precision(3600));
        let times = (START..).step_by(3600);
        let observe = |(time, count): (u64, &f64)| detector.observe(Timestamp::from_unix(time), *count);
        let unusual: Vec<bool> = times
            .zip(&site.counts)
            .map(observe)
            .map(|evaluation| evaluation.is_some_and(|evaluation| evaluation.is_unusual()))
            .collect();
        for incident in &site.incidents {
            let is_reported = unusual[incident.rows.clone()].contains(&true);
            // A holiday or a changed clock is not always outside of the band.
            let is_vague = matches!(incident.kind, "holiday" | "clock change");
            assert!(is_reported || is_vague, "{seed}: {}", incident.kind);
        }
        let is_inside =
            |row: usize| site.incidents.iter().any(|of| (of.rows.start..=of.rows.end + 1).contains(&row));
        let raised = (site.month()..unusual.len()).filter(|row| unusual[*row] && !unusual[*row - 1]);
        let outside: Vec<usize> = raised.filter(|row| !is_inside(*row)).collect();
        assert!(outside.is_empty(), "{seed}: {outside:?}");
    }
}

#[test]
fn anomalies_in_realistic_series_are_detected() {
    let score = score(realistic::corpus(1));
    assert!(score >= 70.0, "{score}");
}
