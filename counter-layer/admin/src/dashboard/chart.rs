//! Lines over time as SVG, drawn from values alone.
//!
//! The content of the canvas is drawn in a box of fixed size that stretches with the page. Strokes and text do not
//! stretch, so that a chart is as readable on a telephone as on a large screen.

pub(crate) mod canvas;
pub(crate) mod curve;
mod axis;
pub(crate) mod annotations;
pub(crate) mod forecast;
#[allow(clippy::module_inception, reason = "the `Chart` itself, next to its parts")]
pub(crate) mod chart;
pub(crate) mod bands;
pub(crate) mod spark;
