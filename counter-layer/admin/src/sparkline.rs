//! A small line without axes: the one geometry behind the picture for other sites and the dashboard's table.

/// The box that a line is drawn in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sparkline {
    pub(crate) width: f64,
    pub(crate) height: f64,
    /// Left above and below, for the width of the line itself.
    pub(crate) margin: f64,
}

impl Sparkline {
    /// Returns the points of these counts from edge to edge, as `x` and `y`. A count that is not known keeps its
    /// place and has no point.
    pub(crate) fn points(
        self,
        counts: impl ExactSizeIterator<Item = Option<u64>> + Clone,
    ) -> impl Iterator<Item = (f64, f64)> {
        let most = counts.clone().flatten().max().unwrap_or_default().max(1);
        let step = self.width / fraction(counts.len().saturating_sub(1).max(1) as u64);
        let tall = self.height - 2.0 * self.margin;
        counts.enumerate().filter_map(move |(place, count)| {
            let part = fraction(count?) / fraction(most);
            Some((step * fraction(place as u64), self.height - self.margin - tall * part))
        })
    }
}

#[expect(clippy::cast_precision_loss, reason = "a line of some pixels does not show the sixteenth digit")]
const fn fraction(number: u64) -> f64 {
    number as f64
}
