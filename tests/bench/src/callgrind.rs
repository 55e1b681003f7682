//! Counts instructions, which do not depend on what else the machine does.

use std::collections::BTreeMap;
use std::error::Error;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Starts a program under callgrind, which writes to `profile` when the program ends.
///
/// # Errors
/// When valgrind cannot be started.
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

/// The instructions that a profile is of.
///
/// # Errors
/// When the program did not end in order.
pub fn instructions(profile: &Path) -> Result<u64, Box<dyn Error>> {
    let text = fs::read_to_string(profile)?;
    let totals = text.lines().find_map(|line| line.strip_prefix("totals: "));
    Ok(totals.ok_or("callgrind has written no totals")?.trim().parse()?)
}

/// What one more of something takes, on average, where a program does as many as its last argument says:
/// between two counts, so that its beginning and its end do not matter.
///
/// # Errors
/// When the program fails.
pub fn each(
    program: &Path,
    arguments: &[&str],
    counts: [u64; 2],
    profile: &Path,
) -> Result<f64, Box<dyn Error>> {
    let mut totals = [0; 2];
    for (count, total) in counts.into_iter().zip(&mut totals) {
        run(program, arguments, count, profile)?;
        *total = instructions(profile)?;
    }
    Ok((totals[1] - totals[0]) as f64 / (counts[1] - counts[0]) as f64)
}

/// As [`each`], by function: its own instructions and those of what it calls.
///
/// # Errors
/// When the program fails.
pub fn each_by_function(
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

/// The instructions of each function in a profile: its own and those of what it calls.
///
/// # Errors
/// When the program did not end in order.
// A function is `fn=(7) its name`, and later `fn=(7)`; below it are lines of a place and a cost, its own or, after a
// line `calls=`, that of the function named in `cfn=` before it.
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
            let cost: u64 = line.split(' ').nth(1).ok_or("callgrind has written no cost")?.parse()?;
            // What a function takes by calling itself is a part of it already.
            if !(std::mem::take(&mut is_call) && called == function) {
                *costs.entry(function.to_owned()).or_insert(0) += cost;
            }
        }
    }
    Ok(costs)
}
