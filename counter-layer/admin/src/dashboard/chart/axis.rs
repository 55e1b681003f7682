//! The axes of a chart, with a small number of round ticks.

use counter_core::{Precision, Timestamp};

use super::canvas::{Canvas, fixed};
use crate::dashboard::format::instants::{self, Style};
use crate::dashboard::format::numbers::Unit;

/// A tick on the count axis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tick {
    pub(crate) y: String,
    pub(crate) text: String,
}

/// A tick on the time axis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TimeTick {
    pub(crate) percent: String,
    pub(crate) anchor: &'static str,
    /// The instant, if the script should format it in the time zone of the viewer. Months and years always
    /// refer to the site.
    pub(crate) unix: Option<u64>,
    pub(crate) style: &'static str,
    pub(crate) text: String,
    /// True to hide the tick on narrow pages.
    pub(crate) minor: bool,
}

/// Returns the end of an axis from 0 to at least `max`, and the tick distance: 1, 2 or 5 times a power of
/// ten, with at most five ticks.
pub(crate) fn scale(max: u64) -> (u64, u64) {
    let max = max.max(4);
    let mut power = 1_u64;
    loop {
        for factor in [1, 2, 5] {
            let step = power.saturating_mul(factor);
            if max.div_ceil(step) <= 4 {
                return (max.div_ceil(step).saturating_mul(step), step);
            }
        }
        power = power.saturating_mul(10);
    }
}

/// Returns the ticks from 0 to the end, with this distance.
pub(crate) fn counts(step: u64, unit: Unit, canvas: &Canvas) -> Vec<Tick> {
    let mark = |tick| Tick { y: fixed(canvas.y(tick * step)), text: unit.tick(tick * step) };
    (0..=canvas.top / step).map(mark).collect()
}

/// Returns at most eight ticks at round local times, or at the start of months and years. `local` contains
/// the starts in local time.
pub(crate) fn times(
    starts: &[Timestamp],
    local: &[Timestamp],
    precision: Precision,
    canvas: &Canvas,
) -> Vec<TimeTick> {
    const STEPS: [u64; 21] = [
        1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400,
        172_800, 604_800, 1_209_600,
    ];
    let width = u64::from(precision.as_seconds());
    let whole = width.saturating_mul(starts.len() as u64);
    let Some(step) = STEPS.into_iter().find(|step| *step >= width && whole / step <= 7) else {
        return months(local, width, canvas);
    };
    let style = match step {
        0..60 => Style::Second,
        60..43_200 => Style::Minute,
        43_200..86_400 => Style::Full,
        _ if width < 86_400 => Style::Day,
        _ => Style::of(precision),
    };
    let at_mark = |local: &Timestamp| local.as_unix() % step < width;
    let marks = starts.iter().zip(local).enumerate().filter(|(_, (_, local))| at_mark(local));
    marks
        .enumerate()
        .map(|(mark, (place, (start, local)))| {
            let midnight = local.as_unix() % 86_400 < width && style == Style::Minute;
            let style = if midnight { Style::Day } else { style };
            let text = instants::instant(*local, style);
            TimeTick { unix: Some(start.as_unix()), style: style.name(), ..tick(canvas, place, mark, text) }
        })
        .collect()
}

/// Returns ticks at the start of months or years. January is labeled with the year.
fn months(starts: &[Timestamp], width: u64, canvas: &Canvas) -> Vec<TimeTick> {
    const MONTHS: [u64; 9] = [1, 2, 3, 6, 12, 24, 60, 120, 1200];
    // We use the middle of a day because it is always in the right month, even if days do not start at
    // midnight UTC.
    let day = width.min(86_400);
    let month = |start: Timestamp| instants::month(start.plus(day / 2));
    let marks_of = |step: u64| -> Vec<_> {
        let is_first = |place: usize, start: Timestamp| {
            let previous = place.checked_sub(1).map_or(start.minus(day), |before| starts[before]);
            month(start) / step != month(previous) / step
        };
        let marks = starts.iter().enumerate().filter(|(place, start)| is_first(*place, **start));
        // If a bucket is longer than a step, then it always starts another step.
        marks.map(|(place, start)| (place, month(*start) / step * step)).collect()
    };
    let marks = MONTHS.into_iter().map(marks_of).find(|marks| marks.len() <= 8);
    let tick = |(mark, (place, month))| tick(canvas, place, mark, instants::month_name(month));
    marks.unwrap_or_default().into_iter().enumerate().map(tick).collect()
}

/// Creates a tick with a label that is always the same for all viewers.
fn tick(canvas: &Canvas, place: usize, mark: usize, text: String) -> TimeTick {
    TimeTick {
        percent: fixed(canvas.percent(place)),
        anchor: canvas.anchor(place),
        unix: None,
        style: "",
        text,
        minor: mark % 2 == 1,
    }
}

#[cfg(test)]
mod tests {
    use super::super::chart::draw;
    use super::super::chart::tests::{minute, now, starts};
    use super::*;
    use crate::zone::Zone;

    #[test]
    fn the_axis_ends_at_a_round_number_above_the_maximum() {
        for (max, top, step) in
            [(0, 4, 1), (1, 4, 1), (4, 4, 1), (5, 6, 2), (9, 10, 5), (11, 15, 5), (36, 40, 10), (99, 100, 50)]
        {
            assert_eq!(scale(max), (top, step), "{max}");
        }
        let (top, step) = scale(u64::MAX);
        assert!(top == u64::MAX && step > 0);
    }

    #[test]
    fn time_ticks_are_few_and_round() {
        for buckets in [1, 2, 10, 60, 120, 1000] {
            let marks = draw(&starts(buckets), minute(), &[], None, &Zone::default(), now()).times;
            assert!(marks.len() <= 8, "{buckets}: {}", marks.len());
            assert!(marks.iter().all(|mark| mark.unix.is_some_and(|unix| unix % 60 == 0)));
        }
    }

    fn days(offset: i32, first: u64, days: u64) -> Vec<(String, String)> {
        let day = Precision::DAY.utc_offset(offset);
        let first = day.bucket(Timestamp::from_unix(first)).start;
        let starts: Vec<_> = (0..days).map(|place| first.plus(86_400 * place)).collect();
        let marks = draw(&starts, day, &[], None, &Zone::default(), now()).times;
        let place = |percent: &str| {
            let hundredths: f64 = percent.parse().expect("a number");
            format!("{:.0}", hundredths / 100.0 * fraction(days) - 0.5)
        };
        marks.iter().map(|mark| (mark.text.clone(), place(&mark.percent))).collect()
    }

    fn fraction(days: u64) -> f64 {
        f64::from(u32::try_from(days).expect("some hundred"))
    }

    #[test]
    fn months_are_labeled_at_the_local_start() {
        // 2025-11-23 at midnight UTC, which is still the previous evening in the west.
        let first = 1_763_856_000;
        for offset in [0, 3600, 19_800, -18_000, 43_200] {
            let marks = days(offset, first + 43_200, 365);
            let texts: Vec<_> = marks.iter().map(|(text, _)| text.as_str()).collect();
            assert_eq!(texts, ["2026", "Mar", "May", "Jul", "Sep", "Nov"], "{offset}");
            assert!(["38", "39", "40"].contains(&marks[0].1.as_str()), "{offset}: {marks:?}");
        }
        assert_eq!(days(0, first, 365)[0], ("2026".to_owned(), "39".to_owned()));
        assert_eq!(days(3600, first + 43_200, 365)[0], ("2026".to_owned(), "39".to_owned()));
    }

    #[test]
    fn charts_by_month_are_labeled_by_month() {
        // Twelve months up to November 2026. In the store, days start at 4:00 UTC.
        for offset in [0, 14_400] {
            let starts = [
                1_764_547_200,
                1_767_225_600,
                1_769_904_000,
                1_772_323_200,
                1_775_001_600,
                1_777_593_600,
                1_780_272_000,
                1_782_864_000,
                1_785_542_400,
                1_788_220_800,
                1_790_812_800,
                1_793_491_200,
            ]
            .map(|start| Timestamp::from_unix(start + offset));
            let month = Precision::try_from(2_592_000).expect("not 0").starting_at(starts[0]);
            let marks = draw(&starts, month, &[], None, &Zone::default(), now()).times;
            let texts: Vec<_> = marks.iter().map(|mark| mark.text.as_str()).collect();
            assert_eq!(texts, ["2026", "Mar", "May", "Jul", "Sep", "Nov"], "{offset}");
        }
    }

    #[test]
    fn long_ranges_have_few_labels() {
        let texts =
            |days_of: Vec<(String, String)>| days_of.into_iter().map(|(text, _)| text).collect::<Vec<_>>();
        let first = 1_763_856_000;
        assert_eq!(texts(days(0, first, 120)), ["Dec", "2026", "Feb", "Mar"]);
        assert_eq!(texts(days(0, first, 750)), ["2026", "Apr", "Jul", "Oct", "2027", "Apr", "Jul", "Oct"]);
        assert_eq!(texts(days(0, first, 3660)), ["2026", "2028", "2030", "2032", "2034"]);
        assert_eq!(texts(days(0, first, 36_600)).len(), 1);
        for days_shown in [106, 200, 300, 1000, 5000] {
            let marks = texts(days(0, first, days_shown));
            assert!((1..=8).contains(&marks.len()), "{days_shown}: {marks:?}");
        }
    }
}
