//! What is expected of a line, and what of it was out of the ordinary.

use super::super::format;
use super::{Frame, HEIGHT, Line, Point, fixed, letter, ratio};

/// What is known of what comes.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Outlook {
    /// The name of the first line, of which all of this is.
    pub(crate) of: String,
    /// The place of the first bucket that is expected.
    pub(crate) first: usize,
    /// From there on, one for each bucket.
    pub(crate) points: Vec<Expected>,
    /// The places of the buckets that were out of the ordinary.
    pub(crate) unusual: Vec<usize>,
}

/// What is expected of one bucket.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Expected {
    pub(crate) count: f64,
    pub(crate) lower: u64,
    pub(crate) upper: u64,
}

/// The same, as a template draws it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Prospect {
    pub(crate) name: String,
    pub(crate) letter: char,
    pub(crate) band: String,
    pub(crate) line: String,
    pub(crate) marks: Vec<Mark>,
}

/// Where something stands out: in hundredths of the width, and in pixels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(crate) x: String,
    pub(crate) y: String,
}

impl Outlook {
    /// The count that the axis has to hold beside `most`. A band may be so wide that nothing else could be
    /// seen: then it is cut off.
    pub(super) fn most(&self, most: u64) -> u64 {
        let largest = |of: fn(&Expected) -> u64| self.points.iter().map(of).max().unwrap_or_default();
        let seen = most.max(largest(|point| point.lower));
        largest(|point| point.upper).min(seen.saturating_mul(2)).max(seen)
    }

    pub(super) fn draw(&self, frame: &Frame, lines: &[Line]) -> Prospect {
        let of = |place: usize| lines.first().and_then(|line| line.points.get(place).copied());
        // It goes on from what is known.
        let from = self.first.checked_sub(1).and_then(|place| match of(place)? {
            Point::Whole(known) => {
                Some((place, Expected { count: ratio(known, 1), lower: known, upper: known }))
            }
            _ => None,
        });
        let points: Vec<_> =
            from.into_iter().chain((self.first..).zip(self.points.iter().copied())).collect();
        let at = |place: usize, value: f64| {
            format!("{} {}", fixed(frame.middle(place)), fixed(frame.height(value)))
        };
        let path = |begin: &str, all: Vec<String>| {
            if all.is_empty() { String::new() } else { format!("{begin}{}", all.join("L")) }
        };
        let upper = points.iter().map(|(place, point)| at(*place, ratio(point.upper, 1)));
        let lower = points.iter().rev().map(|(place, point)| at(*place, ratio(point.lower, 1)));
        let mark = |place: &usize| {
            Some(Mark { x: fixed(frame.percent(*place)), y: fixed(frame.y(of(*place)?.count()?)) })
        };
        Prospect {
            name: format!("expected of {}", self.of),
            letter: letter(lines.len()),
            band: path("M", upper.chain(lower).collect()),
            line: path("M", points.iter().map(|(place, point)| at(*place, point.count)).collect()),
            marks: self.unusual.iter().filter_map(mark).collect(),
        }
    }

    /// What is expected of a bucket, in words; nothing of those that are known.
    pub(super) fn words(&self, place: usize) -> String {
        let point = place.checked_sub(self.first).and_then(|place| self.points.get(place));
        point.map_or_else(String::new, |point| {
            let (lower, upper) = (format::grouped(point.lower), format::grouped(point.upper));
            format!("{} ({lower} to {upper})", format::rounded(point.count))
        })
    }

    pub(super) fn is_unusual(&self, place: usize) -> bool {
        self.unusual.contains(&place)
    }
}

impl Frame {
    /// Where a value stands, at the upper edge if it is beyond that.
    fn height(&self, value: f64) -> f64 {
        let part = value / ratio(self.top, 1);
        f64::from(HEIGHT) * (1.0 - part.clamp(0.0, 1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::super::{draw, tests::minute, tests::starts};
    use super::*;

    fn outlook(points: &[(f64, u64, u64)]) -> Outlook {
        let points = points.iter().map(|&(count, lower, upper)| Expected { count, lower, upper }).collect();
        Outlook { of: "hits".to_owned(), first: 2, points, unusual: vec![1] }
    }

    fn drawn(outlook: &Outlook) -> super::super::Chart {
        let points = vec![Point::Whole(4), Point::Whole(2), Point::Open(1), Point::Ahead];
        let line = Line { name: "hits".to_owned(), points };
        draw(&starts(4), minute(), &[line], Some(outlook))
    }

    #[test]
    fn what_is_expected_goes_on_from_what_is_known() {
        let chart = drawn(&outlook(&[(2.0, 1, 3), (3.0, 2, 4)]));
        let prospect = chart.prospect.expect("it is drawn");
        assert_eq!(prospect.line, "M375 110L625 110L875 55");
        assert_eq!(prospect.band, "M375 110L625 55L875 0L875 110L625 165L375 110");
        assert_eq!(prospect.marks, [Mark { x: "37.5".to_owned(), y: "110".to_owned() }]);
        assert_eq!((prospect.name.as_str(), prospect.letter), ("expected of hits", 'B'));
    }

    #[test]
    fn a_column_says_what_is_expected_and_what_was_unusual() {
        let chart = drawn(&outlook(&[(2.04, 1, 3), (1234.5, 1000, 2000)]));
        let words = |column: &super::super::Column| [0, 1].map(|cell| column.cells[cell].text.clone());
        let texts: Vec<_> = chart.columns.iter().map(words).collect();
        assert_eq!(
            texts,
            [
                ["4", ""],
                ["2, unusual", ""],
                ["1 so far", "2.0 (1 to 3)"],
                ["still to come", "1,234 (1,000 to 2,000)"]
            ]
        );
    }

    #[test]
    fn an_axis_holds_what_is_expected_and_not_every_band() {
        let most = |points: &[_]| outlook(points).most(100);
        assert_eq!(most(&[]), 100);
        assert_eq!(most(&[(90.0, 50, 130)]), 130);
        assert_eq!(most(&[(90.0, 0, 100_000)]), 200);
        assert_eq!(most(&[(500.0, 400, 700)]), 700);
    }
}
