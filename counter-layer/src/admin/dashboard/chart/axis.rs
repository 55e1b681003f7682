//! The axes of a chart: round marks, and few of them.

use counter_core::{Precision, Timestamp};

use super::super::format::{self, Style};
use super::{Frame, fixed};

/// A mark of the axis of counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tick {
    pub(crate) y: String,
    pub(crate) text: String,
}

/// A mark of the axis of time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TimeTick {
    pub(crate) percent: String,
    /// At which of its sides it stands there, so that the edge does not cut it off.
    pub(crate) anchor: &'static str,
    pub(crate) unix: u64,
    pub(crate) style: &'static str,
    pub(crate) text: String,
    /// One of those that a narrow page does without.
    pub(crate) minor: bool,
}

/// The end of an axis that begins with 0 and holds `most`, and the distance of its marks: 1, 2 or 5
/// times a power of ten, five of them at most.
pub(super) fn scale(most: u64) -> (u64, u64) {
    let most = most.max(4);
    let mut power = 1_u64;
    loop {
        for factor in [1, 2, 5] {
            let step = power.saturating_mul(factor);
            if most.div_ceil(step) <= 4 {
                return (most.div_ceil(step).saturating_mul(step), step);
            }
        }
        power = power.saturating_mul(10);
    }
}

/// Marks from 0 to the end, so far apart.
pub(super) fn counts(step: u64, frame: &Frame) -> Vec<Tick> {
    let mark = |tick| Tick { y: fixed(frame.y(tick * step)), text: format::short(tick * step) };
    (0..=frame.top / step).map(mark).collect()
}

/// Marks at round instants, eight at most.
pub(super) fn times(starts: &[Timestamp], precision: Precision, frame: &Frame) -> Vec<TimeTick> {
    const STEPS: [u64; 22] = [
        1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400,
        172_800, 604_800, 1_209_600, 2_592_000,
    ];
    let width = u64::from(precision.as_seconds());
    let whole = width.saturating_mul(starts.len() as u64);
    let step = STEPS.into_iter().find(|step| *step >= width && whole / step <= 7);
    let step = step.unwrap_or_else(|| (whole / 7).max(width));
    let style = match step {
        0..60 => Style::Second,
        60..43_200 => Style::Minute,
        43_200..86_400 => Style::Full,
        _ if width < 86_400 => Style::Day,
        _ => Style::of(precision),
    };
    let at_mark = |start: &Timestamp| start.as_unix() % step < width;
    let marks = starts.iter().enumerate().filter(|(_, start)| at_mark(start));
    marks
        .enumerate()
        .map(|(mark, (place, start))| {
            let midnight = start.as_unix() % 86_400 < width && style == Style::Minute;
            let style = if midnight { Style::Day } else { style };
            TimeTick {
                percent: fixed(frame.percent(place)),
                anchor: match frame.percent(place) {
                    ..4.0 => "start",
                    96.0.. => "end",
                    _ => "middle",
                },
                unix: start.as_unix(),
                style: style.name(),
                text: format::instant(*start, style),
                minor: mark % 2 == 1,
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::{draw, tests::minute, tests::starts};
    use super::*;

    #[test]
    fn an_axis_ends_at_a_round_number_that_holds_the_most() {
        for (most, top, step) in
            [(0, 4, 1), (1, 4, 1), (4, 4, 1), (5, 6, 2), (9, 10, 5), (11, 15, 5), (36, 40, 10), (99, 100, 50)]
        {
            assert_eq!(scale(most), (top, step), "{most}");
        }
        let (top, step) = scale(u64::MAX);
        assert!(top == u64::MAX && step > 0);
    }

    #[test]
    fn there_are_few_marks_of_time_and_they_are_round() {
        for buckets in [1, 2, 10, 60, 120, 1000] {
            let marks = draw(&starts(buckets), minute(), &[], None).times;
            assert!(marks.len() <= 8, "{buckets}: {}", marks.len());
            assert!(marks.iter().all(|mark| mark.unix % 60 == 0));
        }
    }
}
