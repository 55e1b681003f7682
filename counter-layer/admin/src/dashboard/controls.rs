//! The choices about the chart.

use counter_core::{Stats, Timestamp};

use super::range::{NamedRange, SPAN};
use super::view::{LINES, Other, Page, View};
use super::{chart, format};

/// The choices about the chart.
#[derive(Debug)]
pub(super) struct Controls {
    pub(super) title: String,
    /// The ranges that have a name.
    pub(super) ranges: Vec<Chip>,
    pub(super) precisions: Vec<Chip>,
    pub(super) spans: Vec<Chip>,
    pub(super) lines: Vec<Shown>,
    /// On or off; nothing where this precision has none.
    pub(super) visitors: Option<Chip>,
    pub(super) visitor_precisions: String,
    pub(super) forecast: Chip,
    /// The words for a step back and forth: of a range that has a name, or of half a chart.
    pub(super) steps: (String, String),
    pub(super) earlier: Option<String>,
    pub(super) later: Option<String>,
    pub(super) now: Option<String>,
    pub(super) fields: Vec<(&'static str, String)>,
    /// The form has to repeat the first line, which no field names.
    pub(super) add_own: bool,
    pub(super) is_full: bool,
    pub(super) visitors_letter: char,
    /// The times to compare with, and whether one is.
    pub(super) others: Vec<Chip>,
    /// The line of the time that is compared with: its place, its letter and its name.
    pub(super) other: Option<(usize, char, String)>,
    /// The last day of the chart, and that of the other time, as forms have them.
    pub(super) days: (String, String),
    /// The address of the form that makes a link to this view, and what it repeats.
    pub(super) share: Option<(String, Vec<(&'static str, String)>)>,
    /// The fields that a form for other days repeats.
    pub(super) other_fields: Vec<(&'static str, String)>,
}

/// The name of the line of the time that is compared with.
pub(super) fn compared(view: &View) -> String {
    format!("{} in the other time", view.counters[0])
}

/// The times before, with their names: the same days of the week, where these are more than one.
const BEFORE: [(&str, u64); 4] = [
    ("a day before", 86_400),
    ("a week before", 7 * 86_400),
    ("4 weeks before", 28 * 86_400),
    ("52 weeks before", 364 * 86_400),
];

/// A choice among others.
#[derive(Debug)]
pub(super) struct Chip {
    pub(super) text: String,
    pub(super) address: String,
    pub(super) is_chosen: bool,
}

/// A line of the chart.
#[derive(Debug)]
pub(super) struct Shown {
    pub(super) letter: char,
    pub(super) name: String,
    pub(super) address: Option<String>,
    pub(super) off: Option<String>,
}

impl Controls {
    pub(super) fn of(stats: &Stats, view: &View, now: Timestamp) -> Self {
        let kept = view.precision;
        let width = u64::from(kept.precision.as_seconds());
        let reach = stats.reach();
        let named = view.named(&reach.counts);
        let ranges = NamedRange::all(&reach.counts).map(|range| Chip {
            text: range.name.to_owned(),
            address: view.with_range(range),
            is_chosen: named == Some(range),
        });
        let precisions = reach.counts.iter().map(|kept| Chip {
            text: format::span(u64::from(kept.precision.as_seconds())),
            address: view.with_precision(kept),
            is_chosen: kept == view.precision,
        });
        let most = kept.samples.get().clamp(2, SPAN);
        let mut spans: Vec<_> =
            [30, 60, 120, 240].into_iter().filter(|span| *span < most).chain([most]).collect();
        if named.is_none() && !spans.contains(&view.span) {
            spans.push(view.span);
            spans.sort_unstable();
        }
        let spans = spans.into_iter().map(|span| Chip {
            text: format::span(width * u64::from(span)),
            address: view.but(|view| view.span = span),
            is_chosen: span == view.span,
        });
        let lines = view.counters.iter().enumerate().map(|(place, name)| Shown {
            letter: chart::letter(place),
            name: name.to_string(),
            address: (view.page == Page::Site).then(|| view.counter(name)),
            off: view.toggled(name),
        });
        let buckets = view.buckets(now);
        let kept_visitors = reach.visitors.retention(buckets.read.precision).is_some();
        let range = buckets.range();
        let is_of_zone = view.is_of_zone_days(now);
        let oldest = if is_of_zone { buckets.read.oldest(now) } else { kept.oldest(now) };
        let latest = if is_of_zone { view.zone.next_day(now) } else { kept.precision.bucket(now).end() };
        let length = width * u64::from(view.span);
        let step = if named.is_some() { length } else { length / 2 };
        let later = range.end.plus(step);
        let before = |(text, ago): (String, u64)| Chip {
            text,
            address: view.but(|view| view.other = Some(Other::Ago(ago))),
            is_chosen: view.other == Some(Other::Ago(ago)),
        };
        let own = (format!("the {} before", format::span(length)), length);
        let further = BEFORE.into_iter().filter(|(_, ago)| *ago > length);
        let all = std::iter::once(own).chain(further.map(|(text, ago)| (text.to_owned(), ago)));
        let others = all.filter(|(_, ago)| oldest.plus(*ago) <= range.start).map(before);
        let none = Chip {
            text: "nothing".to_owned(),
            address: view.but(|view| view.other = None),
            is_chosen: view.other.is_none(),
        };
        let place = view.counters.len() + usize::from(kept_visitors && view.uniques);
        let other = view.other(now);
        let last_day = |end: Timestamp| format::day(view.zone.local(end.minus(1)));
        Self {
            others: std::iter::once(none).chain(others).collect(),
            other: other.as_ref().map(|_| (place, chart::letter(place), compared(view))),
            days: (last_day(range.end), other.map(|other| last_day(other.end)).unwrap_or_default()),
            share: view.share().map(|address| (address, view.fields(&[]))),
            other_fields: view.fields(&["to", "ago", "against"]),
            title: format!("Hits per {}", format::unit(width)),
            ranges: ranges.collect(),
            precisions: precisions.collect(),
            spans: spans.collect(),
            lines: lines.collect(),
            visitors: kept_visitors.then(|| Chip {
                text: "unique visitors".to_owned(),
                address: view.but(|view| view.uniques = !view.uniques),
                is_chosen: view.uniques,
            }),
            visitor_precisions: reach
                .visitors
                .iter()
                .map(|kept| format::span(u64::from(kept.precision.as_seconds())))
                .collect::<Vec<_>>()
                .join(", "),
            forecast: Chip {
                text: "forecast".to_owned(),
                address: view.but(|view| view.forecast = !view.forecast),
                is_chosen: view.forecast,
            },
            steps: named.map_or_else(
                || ("earlier".to_owned(), "later".to_owned()),
                |range| (format!("{} before", range.name), format!("{} after", range.name)),
            ),
            earlier: (range.start >= oldest.plus(width)).then(|| {
                let end = range.end.minus(step).max(oldest.plus(length));
                view.but(|view| view.to = Some(end))
            }),
            later: (range.end < latest)
                .then(|| view.but(|view| view.to = Some(later).filter(|later| *later < latest))),
            now: view.to.is_some().then(|| view.but(|view| view.to = None)),
            fields: view.fields(&[]),
            add_own: view.fields(&[]).iter().all(|(name, _)| *name != "counter"),
            is_full: view.counters.len() >= LINES,
            visitors_letter: chart::letter(view.counters.len()),
        }
    }
}
