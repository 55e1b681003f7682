//! Sparklines in table rows.

use super::canvas::fixed;
use crate::sparkline::Sparkline;

/// Draws a small line without axes, 96 wide and 24 high. The line starts at the first non-zero count, because
/// earlier counts could be either zero or unknown. If there are more than 60 counts, adjacent counts are
/// added up.
pub(crate) fn spark(counts: &[u64]) -> String {
    let group_size = counts.len().div_ceil(60).max(1);
    let sum = |counts: &[u64]| counts.iter().copied().fold(0, u64::saturating_add);
    // If some counts remain, then they are the oldest.
    let counts: Vec<_> = counts.rchunks_exact(group_size).rev().map(sum).collect();
    let line = Sparkline { width: 96.0, height: 24.0, margin: 2.0 };
    let first = counts.iter().position(|value| *value > 0).unwrap_or(counts.len());
    let points = line.points(counts.into_iter().map(Some)).skip(first);
    let points: Vec<_> = points.map(|(x, y)| format!("{} {}", fixed(x), fixed(y))).collect();
    if points.is_empty() { String::new() } else { format!("M{}", points.join("L")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sparklines_start_at_the_first_count_and_limit_the_points() {
        assert_eq!(spark(&[]), "");
        assert_eq!(spark(&[0]), "");
        assert_eq!(spark(&[0, 2, 1]), "M48 2L96 12");
        assert_eq!(spark(&[1; 121]).matches(['M', 'L']).count(), 40);
    }
}
