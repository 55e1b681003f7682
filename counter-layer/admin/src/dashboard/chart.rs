//! Lines over time as SVG, drawn from values alone.
//!
//! What is inside the frame is drawn in a box of [`WIDTH`] by [`HEIGHT`] that stretches with the page;
//! strokes and text do not, so that a chart reads the same on a telephone as on a wall.

mod axis;
mod forecast;
mod annotations;
mod bands;

use counter_core::{Precision, Timestamp};

pub(crate) use annotations::AnnotationKind;
pub(crate) use annotations::{Annotated, Annotation};
pub(crate) use axis::{Tick, TimeTick};
pub(crate) use bands::{Bands, QUANTILES, bands};
pub(crate) use forecast::ForecastPoint;
pub(crate) use forecast::{ForecastCurve, ForecastView};

use super::format::{self, Style};
use crate::sparkline::Sparkline;
use crate::zone::Zone;

/// The width of the stretched box.
pub(crate) const WIDTH: u32 = 1000;
/// The height of the stretched box, which is also that in pixels.
pub(crate) const HEIGHT: u32 = 220;

/// Points that have words of their own at most: they weigh more than the lines.
const TITLES: usize = 120;

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

/// A chart as a template draws it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Chart {
    pub(crate) curves: Vec<Curve>,
    pub(crate) forecast: Option<ForecastCurve>,
    pub(crate) counts: Vec<Tick>,
    pub(crate) times: Vec<TimeTick>,
    pub(crate) columns: Vec<Column>,
    /// The format of the instants of the columns.
    pub(crate) style: &'static str,
    /// The columns are so few that each has a title, for browsers without a script.
    pub(crate) has_titles: bool,
    /// The place of the first bucket that is not whole, if there is one.
    pub(crate) open: Option<String>,
    pub(crate) annotated: Annotated,
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

/// A bucket, with what each line has in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Column {
    pub(crate) x: String,
    pub(crate) width: String,
    pub(crate) iso: String,
    pub(crate) text: String,
    pub(crate) cells: Vec<Cell>,
    /// The events in it.
    pub(crate) annotations: String,
}

/// A point in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cell {
    pub(crate) name: String,
    pub(crate) text: String,
}

/// Draws lines over the buckets that start here, and what is expected of the first one; every line has a
/// point for each of them. Buckets of another year than now's are told with theirs.
pub(crate) fn draw(
    starts: &[Timestamp],
    precision: Precision,
    lines: &[Line],
    forecast: Option<&ForecastView>,
    zone: &Zone,
    now: Timestamp,
) -> Chart {
    let most = lines.iter().flat_map(|line| &line.points).filter_map(|point| point.count()).max();
    let most = most.unwrap_or_default();
    let (top, step) = axis::scale(forecast.map_or(most, |forecast| forecast.most(most)));
    let frame = Frame { buckets: starts.len().max(1), top };
    let local: Vec<_> = starts.iter().map(|start| zone.local(*start)).collect();
    let style = style(&local, precision, zone.local(now));
    let columns: Vec<_> = starts
        .iter()
        .zip(&local)
        .enumerate()
        .map(|(place, (start, local))| Column {
            x: fixed(frame.left(place)),
            width: fixed(f64::from(WIDTH) / count(frame.buckets)),
            iso: format::iso(*start),
            text: format::instant(*local, style),
            cells: cells(lines, forecast, place, *start),
            annotations: String::new(),
        })
        .collect();
    let mut curves: Vec<_> = lines.iter().enumerate().map(|(place, line)| frame.curve(place, line)).collect();
    place_letters(&frame, lines, &mut curves);
    Chart {
        curves,
        forecast: forecast.map(|forecast| forecast.draw(&frame, starts, lines)),
        counts: axis::counts(step, &frame),
        times: axis::times(starts, &local, precision, &frame),
        has_titles: columns.len() * lines.len() <= TITLES,
        open: first_open(lines).map(|place| fixed(frame.left(place))),
        columns,
        style: style.name(),
        annotated: Annotated::default(),
    }
}

impl Chart {
    /// Adds what happened, ascending, to a chart of the buckets that start here.
    pub(crate) fn annotate(
        &mut self,
        annotations: &[Annotation],
        starts: &[Timestamp],
        zone: &Zone,
        now: Timestamp,
    ) {
        self.annotated = annotations::annotate(annotations, starts, zone, now);
        for mark in &self.annotated.marks {
            self.columns[mark.place].annotations = mark.texts.join("; ");
        }
    }
}

/// The format of the instants of a chart that begins with the first of these, on the clocks of its zone.
fn style(local: &[Timestamp], precision: Precision, now: Timestamp) -> Style {
    let is_of_this_year = local.first().is_none_or(|first| format::year(*first) == format::year(now));
    let style = Style::of(precision);
    if is_of_this_year { style } else { style.of_year() }
}

/// A small line without axes, 96 wide and 24 high, from the first count on: what was before may be
/// unknown as well as zero. More than 60 counts are added up by twos, threes and so on.
pub(crate) fn spark(counts: &[u64]) -> String {
    let together = counts.len().div_ceil(60).max(1);
    let sum = |counts: &[u64]| counts.iter().copied().fold(0, u64::saturating_add);
    // Those that are left over are the oldest.
    let counts: Vec<_> = counts.rchunks_exact(together).rev().map(sum).collect();
    let line = Sparkline { width: 96.0, height: 24.0, margin: 2.0 };
    let first = counts.iter().position(|value| *value > 0).unwrap_or(counts.len());
    let points = line.points(counts.into_iter().map(Some)).skip(first);
    let points: Vec<_> = points.map(|(x, y)| format!("{} {}", fixed(x), fixed(y))).collect();
    if points.is_empty() { String::new() } else { format!("M{}", points.join("L")) }
}

impl Point {
    pub(crate) const fn count(self) -> Option<u64> {
        match self {
            Self::Unknown | Self::Ahead => None,
            Self::Whole(count) | Self::Open(count) => Some(count),
        }
    }
}

fn first_open(lines: &[Line]) -> Option<usize> {
    let is_open = |point: &Point| matches!(point, Point::Open(_) | Point::Ahead);
    lines.iter().filter_map(|line| line.points.iter().position(is_open)).min()
}

/// The letter of a line where there is no room for its name.
pub(crate) fn letter(place: usize) -> char {
    char::from(b"ABCDEFGHIJKLMNOPQRSTUVWXYZ"[place % 26])
}

fn cells(lines: &[Line], forecast: Option<&ForecastView>, place: usize, start: Timestamp) -> Vec<Cell> {
    let mut cells: Vec<_> = lines.iter().map(|line| Cell::of(line, place)).collect();
    if let Some(forecast) = forecast {
        if let Some(first) = cells.first_mut().filter(|_| forecast.is_unusual(start)) {
            first.text += ", unusual";
        }
        cells.push(Cell { name: forecast.name(), text: forecast.words_of(start) });
    }
    cells
}

impl Cell {
    fn of(line: &Line, place: usize) -> Self {
        let text = match line.points.get(place) {
            None | Some(Point::Unknown) => "unknown".to_owned(),
            Some(Point::Whole(count)) => format::grouped(*count),
            Some(Point::Ahead) => "still to come".to_owned(),
            Some(Point::Open(count)) => format!("{} so far", format::grouped(*count)),
        };
        Self { name: line.name.clone(), text }
    }
}

/// The measures of a chart.
struct Frame {
    buckets: usize,
    top: u64,
}

impl Frame {
    fn left(&self, place: usize) -> f64 {
        f64::from(WIDTH) * count(place) / count(self.buckets)
    }

    fn middle(&self, place: usize) -> f64 {
        self.left(place) + f64::from(WIDTH) / count(self.buckets) / 2.0
    }

    /// Its middle in hundredths of the width.
    fn percent(&self, place: usize) -> f64 {
        self.middle(place) * 100.0 / f64::from(WIDTH)
    }

    fn y(&self, value: u64) -> f64 {
        f64::from(HEIGHT) * (1.0 - ratio(value, self.top))
    }

    fn curve(&self, place: usize, line: &Line) -> Curve {
        let mut curve = Curve {
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
            let at = format!("{} {}", fixed(self.middle(place)), fixed(self.y(value)));
            let (before, after) = (place.checked_sub(1).and_then(known), known(place + 1));
            match (point, before) {
                (Point::Open(_), Some(before)) => {
                    let from = format!("{} {}", fixed(self.middle(place - 1)), fixed(self.y(before)));
                    curve.open += &format!("M{from}L{at}");
                }
                (_, Some(_)) => {
                    curve.whole += &format!("L{at}");
                    curve.area += &format!("L{at}");
                }
                (_, None) => {
                    curve.whole += &format!("M{at}");
                    curve.area += &format!("M{} {HEIGHT}L{at}", fixed(self.middle(place)));
                    under = true;
                }
            }
            let next_is_whole = matches!(line.points.get(place + 1), Some(Point::Whole(_)));
            if under && !next_is_whole {
                curve.area += &format!("L{} {HEIGHT}Z", fixed(self.middle(place)));
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
fn place_letters(frame: &Frame, lines: &[Line], curves: &mut [Curve]) {
    let last = |line: &Line| {
        let whole = line.points.iter().rposition(|point| matches!(point, Point::Whole(_)));
        let place = whole.or_else(|| line.points.iter().rposition(|point| point.count().is_some()))?;
        // There is room for half a letter behind it.
        Some((frame.percent(place).min(98.0), frame.y(line.points[place].count()?)))
    };
    let mut ends: Vec<_> =
        lines.iter().zip(curves).filter_map(|(line, curve)| last(line).map(|(x, y)| (x, y, curve))).collect();
    ends.sort_by(|(_, one, _), (_, other, _)| one.total_cmp(other));
    let room = APART * count(ends.len().saturating_sub(1));
    let mut lowest = f64::MIN;
    for (place, (x, y, curve)) in ends.into_iter().enumerate() {
        // The last ones are not to be pushed out of the frame.
        let limit = f64::from(HEIGHT) - room + APART * count(place);
        let y = y.max(lowest + APART).min(limit);
        lowest = y;
        curve.end = Some((fixed(x), fixed(y)));
    }
}

/// A coordinate with at most one decimal.
fn fixed(value: f64) -> String {
    let text = format!("{value:.1}");
    text.strip_suffix(".0").map_or_else(|| text.clone(), str::to_owned)
}

#[expect(clippy::cast_precision_loss, reason = "a place among some hundred buckets")]
const fn count(places: usize) -> f64 {
    places as f64
}

/// The quotient of two counts, between 0 and 1.
#[expect(clippy::cast_precision_loss, reason = "nobody sees the sixteenth digit on an axis")]
const fn ratio(part: u64, whole: u64) -> f64 {
    part as f64 / whole as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn minute() -> Precision {
        Precision::try_from(60).expect("not 0")
    }

    pub(super) fn starts(buckets: u64) -> Vec<Timestamp> {
        (0..buckets).map(|place| Timestamp::from_unix(1_795_228_740 + 60 * place)).collect()
    }

    pub(super) fn now() -> Timestamp {
        Timestamp::from_unix(1_795_228_740)
    }

    fn curve(points: &[Point]) -> Curve {
        let line = Line { name: "hits".to_owned(), points: points.to_vec() };
        draw(&starts(points.len() as u64), minute(), &[line], None, &Zone::default(), now()).curves.remove(0)
    }

    #[test]
    fn what_is_unknown_interrupts_a_line_and_zero_does_not() {
        let points = [Point::Whole(4), Point::Whole(0), Point::Unknown, Point::Whole(2), Point::Whole(2)];
        let curve = curve(&points);
        assert_eq!(curve.whole, "M100 0L300 220M700 110L900 110");
        assert_eq!(curve.area, "M100 220L100 0L300 220L300 220ZM700 220L700 110L900 110L900 220Z");
        assert_eq!(curve.open, "");
    }

    #[test]
    fn what_is_not_whole_yet_is_a_path_of_its_own() {
        let curve = curve(&[Point::Whole(4), Point::Open(2)]);
        assert_eq!((curve.whole.as_str(), curve.open.as_str()), ("M250 0", "M250 0L750 110"));
        assert_eq!(curve.dots, "M750 110h0");
    }

    #[test]
    fn a_point_without_neighbours_is_a_dot() {
        let curve = curve(&[Point::Unknown, Point::Whole(4), Point::Unknown]);
        assert_eq!(curve.dots, "M500 0h0");
    }

    #[test]
    fn nothing_at_all_is_a_chart_too() {
        let chart = draw(&[], minute(), &[], None, &Zone::default(), now());
        assert_eq!((chart.columns.len(), chart.times.len(), chart.counts.len()), (0, 0, 5));
        assert_eq!(spark(&[]), "");
        assert_eq!(spark(&[0]), "");
        assert_eq!(spark(&[0, 2, 1]), "M48 2L96 12");
        assert_eq!(spark(&[1; 121]).matches(['M', 'L']).count(), 40);
        assert_eq!(curve(&[]).end, None);
    }

    #[test]
    fn a_column_says_what_is_in_it() {
        let line = |name: &str, points: &[Point]| Line { name: name.to_owned(), points: points.to_vec() };
        let lines = [
            line("hits", &[Point::Whole(1200), Point::Open(3)]),
            line("/", &[Point::Unknown, Point::Unknown]),
        ];
        let chart = draw(&starts(2), minute(), &lines, None, &Zone::default(), now());
        let texts: Vec<_> = chart.columns.iter().flat_map(|column| &column.cells).map(|c| &*c.text).collect();
        assert_eq!(texts, ["1,200", "unknown", "3 so far", "unknown"]);
        assert_eq!(chart.columns[0].text, "02:39");
        assert_eq!(chart.open.as_deref(), Some("500"));
    }
}
