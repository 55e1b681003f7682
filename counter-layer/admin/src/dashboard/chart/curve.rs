//! Lines over time as SVG paths.

use super::canvas::{Canvas, HEIGHT, count, fixed};
use crate::dashboard::format::numbers::Unit;

/// The state of a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Point {
    /// Unknown, and thus not drawn instead of being treated as 0.
    Unknown,
    /// The complete count.
    Whole(u64),
    /// The count so far: either the bucket has not ended, or some hits still need to be flushed.
    Open(u64),
    /// A future bucket.
    Future,
}

/// A named line with a point for each bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    /// The name in files.
    pub(crate) name: String,
    pub(crate) title: String,
    pub(crate) points: Vec<Point>,
    /// A bucket that is not over, and the count it is expected to reach.
    pub(crate) expected: Option<(usize, u64)>,
    /// The unit of the points, which is the same for all lines of a chart.
    pub(crate) unit: Unit,
    /// True for a compared period.
    pub(crate) is_compared: bool,
}

/// A line as SVG paths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Curve {
    pub(crate) place: usize,
    pub(crate) name: String,
    pub(crate) is_compared: bool,
    pub(crate) area: String,
    pub(crate) whole: String,
    pub(crate) open: String,
    /// Points that are not part of a line, and the final point.
    pub(crate) dots: String,
    /// The expected value of a bucket that is not over.
    pub(crate) expected: String,
    /// The position of the letter: in percent of the width, and in pixels.
    pub(crate) end: Option<(String, String)>,
    pub(crate) letter: char,
}

impl Point {
    pub(crate) const fn count(self) -> Option<u64> {
        match self {
            Self::Unknown | Self::Future => None,
            Self::Whole(count) | Self::Open(count) => Some(count),
        }
    }
}

/// Returns the letter that identifies a line if the name does not fit.
pub(crate) fn letter(place: usize) -> char {
    char::from(b"ABCDEFGHIJKLMNOPQRSTUVWXYZ"[place % 26])
}

impl Curve {
    /// Draws the line with this index.
    pub(crate) fn of(canvas: &Canvas, place: usize, line: &Line) -> Self {
        let mut curve = Self {
            place,
            name: line.title.clone(),
            is_compared: line.is_compared,
            area: String::new(),
            whole: String::new(),
            open: String::new(),
            dots: String::new(),
            expected: String::new(),
            end: None,
            letter: letter(place),
        };
        let known = |place: usize| line.points.get(place).and_then(|point| point.count());
        let last = line.points.iter().rposition(|point| *point != Point::Future);
        let expected_at = |place: usize| line.expected.filter(|(expected, _)| *expected == place);
        // A line to a lower count so far would look like a drop.
        let is_drop = |place: usize, before: u64| {
            let is_current = Some(place) == last && matches!(line.points[place], Point::Open(_));
            is_current
                && line.unit == Unit::Count
                && known(place) < Some(before)
                && expected_at(place).is_none()
        };
        let joins = |place: usize| {
            let before = place.checked_sub(1).and_then(known);
            known(place).is_some() && before.is_some_and(|before| !is_drop(place, before))
        };
        let mut under = false;
        for (place, point) in line.points.iter().enumerate() {
            let Some(value) = point.count() else { continue };
            let at = |value| format!("{} {}", fixed(canvas.middle(place)), fixed(canvas.y(value)));
            let (expected, at) = (expected_at(place).map(|(_, value)| at(value)), at(value));
            if let Some(expected) = &expected {
                curve.expected = format!("M{expected}h0");
            }
            let before = place.checked_sub(1).and_then(known);
            match (point, before) {
                (Point::Open(_), Some(_)) if !joins(place) => {}
                (Point::Open(_), Some(before)) => {
                    let from = format!("{} {}", fixed(canvas.middle(place - 1)), fixed(canvas.y(before)));
                    let to = expected.as_ref().unwrap_or(&at);
                    curve.open += &format!("M{from}L{to}");
                }
                (_, Some(_)) => {
                    curve.whole += &format!("L{at}");
                    curve.area += &format!("L{at}");
                }
                (_, None) => {
                    curve.whole += &format!("M{at}");
                    curve.area += &format!("M{} {HEIGHT}L{at}", fixed(canvas.middle(place)));
                    under = true;
                }
            }
            let next_is_whole = matches!(line.points.get(place + 1), Some(Point::Whole(_)));
            if under && !next_is_whole {
                curve.area += &format!("L{} {HEIGHT}Z", fixed(canvas.middle(place)));
                under = false;
            }
            if Some(place) == last || !(joins(place) || joins(place + 1)) {
                curve.dots += &format!("M{at}h0");
            }
        }
        curve
    }
}

/// The minimum distance between letters in pixels.
const LETTER_DISTANCE: f64 = 14.0;

/// Places letters at the final complete point of the lines, or slightly lower to avoid overlaps.
pub(crate) fn place_letters(canvas: &Canvas, lines: &[Line], curves: &mut [Curve]) {
    let last = |line: &Line| {
        let whole = line.points.iter().rposition(|point| matches!(point, Point::Whole(_)));
        let place = whole.or_else(|| line.points.iter().rposition(|point| point.count().is_some()))?;
        // We need some more space for half a letter.
        Some((canvas.percent(place).min(98.0), canvas.y(line.points[place].count()?)))
    };
    let mut ends: Vec<_> =
        lines.iter().zip(curves).filter_map(|(line, curve)| last(line).map(|(x, y)| (x, y, curve))).collect();
    ends.sort_by(|(_, one, _), (_, other, _)| one.total_cmp(other));
    let needed_height = LETTER_DISTANCE * count(ends.len().saturating_sub(1));
    let mut lowest = f64::MIN;
    for (place, (x, y, curve)) in ends.into_iter().enumerate() {
        // Letters should never be pushed out of the canvas.
        let limit = f64::from(HEIGHT) - needed_height + LETTER_DISTANCE * count(place);
        let y = y.max(lowest + LETTER_DISTANCE).min(limit);
        lowest = y;
        curve.end = Some((fixed(x), fixed(y)));
    }
}
