//! Lines over time as SVG, drawn only from the given values.
//!
//! The canvas content is drawn in a box of fixed size and stretched to the page width. Strokes and text are
//! not stretched, so a chart is readable on both phones and large screens.

pub(crate) mod canvas;
pub(crate) mod curve;
mod axis;
pub(crate) mod annotations;
pub(crate) mod forecast;
#[allow(clippy::module_inception, reason = "the `Chart` itself, next to its parts")]
pub(crate) mod chart;
pub(crate) mod bands;
pub(crate) mod spark;
