//! Instruction counts by callgrind, which don't depend on the load of the machine.

use std::collections::BTreeMap;
use std::error::Error;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use counter_core::Timestamp;

/// The maximum number of runs until no minute ends. A run takes about a second.
const MAX_RUNS: u32 = 3;

/// Starts a program under callgrind, which will write `profile` on exit.
///
/// # Errors
/// If valgrind can't be started.
pub fn start(program: &Path, arguments: &[&str], profile: &Path) -> Result<Child, Box<dyn Error>> {
    let mut out = std::ffi::OsString::from("--callgrind-out-file=");
    out.push(profile);
    let child = Command::new("valgrind")
        .args(["--tool=callgrind", "--quiet"])
        .arg(out)
        .arg(program)
        .args(arguments)
        .stdout(Stdio::piped())
        .spawn();
    Ok(child.map_err(|error| format!("valgrind: {error}"))?)
}

/// Returns the total instructions in a profile.
///
/// # Errors
/// If the profile can't be read, e.g. because the program crashed.
pub fn instructions(profile: &Path) -> Result<u64, Box<dyn Error>> {
    let text = fs::read_to_string(profile)?;
    let totals = text.lines().find_map(|line| line.strip_prefix("totals: "));
    Ok(totals.ok_or("no totals in the callgrind profile")?.trim().parse()?)
}

/// Measures the instructions for an operation, given a program that takes the operation count as the final
/// argument.
///
/// Returns the slope between two counts, so that startup and shutdown cancel out.
///
/// # Errors
/// If the program fails.
pub fn per_operation(
    program: &Path,
    arguments: &[&str],
    counts: [u64; 2],
    profile: &Path,
) -> Result<f64, Box<dyn Error>> {
    let mut totals = [0; 2];
    for (count, total) in counts.into_iter().zip(&mut totals) {
        // If a minute ends during the run, all its cells are closed, which would be added to the operations.
        for _ in 0..MAX_RUNS {
            let minute = Timestamp::now().as_unix() / 60;
            run(program, arguments, count, profile)?;
            if Timestamp::now().as_unix() / 60 == minute {
                break;
            }
        }
        *total = instructions(profile)?;
    }
    Ok((totals[1] - totals[0]) as f64 / (counts[1] - counts[0]) as f64)
}

/// Like [`per_operation`], but by function. Costs include callees.
///
/// # Errors
/// If the program fails.
pub fn per_operation_by_function(
    program: &Path,
    arguments: &[&str],
    counts: [u64; 2],
    profile: &Path,
) -> Result<BTreeMap<String, f64>, Box<dyn Error>> {
    let mut costs = BTreeMap::new();
    for (count, sign) in counts.into_iter().zip([-1.0, 1.0]) {
        run(program, arguments, count, profile)?;
        for (function, instructions) in by_function(profile)? {
            *costs.entry(function).or_insert(0.0) +=
                sign * instructions as f64 / (counts[1] - counts[0]) as f64;
        }
    }
    Ok(costs)
}

fn run(program: &Path, arguments: &[&str], count: u64, profile: &Path) -> Result<(), Box<dyn Error>> {
    let count = count.to_string();
    let arguments: Vec<_> = arguments.iter().copied().chain([&*count]).collect();
    let status = start(program, &arguments, profile)?.wait()?;
    if !status.success() {
        return Err(format!("{} {arguments:?}: {status}", program.display()).into());
    }
    Ok(())
}

/// Returns the instructions by function in a profile, including callees.
///
/// # Errors
/// If the profile can't be read, e.g. because the program crashed.
// Functions are introduced as `fn=(7) name` and later abbreviated to `fn=(7)`. The lines below hold a
// position and a cost. This is the self cost, or the cost of the function in the preceding `cfn=` line if it
// follows `calls=`.
pub fn by_function(profile: &Path) -> Result<BTreeMap<String, u64>, Box<dyn Error>> {
    let profile = fs::read_to_string(profile)?;
    let (mut names, mut costs) = (BTreeMap::new(), BTreeMap::new());
    let (mut function, mut called) = ("", "");
    let mut is_call = false;
    for line in profile.lines() {
        let id_and_name = line.strip_prefix("fn=").or_else(|| line.strip_prefix("cfn="));
        if let Some(text) = id_and_name {
            let (id, name) = text.split_once(' ').unwrap_or((text, ""));
            let name = *names.entry(id).or_insert(name);
            *(if line.starts_with('c') { &mut called } else { &mut function }) = name;
        } else if line.starts_with("calls=") {
            is_call = true;
        } else if line.starts_with(|first: char| first.is_ascii_digit() || "+-*".contains(first)) {
            let cost: u64 = line.split(' ').nth(1).ok_or("no cost in the callgrind profile")?.parse()?;
            // The cost of a recursive call is already included.
            if !(std::mem::take(&mut is_call) && called == function) {
                *costs.entry(function.to_owned()).or_insert(0) += cost;
            }
        }
    }
    Ok(costs)
}
