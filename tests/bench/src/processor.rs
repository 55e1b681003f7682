//! The processor time of this process, and of others.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// What all threads have taken together since the start.
#[must_use]
pub fn time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    let (seconds, nanoseconds) = (u64::try_from(time.tv_sec), u32::try_from(time.tv_nsec));
    Duration::new(seconds.expect("it began at 0"), nanoseconds.expect("less than a second"))
}

/// What a process and its children have taken together, in seconds, by a clock that ticks a hundred times a second.
#[must_use]
pub fn of_family(id: u32) -> f64 {
    let ticks = |id: &str, parent: Option<u32>| -> u64 {
        let told = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
        // The name may have blanks in it, and ends with a parenthesis.
        let words: Vec<_> = told.rsplit(") ").next().unwrap_or_default().split(' ').collect();
        let number = |place: usize| words.get(place).and_then(|word| word.parse::<u64>().ok()).unwrap_or(0);
        match parent {
            Some(parent) if number(1) != u64::from(parent) => 0,
            // Of a child that is there, its own; of the parent, those of children that have ended as well.
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
