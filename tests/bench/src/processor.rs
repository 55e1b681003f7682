//! CPU time of this process and of child processes.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Returns the CPU time of all threads since the process started.
#[must_use]
pub fn time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    let (seconds, nanoseconds) = (u64::try_from(time.tv_sec), u32::try_from(time.tv_nsec));
    Duration::new(seconds.expect("it began at 0"), nanoseconds.expect("less than a second"))
}

/// Returns the CPU time of a process and its children in seconds, at a resolution of 10 ms.
#[must_use]
pub fn process_tree_seconds(id: u32) -> f64 {
    let ticks = |id: &str, parent: Option<u32>| -> u64 {
        let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
        // The name may contain spaces, but always ends with a parenthesis.
        let words: Vec<_> = stat.rsplit(") ").next().unwrap_or_default().split(' ').collect();
        let number = |index: usize| words.get(index).and_then(|word| word.parse::<u64>().ok()).unwrap_or(0);
        match parent {
            Some(parent) if number(1) != u64::from(parent) => 0,
            // For a live child, count only the process itself. For the parent, include exited children.
            Some(_) => number(11) + number(12),
            None => (11..15).map(number).sum(),
        }
    };
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let children = processes.filter_map(|entry| entry.file_name().into_string().ok());
    let children = children.filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()));
    let all = ticks(&id.to_string(), None) + children.map(|child| ticks(&child, Some(id))).sum::<u64>();
    all as f64 / 100.0
}
