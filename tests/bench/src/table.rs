//! Tables in Markdown, and the processor time of this process.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Prints a table with a line above it.
pub fn print(title: &str, columns: &[&str], rows: &[Vec<String>]) {
    println!("\n{title}\n");
    println!("| {} |", columns.join(" | "));
    println!("|{}", "---|".repeat(columns.len()));
    for row in rows {
        println!("| {} |", row.join(" | "));
    }
}

/// The processor time that this process has taken, all threads together.
#[must_use]
pub fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    let (seconds, nanoseconds) = (u64::try_from(time.tv_sec), u32::try_from(time.tv_nsec));
    Duration::new(seconds.expect("it began at 0"), nanoseconds.expect("less than a second"))
}

/// The value in the middle.
#[must_use]
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
