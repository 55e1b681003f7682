//! The choices about the chart.

use counter_core::{Stats, Timestamp};

use crate::dashboard::chart::curve;
use crate::dashboard::format::instants;
use crate::dashboard::format::units;
use crate::dashboard::view::range::{NamedRange, SPAN};
use crate::dashboard::view::view::{LINES, Other, Page, View};

/// The choices about the chart.
#[derive(Debug)]
pub(crate) struct Controls {
    pub(crate) title: String,
    /// The ranges that have a name.
    pub(crate) ranges: Vec<Chip>,
    pub(crate) precisions: Vec<Chip>,
    pub(crate) spans: Vec<Chip>,
    pub(crate) lines: Vec<Shown>,
    /// On or off; nothing where this precision has none.
    pub(crate) visitors: Option<Chip>,
    pub(crate) visitor_precisions: String,
    pub(crate) forecast: Chip,
    /// The words for a step back and forth: of a range that has a name, or of half a chart.
    pub(crate) steps: (String, String),
    pub(crate) earlier: Option<String>,
    pub(crate) later: Option<String>,
    pub(crate) now: Option<String>,
    pub(crate) fields: Vec<(&'static str, String)>,
    /// The form has to repeat the first line, which no field names.
    pub(crate) add_own: bool,
    pub(crate) is_full: bool,
    pub(crate) visitors_letter: char,
    /// The times to compare with, and whether one is.
    pub(crate) others: Vec<Chip>,
    /// The line of the time that is compared with: its place, its letter and its name.
    pub(crate) other: Option<(usize, char, String)>,
    /// The last day of the chart, and that of the other time, as forms have them.
    pub(crate) days: (String, String),
    /// The address of the form that makes a link to this view, and what it repeats.
    pub(crate) share: Option<(String, Vec<(&'static str, String)>)>,
    /// The fields that a form for other days repeats.
    pub(crate) other_fields: Vec<(&'static str, String)>,
}

/// The name of the line of the time that is compared with.
pub(crate) fn compared(view: &View) -> String {
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
pub(crate) struct Chip {
    pub(crate) text: String,
    pub(crate) address: String,
    pub(crate) is_chosen: bool,
}

/// A line of the chart.
#[derive(Debug)]
pub(crate) struct Shown {
    pub(crate) letter: char,
    pub(crate) name: String,
    pub(crate) address: Option<String>,
    pub(crate) off: Option<String>,
}

impl Controls {
    pub(crate) fn of(stats: &Stats, view: &View, now: Timestamp) -> Self {
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
            text: units::span(u64::from(kept.precision.as_seconds())),
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
            text: units::span(width * u64::from(span)),
            address: view.but(|view| view.span = span),
            is_chosen: span == view.span,
        });
        let lines = view.counters.iter().enumerate().map(|(place, name)| Shown {
            letter: curve::letter(place),
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
        let own = (format!("the {} before", units::span(length)), length);
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
        let last_day = |end: Timestamp| instants::day(view.zone.local(end.minus(1)));
        Self {
            others: std::iter::once(none).chain(others).collect(),
            other: other.as_ref().map(|_| (place, curve::letter(place), compared(view))),
            days: (last_day(range.end), other.map(|other| last_day(other.end)).unwrap_or_default()),
            share: view.share().map(|address| (address, view.fields(&[]))),
            other_fields: view.fields(&["to", "ago", "against"]),
            title: format!("Hits per {}", units::unit(width)),
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
                .map(|kept| units::span(u64::from(kept.precision.as_seconds())))
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
            visitors_letter: curve::letter(view.counters.len()),
        }
    }
}
