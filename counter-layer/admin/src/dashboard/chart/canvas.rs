//! The coordinate system of charts.

/// The width of the stretched box.
pub(crate) const WIDTH: u32 = 1000;
/// The height of the box, which is also the height in pixels.
pub(crate) const HEIGHT: u32 = 220;

/// The dimensions of a chart.
pub(crate) struct Canvas {
    pub(crate) buckets: usize,
    pub(crate) top: u64,
}

impl Canvas {
    pub(crate) fn left(&self, place: usize) -> f64 {
        f64::from(WIDTH) * count(place) / count(self.buckets)
    }

    pub(crate) fn middle(&self, place: usize) -> f64 {
        self.left(place) + f64::from(WIDTH) / count(self.buckets) / 2.0
    }

    /// Returns the bucket middle in percent of the width.
    pub(crate) fn percent(&self, place: usize) -> f64 {
        self.middle(place) * 100.0 / f64::from(WIDTH)
    }

    /// Returns the text anchor of a label, so that it is never clipped at the edge, even on a phone.
    pub(crate) fn anchor(&self, place: usize) -> &'static str {
        match self.percent(place) {
            ..7.0 => "start",
            93.0.. => "end",
            _ => "middle",
        }
    }

    pub(crate) fn y(&self, value: u64) -> f64 {
        f64::from(HEIGHT) * (1.0 - ratio(value, self.top))
    }
}

/// Formats a coordinate with at most one decimal.
pub(crate) fn fixed(value: f64) -> String {
    let text = format!("{value:.1}");
    text.strip_suffix(".0").map_or_else(|| text.clone(), str::to_owned)
}

#[expect(clippy::cast_precision_loss, reason = "an index into a few hundred buckets")]
pub(crate) const fn count(places: usize) -> f64 {
    places as f64
}

/// Returns the ratio of two counts.
#[expect(clippy::cast_precision_loss, reason = "the sixteenth digit is not visible on an axis")]
pub(crate) const fn ratio(part: u64, whole: u64) -> f64 {
    part as f64 / whole as f64
}
