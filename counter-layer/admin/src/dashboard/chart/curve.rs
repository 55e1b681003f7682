//! Lines over time as paths.

use super::canvas::{Canvas, HEIGHT, count, fixed};

/// The state of one bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Point {
    /// Not known: neither a zero nor drawn.
    Unknown,
    /// The full count.
    Whole(u64),
    /// The count so far: the bucket has not ended, or its last hits are still on their way.
    Open(u64),
    /// A bucket that has not begun.
    Ahead,
}

/// A line by its name, with a point for each bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) name: String,
    pub(crate) points: Vec<Point>,
}

/// A line as paths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Curve {
    pub(crate) place: usize,
    pub(crate) name: String,
    pub(crate) area: String,
    pub(crate) whole: String,
    pub(crate) open: String,
    /// Points without a neighbour, and the last one.
    pub(crate) dots: String,
    /// The place of its letter: in hundredths of the width, and in pixels.
    pub(crate) end: Option<(String, String)>,
    pub(crate) letter: char,
}

impl Point {
    pub(crate) const fn count(self) -> Option<u64> {
        match self {
            Self::Unknown | Self::Ahead => None,
            Self::Whole(count) | Self::Open(count) => Some(count),
        }
    }
}

/// The letter of a line where there is no room for its name.
pub(crate) fn letter(place: usize) -> char {
    char::from(b"ABCDEFGHIJKLMNOPQRSTUVWXYZ"[place % 26])
}

impl Curve {
    /// Draws a line, the one of this place among all.
    pub(crate) fn of(canvas: &Canvas, place: usize, line: &Line) -> Self {
        let mut curve = Self {
            place,
            name: line.name.clone(),
            area: String::new(),
            whole: String::new(),
            open: String::new(),
            dots: String::new(),
            end: None,
            letter: letter(place),
        };
        let known = |place: usize| line.points.get(place).and_then(|point| point.count());
        let last = line.points.iter().rposition(|point| *point != Point::Ahead);
        let mut under = false;
        for (place, point) in line.points.iter().enumerate() {
            let Some(value) = point.count() else { continue };
            let at = format!("{} {}", fixed(canvas.middle(place)), fixed(canvas.y(value)));
            let (before, after) = (place.checked_sub(1).and_then(known), known(place + 1));
            match (point, before) {
                (Point::Open(_), Some(before)) => {
                    let from = format!("{} {}", fixed(canvas.middle(place - 1)), fixed(canvas.y(before)));
                    curve.open += &format!("M{from}L{at}");
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
            if after.is_none() && (before.is_none() || Some(place) == last) {
                curve.dots += &format!("M{at}h0");
            }
        }
        curve
    }
}

/// The distance that letters keep from one another, in pixels.
const APART: f64 = 14.0;

/// Puts the letter of each line at its last whole point, or a bit lower where another one stands.
pub(crate) fn place_letters(canvas: &Canvas, lines: &[Line], curves: &mut [Curve]) {
    let last = |line: &Line| {
        let whole = line.points.iter().rposition(|point| matches!(point, Point::Whole(_)));
        let place = whole.or_else(|| line.points.iter().rposition(|point| point.count().is_some()))?;
        // There is room for half a letter behind it.
        Some((canvas.percent(place).min(98.0), canvas.y(line.points[place].count()?)))
    };
    let mut ends: Vec<_> =
        lines.iter().zip(curves).filter_map(|(line, curve)| last(line).map(|(x, y)| (x, y, curve))).collect();
    ends.sort_by(|(_, one, _), (_, other, _)| one.total_cmp(other));
    let room = APART * count(ends.len().saturating_sub(1));
    let mut lowest = f64::MIN;
    for (place, (x, y, curve)) in ends.into_iter().enumerate() {
        // The last ones are not to be pushed out of the canvas.
        let limit = f64::from(HEIGHT) - room + APART * count(place);
        let y = y.max(lowest + APART).min(limit);
        lowest = y;
        curve.end = Some((fixed(x), fixed(y)));
    }
}
