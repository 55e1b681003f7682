//! Markdown tables, and quantiles to put into them.

/// Prints a table. The leftmost column holds text, the remaining columns hold numbers.
pub fn print(head: &[&str], rows: &[Vec<String>]) {
    println!("| {} |", head.join(" | "));
    println!("|---|{}", "--:|".repeat(head.len() - 1));
    for row in rows {
        println!("| {} |", row.join(" | "));
    }
}

/// Returns a quantile, e.g. the median for 0.5.
#[must_use]
pub fn quantile(values: &mut [f64], fraction: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let last = values.len().saturating_sub(1) as f64;
    values.get((last * fraction).round() as usize).copied().unwrap_or(f64::NAN)
}
