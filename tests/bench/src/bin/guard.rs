//! Regression guard: compares the instructions and allocations for an operation against the committed
//! figures.
//!
//! - Without arguments, it compares.
//! - `write` updates the committed figures.
//! - `NAME COUNT` runs an operation, to be called by callgrind.

use std::error::Error;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::ExitCode;

use bench::callgrind;
use bench::work::{WORK, Work};

const OPERATION_COUNTS: [u64; 2] = [2_000, 22_000];

const HEAD: &str = "\
# Instructions per operation, by `tests/bench/run guard`. Allocations must be 0.
# `detector` is the score of the anomaly detector on realistic series.
";

/// Allowed deviation in percent.
const TOLERANCE_PERCENT: f64 = 5.0;

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let committed = Path::new(env!("CARGO_MANIFEST_DIR")).join("guard.txt");
    match &*arguments.iter().map(String::as_str).collect::<Vec<_>>() {
        [] => Ok(compare(&measure()?, &fs::read_to_string(committed)?)),
        ["write"] => {
            let mut text = HEAD.to_owned();
            for (name, instructions) in measure()? {
                writeln!(text, "{name} {instructions:.0}")?;
            }
            // The score of the detector is written by the benchmark of anomalies.
            let previous = fs::read_to_string(&committed)?;
            if let Some(score) = previous.lines().find(|line| line.starts_with("detector ")) {
                writeln!(text, "{score}")?;
            }
            fs::write(committed, text)?;
            Ok(ExitCode::SUCCESS)
        }
        [name, count] => {
            let work = Work::named(name).ok_or("unknown operation")?;
            (work.prepare)()(count.parse()?);
            Ok(ExitCode::SUCCESS)
        }
        _ => Err("usage: guard [write | NAME COUNT]".into()),
    }
}

/// Measures the instructions for an operation, after subtracting the baseline.
fn measure() -> Result<Vec<(&'static str, f64)>, Box<dyn Error>> {
    let folder = std::env::temp_dir().join(format!("guard-{}", std::process::id()));
    fs::create_dir(&folder)?;
    let measured = WORK.iter().map(|work| {
        let allocated = allocations(work);
        if allocated > 0 {
            return Err(
                format!("{}: {allocated} allocations per ten operations, expected none", work.name).into()
            );
        }
        let cost = callgrind::per_operation(
            &std::env::current_exe()?,
            &[work.name],
            OPERATION_COUNTS,
            &folder.join(work.name),
        )?;
        Ok((work, cost))
    });
    let measured: Result<Vec<_>, Box<dyn Error>> = measured.collect();
    fs::remove_dir_all(&folder)?;
    let measured = measured?;
    let of = |name: &str| measured.iter().find(|(work, _)| work.name == name).map_or(0.0, |(_, cost)| *cost);
    Ok(measured.iter().map(|(work, cost)| (work.name, cost - work.baseline.map_or(0.0, of))).collect())
}

/// Returns the allocations for ten operations, rounded down. We can't expect zero, because cells are closed
/// if a new second starts during the run.
fn allocations(work: &Work) -> u64 {
    let [first, more] = OPERATION_COUNTS;
    let mut run = (work.prepare)();
    run(first);
    allocation_counter::measure(|| run(more)).count_total / (more / 10)
}

fn compare(measured: &[(&str, f64)], committed: &str) -> ExitCode {
    let mut exit = ExitCode::SUCCESS;
    for (name, instructions) in measured {
        let committed_cost =
            committed.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<f64>().ok());
        let off = committed_cost
            .map_or(f64::INFINITY, |committed_cost| 100.0 * (instructions - committed_cost) / committed_cost);
        let verdict = if off > TOLERANCE_PERCENT {
            exit = ExitCode::FAILURE;
            "too many"
        } else if off < -TOLERANCE_PERCENT {
            exit = ExitCode::FAILURE;
            "fewer: run `tests/bench/run guard write` and commit the result"
        } else {
            "as committed"
        };
        println!("{name}: {instructions:.0} instructions, {off:+.1} %: {verdict}");
    }
    exit
}
