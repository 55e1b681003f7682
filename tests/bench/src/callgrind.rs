//! Counts instructions, which do not depend on what else the machine does.

use std::collections::HashMap;
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

/// Those of them that are spent inside of functions of these names, and not in what they call.
///
/// # Errors
/// When there is no profile.
pub fn instructions_in(profile: &Path, names: &[&str]) -> Result<u64, Box<dyn Error>> {
    let text = fs::read_to_string(profile)?;
    // A function has its name where it comes first, and later its number only: `fn=(7) malloc`, `fn=(7)`.
    let mut known = HashMap::new();
    let (mut counts, mut called, mut sum) = (false, false, 0);
    for line in text.lines() {
        let function = line.strip_prefix("fn=");
        if let Some(function) = function.or_else(|| line.strip_prefix("cfn=")) {
            let (number, name) = function.split_once(' ').unwrap_or((function, ""));
            let of_these = *known.entry(number).or_insert_with(|| names.contains(&name));
            if line.starts_with("fn=") {
                counts = of_these;
            }
        } else if line.starts_with("calls=") {
            called = true;
        } else if line.starts_with(|first: char| first.is_ascii_digit() || "+-*".contains(first))
            && !std::mem::take(&mut called)
            && counts
        {
            sum += line.rsplit(' ').next().ok_or("a line without a cost")?.parse::<u64>()?;
        }
    }
    Ok(sum)
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
    for (count, total) in counts.iter().zip(&mut totals) {
        let count = count.to_string();
        let arguments: Vec<_> = arguments.iter().copied().chain([&*count]).collect();
        let status = start(program, &arguments, profile)?.wait()?;
        if !status.success() {
            return Err(format!("{} {arguments:?}: {status}", program.display()).into());
        }
        *total = instructions(profile)?;
    }
    Ok((totals[1] - totals[0]) as f64 / (counts[1] - counts[0]) as f64)
}
