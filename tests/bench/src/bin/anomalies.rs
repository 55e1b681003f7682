//! Anomaly detection benchmark: the detector's score in Numenta's anomaly benchmark compared with a windowed
//! Gaussian, and false alarms on quiet series.
//!
//! If the argument is a folder, it should be a checkout of the benchmark, with `data` and `labels`. Otherwise
//! we use synthetic series with the properties of real ones. A number is the first of ten seeds (0 by default). A series is treated as counts if all values in the probation period could be counts.

use std::collections::{BTreeMap, VecDeque};
use std::error::Error;
use std::ops::Range;
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use bench::incidents::{Incident, site};
use bench::realistic::corpus;
use bench::score::{Outcome, Scored, at, best, cross_validated, probation};
use bench::simulated::{Labeled, Random, START, quiet};
use bench::table;
use counter_alert::detector::Detector;
use counter_core::{Precision, Timestamp};

/// Number of seeds for synthetic series.
const SEEDS: u64 = 10;
/// Seeds of the series for the guard, and the allowed difference of the score.
const GUARD_SEEDS: Range<u64> = 0..3;
const SCORE_TOLERANCE: f64 = 0.5;
/// Window of the windowed Gaussian in rows.
const GAUSSIAN_WINDOW: usize = 6400;

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let argument = std::env::args().nth(1).unwrap_or_else(|| "0".to_owned());
    if argument == "guard" {
        return guard(std::env::args().nth(2).as_deref() == Some("write"));
    }
    match argument.parse::<u64>() {
        Ok(first) => {
            let seeds = first..first.saturating_add(SEEDS);
            println!("Realistic series, seeds {seeds:?}: ");
            let corpora: Vec<_> = seeds.map(corpus).collect();
            report(&corpora);
            by_shape(&corpora);
            incidents();
        }
        Err(_) => {
            let corpus = read(Path::new(&argument))?;
            report(std::slice::from_ref(&corpus));
            by_category(&corpus);
            alerts(&corpus);
        }
    }
    false_alarms();
    Ok(ExitCode::SUCCESS)
}

/// Compares the score on realistic series to the committed score, or writes it. A real benchmark can't be
/// kept in the repository, but the scores on these series have the same order.
fn guard(is_written: bool) -> Result<ExitCode, Box<dyn Error>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("guard.txt");
    let text = std::fs::read_to_string(&path)?;
    let series: Vec<_> = GUARD_SEEDS.flat_map(corpus).collect();
    let score = best(&series.iter().map(|one| scored(one, detected(one))).collect::<Vec<_>>()).score;
    let (rows, committed): (Vec<_>, Vec<_>) = text.lines().partition(|line| !line.starts_with("detector "));
    if is_written {
        std::fs::write(path, format!("{}\ndetector {score:.1}\n", rows.join("\n")))?;
        return Ok(ExitCode::SUCCESS);
    }
    let committed = committed.first().and_then(|line| line.split(' ').nth(1)?.parse::<f64>().ok());
    let difference = score - committed.ok_or("guard.txt has no row for the detector")?;
    let (verdict, exit) = if difference < -SCORE_TOLERANCE {
        ("worse", ExitCode::FAILURE)
    } else if difference > SCORE_TOLERANCE {
        ("better: run `tests/bench/run guard write` and commit the result", ExitCode::FAILURE)
    } else {
        ("as committed", ExitCode::SUCCESS)
    };
    println!("detector: score {score:.1}, {difference:+.1}: {verdict}");
    Ok(exit)
}

/// Prints the scores of both detectors on these corpora.
fn report(corpora: &[Vec<Labeled>]) {
    let (mut ours, mut gaussian, mut rows, started) = (Vec::new(), Vec::new(), 0, Instant::now());
    for corpus in corpora {
        rows += corpus.iter().map(|series| series.values.len()).sum::<usize>();
        ours.push(best(&corpus.iter().map(|series| scored(series, detected(series))).collect::<Vec<_>>()));
    }
    let took = started.elapsed().as_nanos() as f64 / rows.max(1) as f64;
    for corpus in corpora {
        gaussian.push(best(
            &corpus.iter().map(|series| scored(series, windowed_gaussian(series))).collect::<Vec<_>>(),
        ));
    }
    println!("{} series, {rows} rows, {took:.0} ns per row:\n", corpora.iter().map(Vec::len).sum::<usize>());
    let row = |name: &str, outcomes: &[Outcome]| {
        let scores = || outcomes.iter().map(|outcome| outcome.score);
        let sum = |of: fn(&Outcome) -> usize| outcomes.iter().map(of).sum::<usize>();
        vec![
            name.to_owned(),
            format!("{:.1}", scores().sum::<f64>() / outcomes.len() as f64),
            format!("{:.1}", scores().fold(f64::INFINITY, f64::min)),
            format!("{} of {}", sum(|outcome| outcome.found), sum(|outcome| outcome.windows)),
            sum(|outcome| outcome.false_alarms).to_string(),
        ]
    };
    let head = ["detector", "score", "lowest", "anomalies found", "false positives"];
    table::print(&head, &[row("ours", &ours), row("windowed Gaussian", &gaussian)]);
}

/// Prints the detected anomalies by shape, using the threshold that is best for all series.
fn by_shape(corpora: &[Vec<Labeled>]) {
    let series: Vec<_> = corpora.iter().flatten().collect();
    let all: Vec<_> = series.iter().map(|series| scored(series, detected(series))).collect();
    let threshold = best(&all).threshold;
    let mut shapes: BTreeMap<&str, Vec<Scored>> = BTreeMap::new();
    for (series, scored) in series.iter().zip(all) {
        shapes.entry(&series.name).or_default().push(scored);
    }
    let rows = shapes.into_iter().map(|(shape, series)| {
        let Outcome { found, windows, false_alarms, .. } = at(&series, threshold);
        let score = format!("{:.1}", best(&series).score);
        vec![shape.to_owned(), format!("{found} of {windows}"), false_alarms.to_string(), score]
    });
    println!("\nBy shape, with the threshold 1e-{threshold:.1} for all:\n");
    let head = ["shape", "anomalies found", "false positives", "score with a separate threshold"];
    table::print(&head, &rows.collect::<Vec<_>>());
}

/// Prints the score of each category and series with the threshold that is best for all, and the score that
/// is left if the threshold for each category is chosen without this category.
fn by_category(corpus: &[Labeled]) {
    let all: Vec<_> = corpus.iter().map(|series| scored(series, detected(series))).collect();
    let threshold = best(&all).threshold;
    let mut categories: BTreeMap<String, Vec<Scored>> = BTreeMap::new();
    for (series, scored) in corpus.iter().zip(&all) {
        let category = series.name.split('/').next().unwrap_or_default();
        categories.entry(category.to_owned()).or_default().push(scored.clone());
    }
    let row = |name: &str, Outcome { score, found, windows, false_alarms, .. }: Outcome| {
        let score = if windows == 0 { "-".to_owned() } else { format!("{score:.1}") };
        vec![name.to_owned(), score, format!("{found} of {windows}"), false_alarms.to_string()]
    };
    let mut rows: Vec<_> = categories.iter().map(|(name, series)| row(name, at(series, threshold))).collect();
    rows.push(row("all, threshold by the other categories", cross_validated(&categories)));
    println!("\nBy category, with the threshold 1e-{threshold:.2} for all:\n");
    table::print(&["category", "score", "anomalies found", "false positives"], &rows);
    let one = |(series, scored): (&Labeled, &Scored)| {
        row(&series.name, at(std::slice::from_ref(scored), threshold))
    };
    println!("\nBy series:\n");
    let rows: Vec<_> = corpus.iter().zip(&all).map(one).collect();
    table::print(&["series", "score", "anomalies found", "false positives"], &rows);
}

/// Prints what a rule with the default share would report: anomalies with an alert, and alerts outside of
/// anomalies per week.
fn alerts(corpus: &[Labeled]) {
    let (mut found, mut windows, mut outside, mut weeks) = (0, 0, 0, 0.0);
    for series in corpus {
        let unusual =
            evaluate(series, |evaluation| evaluation.is_some_and(|evaluation| evaluation.is_unusual()));
        let probation = probation(unusual.len());
        let counted = || series.windows.iter().filter(|window| window.end > probation);
        windows += counted().count();
        found += counted().filter(|window| unusual[(*window).clone()].contains(&true)).count();
        let is_raised = |row: &usize| unusual[*row] && !unusual[*row - 1];
        let is_outside = |row: &usize| !series.windows.iter().any(|window| window.contains(row));
        outside += (probation..unusual.len()).filter(is_raised).filter(is_outside).count();
        weeks += (unusual.len() - probation) as f64 * f64::from(series.width) / 604_800.0;
    }
    let rate = outside as f64 / weeks;
    println!(
        "\nAlerts with the default share: {found} of {windows} anomalies, {rate:.2} false alarms per week"
    );
}

/// Prints how many incidents of simulated sites are reported, and how many alerts belong to an incident.
fn incidents() {
    let mut rows = Vec::new();
    let mut kinds: BTreeMap<(usize, &str), Vec<String>> = BTreeMap::new();
    for (width, mean) in [(300, 5.0), (300, 50.0), (300, 500.0), (3600, 5.0), (3600, 50.0), (3600, 500.0)] {
        let (mut alerts, mut inside, mut weeks) = (0, 0, 0.0);
        let mut reported: BTreeMap<(usize, &str), usize> = BTreeMap::new();
        for seed in 0..SEEDS {
            let site = site(mean, seed);
            let site = if width == 3600 { site.hourly() } else { site };
            let mut detector = Detector::of_counts(Precision::try_from(width).expect("a width"));
            let unusual: Vec<bool> = (START..)
                .step_by(width as usize)
                .zip(&site.counts)
                .map(|(time, count)| {
                    let evaluation = detector.observe(Timestamp::from_unix(time), *count);
                    evaluation.is_some_and(|evaluation| evaluation.is_unusual())
                })
                .collect();
            let raised = (site.month()..unusual.len()).filter(|row| unusual[*row] && !unusual[*row - 1]);
            let raised: Vec<usize> = raised.collect();
            alerts += raised.len();
            weeks += (unusual.len() - site.month()) as f64 * f64::from(width) / 604_800.0;
            // An hour after an incident, an alert can still be about its end.
            let is_of = |row: usize, of: &Incident| {
                (of.rows.start..=of.rows.end + 3600 / width as usize).contains(&row)
            };
            inside += raised.iter().filter(|row| site.incidents.iter().any(|of| is_of(**row, of))).count();
            for (number, of) in site.incidents.iter().enumerate() {
                let is_reported = raised.iter().any(|row| is_of(*row, of));
                *reported.entry((number, of.kind)).or_default() += usize::from(is_reported);
            }
        }
        let all: usize = reported.values().sum();
        for (kind, count) in &reported {
            kinds.entry(*kind).or_default().push(format!("{count} of {SEEDS}"));
        }
        rows.push(vec![
            format!("{} min, {mean} hits per 5 min", width / 60),
            format!("{:.0} %", 100.0 * all as f64 / (reported.len() as f64 * SEEDS as f64)),
            format!("{:.0} %", 100.0 * inside as f64 / alerts as f64),
            format!("{:.2}", (alerts - inside) as f64 / weeks),
        ]);
    }
    println!("\nIncidents in a month of simulated sites:\n");
    table::print(&["buckets and size", "recall", "precision", "false alarms per week"], &rows);
    println!("\nReported incidents, in the same order:\n");
    let rows: Vec<_> = kinds
        .into_iter()
        .map(|((_, kind), counts)| std::iter::once(kind.to_owned()).chain(counts).collect())
        .collect();
    table::print(&["incident", "5 min, 5", "5 min, 50", "5 min, 500", "h, 5", "h, 50", "h, 500"], &rows);
}

/// Prints how many false alarms to expect in a week on series with no anomalies, at the default false alarm
/// share.
fn false_alarms() {
    let mut kinds: BTreeMap<String, (f64, usize)> = BTreeMap::new();
    for seed in 0..4 * SEEDS {
        for series in quiet(&mut Random(seed)) {
            let (weeks, alerts) = kinds.entry(series.name.clone()).or_default();
            let unusual =
                evaluate(&series, |evaluation| evaluation.is_some_and(|evaluation| evaluation.is_unusual()));
            // The first night surprises a new detector, so we skip the probation period.
            let unusual = &unusual[probation(unusual.len())..];
            *weeks += unusual.len() as f64 * f64::from(series.width) / 604_800.0;
            *alerts += unusual.windows(2).filter(|pair| !pair[0] && pair[1]).count();
        }
    }
    let rows: Vec<_> = kinds
        .into_iter()
        .map(|(name, (weeks, alerts))| {
            vec![name, format!("{weeks:.0}"), format!("{:.2}", alerts as f64 / weeks)]
        })
        .collect();
    println!("\nFalse alarms with the default share, after the first 15 % of the rows:\n");
    table::print(&["series", "weeks", "false alarms per week"], &rows);
}

/// Sets the score to zero unless it exceeds all scores in the preceding rows, so that an anomaly is only
/// reported when it starts. The number of rows is the same as the pause after a detection in KNN-CAD.
fn scored(series: &Labeled, scores: Vec<f64>) -> Scored {
    let rest = probation(scores.len()) / 5;
    let first = |at: usize| scores[at.saturating_sub(rest)..at].iter().all(|before| *before < scores[at]);
    let scores = (0..scores.len()).map(|at| if first(at) { scores[at] } else { 0.0 }).collect();
    Scored { scores, windows: series.windows.clone() }
}

fn detected(series: &Labeled) -> Vec<f64> {
    evaluate(series, |evaluation| {
        evaluation.map_or(0.0, |evaluation| -evaluation.probability.max(1e-300).log10())
    })
}

fn evaluate<T>(series: &Labeled, of: impl Fn(Option<counter_alert::detector::Evaluation>) -> T) -> Vec<T> {
    let width = Precision::try_from(series.width).expect("a width");
    let known = &series.values[..probation(series.values.len())];
    let is_count = known.iter().all(|value| *value >= 0.0 && value.fract() == 0.0);
    let mut detector = if is_count { Detector::of_counts(width) } else { Detector::of_measures(width) };
    let rows = series.times.iter().zip(&series.values);
    rows.map(|(time, value)| of(detector.observe(Timestamp::from_unix(*time), *value))).collect()
}

/// Scores values by the distance from the mean of preceding values, in standard deviations.
fn windowed_gaussian(series: &Labeled) -> Vec<f64> {
    let (mut window, mut sum, mut squares) = (VecDeque::new(), 0.0, 0.0);
    let mut score = |value: f64| {
        let n = window.len() as f64;
        let (mean, square) = (sum / n, squares / n);
        let deviation = (square - mean * mean).max(1e-12).sqrt();
        let score = if n < 2.0 { 0.0 } else { (value - mean).abs() / deviation };
        window.push_back(value);
        (sum, squares) = (sum + value, squares + value * value);
        if window.len() > GAUSSIAN_WINDOW {
            let oldest: f64 = window.pop_front().expect("it is full");
            (sum, squares) = (sum - oldest, squares - oldest * oldest);
        }
        score
    };
    series.values.iter().map(|value| score(*value)).collect()
}

/// Reads the benchmark: `data/*/*.csv`, with windows from `labels/combined_windows.json`.
fn read(folder: &Path) -> Result<Vec<Labeled>, Box<dyn Error>> {
    let labels = std::fs::read(folder.join("labels/combined_windows.json"))?;
    let labels: BTreeMap<String, Vec<(String, String)>> = serde_json::from_slice(&labels)?;
    let mut corpus = Vec::new();
    for (name, windows) in labels {
        let text = std::fs::read_to_string(folder.join("data").join(&name))?;
        let mut rows = Vec::new();
        for line in text.lines().skip(1).filter(|line| !line.is_empty()) {
            let (time, value) = line.split_once(',').ok_or("a line has a time and a value")?;
            rows.push((unix(time)?, value.trim().parse::<f64>()?));
        }
        let mut ranges = Vec::new();
        for (first, last) in windows {
            let (first, last) = (unix(&first)?, unix(&last)?);
            ranges.push(rows.partition_point(|row| row.0 < first)..rows.partition_point(|row| row.0 <= last));
        }
        let (times, values): (Vec<_>, Vec<_>) = rows.into_iter().unzip();
        let (width, times) = regular(times);
        corpus.push(Labeled { name, width, times, values, windows: ranges });
    }
    Ok(corpus)
}

/// Returns the typical interval between rows, and the times. Replaces irregular times with regular times.
fn regular(times: Vec<u64>) -> (u32, Vec<u64>) {
    let mut spacing: Vec<u64> = times.windows(2).map(|pair| pair[1].saturating_sub(pair[0])).collect();
    spacing.sort_unstable();
    let width = spacing.get(spacing.len() / 2).copied().unwrap_or(300).max(1);
    let irregular = spacing.iter().filter(|spacing| spacing.abs_diff(width) * 10 > width).count();
    let first_time = times.first().copied().unwrap_or(0);
    let times = if irregular * 100 > spacing.len() {
        (0..times.len() as u64).map(|row| first_time + row * width).collect()
    } else {
        times
    };
    (u32::try_from(width).unwrap_or(86_400), times)
}

/// Parses a time like `2014-04-10 07:15:00`.
fn unix(text: &str) -> Result<u64, Box<dyn Error>> {
    let numbers: Vec<u64> =
        text.split(['-', ' ', 'T', ':', '.']).take(6).map(str::parse).collect::<Result<_, _>>()?;
    let [year, month, day, hours, minutes, seconds] = numbers[..] else { return Err(text.into()) };
    // Days since 1970, with years starting in March.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = 365 * year + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day - 1;
    Ok((days - 719_468) * 86_400 + hours * 3600 + minutes * 60 + seconds)
}
