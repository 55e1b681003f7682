//! Tables in Markdown, and what stands in them.

/// Prints a table; the first column is of words, and all others of numbers.
pub fn print(head: &[&str], rows: &[Vec<String>]) {
    println!("| {} |", head.join(" | "));
    println!("|---|{}", "--:|".repeat(head.len() - 1));
    for row in rows {
        println!("| {} |", row.join(" | "));
    }
}

/// The value below which that fraction of all is.
#[must_use]
pub fn quantile(values: &mut [f64], fraction: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let last = values.len().saturating_sub(1) as f64;
    values.get((last * fraction).round() as usize).copied().unwrap_or(f64::NAN)
}
