//! The chart controls.

use counter_core::time::Retention;
use counter_core::{CounterName, Precisions, Stats, Timestamp};

use crate::dashboard::chart::curve;
use crate::dashboard::format::{instants, units};
use crate::dashboard::view::chart::{ComparedPeriod, MAX_LINES};
use crate::dashboard::view::range::{MAX_SPAN, NamedRange};
use crate::dashboard::view::view::{Page, View};

/// The chart controls.
#[derive(Debug)]
pub(crate) struct Controls {
    pub(crate) title: String,
    /// The named ranges.
    pub(crate) ranges: Vec<Chip>,
    pub(crate) precisions: Vec<Chip>,
    pub(crate) spans: Vec<Chip>,
    pub(crate) moves: Moves,
    pub(crate) lines: Lines,
    pub(crate) visitors: Visitors,
    pub(crate) forecast: Chip,
    pub(crate) comparison: Comparison,
    pub(crate) share: Option<Share>,
}

/// A choice, rendered as a link.
#[derive(Debug)]
pub(crate) struct Chip {
    pub(crate) text: String,
    pub(crate) address: String,
    pub(crate) is_chosen: bool,
}

/// Steps back and forth in time, either by a named range or by half the chart length.
#[derive(Debug)]
pub(crate) struct Moves {
    pub(crate) earlier: Move,
    pub(crate) later: Move,
    pub(crate) now: Option<String>,
}

/// A step, with a URL if there is data to show.
#[derive(Debug)]
pub(crate) struct Move {
    pub(crate) text: String,
    pub(crate) address: Option<String>,
}

/// The chart lines, and the form to add a line.
#[derive(Debug)]
pub(crate) struct Lines {
    pub(crate) all: Vec<LegendLine>,
    pub(crate) fields: Vec<(&'static str, String)>,
    /// True if a form needs to repeat the first line because it is not included in `fields`.
    pub(crate) repeats_first: bool,
    pub(crate) is_full: bool,
}

/// A chart line in the legend.
#[derive(Debug)]
pub(crate) struct LegendLine {
    pub(crate) letter: char,
    pub(crate) name: String,
    pub(crate) address: Option<String>,
    pub(crate) off: Option<String>,
}

/// The visitors line.
#[derive(Debug)]
pub(crate) struct Visitors {
    /// Shows or hides the line, if visitors are available for the chart precision.
    pub(crate) chip: Option<Chip>,
    /// The available visitor precisions.
    pub(crate) precisions: String,
    pub(crate) letter: char,
}

/// The comparison choices.
#[derive(Debug)]
pub(crate) struct Comparison {
    pub(crate) choices: Vec<Chip>,
    /// The comparison line: index, letter and name.
    pub(crate) line: Option<(usize, char, String)>,
    /// The final days of the chart and the comparison, in the format of HTML forms.
    pub(crate) days: (String, String),
    /// The fields to repeat in the form for custom days.
    pub(crate) fields: Vec<(&'static str, String)>,
}

/// The form to create a link to the view.
#[derive(Debug)]
pub(crate) struct Share {
    pub(crate) address: String,
    pub(crate) fields: Vec<(&'static str, String)>,
}

/// Named earlier periods. Offsets above a day are multiples of a week, to start on the same weekday.
const EARLIER_PERIODS: [(&str, u64); 4] = [
    ("1 day earlier", 86_400),
    ("1 week earlier", 7 * 86_400),
    ("4 weeks earlier", 28 * 86_400),
    ("52 weeks earlier", 364 * 86_400),
];

/// Returns the name of the comparison line.
pub(crate) fn compared(view: &View) -> String {
    format!("{} (comparison)", view.chart.counters[0])
}

impl Controls {
    pub(crate) fn of(stats: &Stats, view: &View, now: Timestamp) -> Self {
        let reach = stats.reach();
        let named = view.chart.named(&reach.counts);
        let range = |range: NamedRange| {
            let set = |view: &mut View| {
                (view.chart.precision, view.chart.span) = (range.precision, range.span);
            };
            Chip::new(range.name, named == Some(range), view.address_with(set))
        };
        let precision = |retention| {
            let address = view.address_with(|view| view.chart.set_precision(retention));
            Chip::new(width(retention), retention == view.chart.precision, address)
        };
        let visitors = Visitors::of(&reach.visitors, view, now);
        Self {
            title: format!("Hits per {}", units::unit(view.chart.precision.precision.as_seconds().into())),
            ranges: NamedRange::all(&reach.counts).map(range).collect(),
            precisions: reach.counts.iter().map(precision).collect(),
            spans: spans(view, named),
            moves: Moves::of(view, named, now),
            lines: Lines::of(view),
            forecast: Chip::new(
                "Forecast",
                view.chart.forecast,
                view.address_with(|view| view.chart.forecast = !view.chart.forecast),
            ),
            comparison: Comparison::of(view, &visitors, now),
            visitors,
            share: view.share().map(|address| Share { address, fields: view.fields(&[]) }),
        }
    }
}

impl Chip {
    fn new(text: impl Into<String>, is_chosen: bool, address: String) -> Self {
        Self { text: text.into(), address, is_chosen }
    }
}

fn width(retention: Retention) -> String {
    units::span(retention.precision.as_seconds().into())
}

/// Returns the available chart lengths for the precision.
fn spans(view: &View, named: Option<NamedRange>) -> Vec<Chip> {
    let retained = view.chart.precision;
    let max = retained.samples.get().clamp(2, MAX_SPAN);
    let mut spans: Vec<_> = [30, 60, 120, 240].into_iter().filter(|span| *span < max).chain([max]).collect();
    if named.is_none() && !spans.contains(&view.chart.span) {
        spans.push(view.chart.span);
        spans.sort_unstable();
    }
    let chip = |span: u32| {
        let length = u64::from(retained.precision.as_seconds()) * u64::from(span);
        let address = view.address_with(|view| view.chart.span = span);
        Chip::new(units::span(length), span == view.chart.span, address)
    };
    spans.into_iter().map(chip).collect()
}

impl Moves {
    fn of(view: &View, named: Option<NamedRange>, now: Timestamp) -> Self {
        let width = u64::from(view.chart.precision.precision.as_seconds());
        let length = width * u64::from(view.chart.span);
        let step = if named.is_some() { length } else { length / 2 };
        let (range, oldest) = (view.range(now), view.oldest(now));
        let latest = if view.uses_zone_days(now) {
            view.site.zone.next_day(now)
        } else {
            view.chart.precision.precision.bucket(now).end()
        };
        let (earlier, later) = match named {
            Some(range) => (format!("Previous {}", range.name), format!("Next {}", range.name)),
            None => ("Earlier".to_owned(), "Later".to_owned()),
        };
        Self {
            earlier: Move {
                text: earlier,
                address: (range.start >= oldest.plus(width)).then(|| {
                    let end = range.end.minus(step).max(oldest.plus(length));
                    view.address_with(|view| view.chart.to = Some(end))
                }),
            },
            later: Move {
                text: later,
                address: (range.end < latest).then(|| {
                    let later = Some(range.end.plus(step)).filter(|later| *later < latest);
                    view.address_with(|view| view.chart.to = later)
                }),
            },
            now: view.chart.to.is_some().then(|| view.address_with(|view| view.chart.to = None)),
        }
    }
}

impl Lines {
    fn of(view: &View) -> Self {
        let line = |(place, name): (usize, &CounterName)| LegendLine {
            letter: curve::letter(place),
            name: name.to_string(),
            address: (view.page == Page::Site).then(|| view.counter(name)),
            off: view.toggled(name),
        };
        let fields = view.fields(&[]);
        Self {
            all: view.chart.counters.iter().enumerate().map(line).collect(),
            repeats_first: fields.iter().all(|(name, _)| *name != "counter"),
            fields,
            is_full: view.chart.counters.len() >= MAX_LINES,
        }
    }
}

impl Visitors {
    fn of(reach: &Precisions, view: &View, now: Timestamp) -> Self {
        let is_retained = reach.retention(view.buckets(now).read.precision).is_some();
        let toggled = || view.address_with(|view| view.chart.uniques = !view.chart.uniques);
        Self {
            chip: is_retained.then(|| Chip::new("Unique visitors", view.chart.uniques, toggled())),
            precisions: reach.iter().map(width).collect::<Vec<_>>().join(", "),
            letter: curve::letter(view.chart.counters.len()),
        }
    }
}

impl Comparison {
    fn of(view: &View, visitors: &Visitors, now: Timestamp) -> Self {
        let with = |other: Option<ComparedPeriod>| view.address_with(|view| view.chart.other = other);
        let none = Chip::new("No comparison", view.chart.other.is_none(), with(None));
        let length = u64::from(view.chart.precision.precision.as_seconds()) * u64::from(view.chart.span);
        let previous = (format!("Previous {}", units::span(length)), length);
        let longer_ago = EARLIER_PERIODS.into_iter().filter(|(_, ago)| *ago > length);
        let all = std::iter::once(previous).chain(longer_ago.map(|(text, ago)| (text.to_owned(), ago)));
        let (range, oldest) = (view.range(now), view.oldest(now));
        let retained = all.filter(|(_, ago)| oldest.plus(*ago) <= range.start).map(|(text, ago)| {
            let other = Some(ComparedPeriod::Ago(ago));
            Chip::new(text, view.chart.other == other, with(other))
        });
        let has_visitors = visitors.chip.as_ref().is_some_and(|chip| chip.is_chosen);
        let place = view.chart.counters.len() + usize::from(has_visitors);
        let other = view.other(now);
        let last_day = |end: Timestamp| instants::day(view.site.zone.local(end.minus(1)));
        Self {
            choices: std::iter::once(none).chain(retained).collect(),
            line: other.as_ref().map(|_| (place, curve::letter(place), compared(view))),
            days: (last_day(range.end), other.map(|other| last_day(other.end)).unwrap_or_default()),
            fields: view.fields(&["to", "ago", "against"]),
        }
    }
}
