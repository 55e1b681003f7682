//! A small line without axes, used for both the embeddable picture and the dashboard table.

/// The box to draw the line into.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sparkline {
    pub(crate) width: f64,
    pub(crate) height: f64,
    /// Vertical margin, so that the stroke is not clipped.
    pub(crate) margin: f64,
}

impl Sparkline {
    /// Returns the points of these counts from edge to edge, as `x` and `y`. An unknown count
    /// does not have a point, but keeps its position, so the line connects the counts next to it.
    pub(crate) fn points(
        self,
        counts: impl ExactSizeIterator<Item = Option<u64>> + Clone,
    ) -> impl Iterator<Item = (f64, f64)> {
        let max = counts.clone().flatten().max().unwrap_or_default().max(1);
        let step = self.width / fraction(counts.len().saturating_sub(1).max(1) as u64);
        let plot_height = self.height - 2.0 * self.margin;
        counts.enumerate().filter_map(move |(place, count)| {
            let part = fraction(count?) / fraction(max);
            Some((step * fraction(place as u64), self.height - self.margin - plot_height * part))
        })
    }
}

#[expect(clippy::cast_precision_loss, reason = "the sixteenth digit is not visible in a small line")]
const fn fraction(number: u64) -> f64 {
    number as f64
}
