//! The toolbar of a page, and the chart controls.

use counter_core::{CounterName, Stats, Timestamp};

use super::sums::Instant;
use crate::dashboard::chart::curve;
use crate::dashboard::format::instants::{self, Style};
use crate::dashboard::view::addresses::{CHART_CSV, CHART_SVG};
use crate::dashboard::view::by::By;
use crate::dashboard::view::chart::MAX_LINES;
use crate::dashboard::view::period::{Compare, DAY, Period, length};
use crate::dashboard::view::timeline::Timeline;
use crate::dashboard::view::view::{Page, View};
use crate::zone::Zone;

/// The toolbar of a page, and the chart controls.
#[derive(Debug)]
pub(crate) struct Controls {
    pub(crate) period: Menu,
    pub(crate) custom: CustomForm,
    /// The URLs of the period before and the period after.
    pub(crate) earlier: Option<String>,
    pub(crate) later: Option<String>,
    /// `None` if the period can't be compared.
    pub(crate) compare: Option<Menu>,
    /// The sites of a fleet.
    pub(crate) sites: Option<Menu>,
    pub(crate) by: Vec<Chip>,
    pub(crate) lines: Lines,
    pub(crate) forecast: Chip,
    /// The URLs of the chart as files.
    pub(crate) chart_csv: String,
    pub(crate) chart_svg: String,
    /// The URL of this view with a custom period, without the ends.
    pub(crate) zoom: String,
    /// The end of the chart, as Unix time.
    pub(crate) end: u64,
    /// The unit of the buckets if a click opens one as the period.
    pub(crate) opened: Option<String>,
}

/// A choice, rendered as a link.
#[derive(Debug)]
pub(crate) struct Chip {
    pub(crate) id: String,
    pub(crate) text: String,
    pub(crate) address: String,
    pub(crate) is_chosen: bool,
}

/// A menu of choices.
#[derive(Debug)]
pub(crate) struct Menu {
    /// The word before the current choice.
    pub(crate) word: &'static str,
    /// The current choice.
    pub(crate) title: String,
    /// The ends of a period that is not made of whole days, with their format name, to be shown instead of the title.
    pub(crate) times: Option<(Instant, Instant, &'static str)>,
    pub(crate) choices: Vec<Chip>,
}

/// The form for a custom period.
#[derive(Debug)]
pub(crate) struct CustomForm {
    /// The other parameters.
    pub(crate) fields: Vec<(&'static str, String)>,
    /// The first and the final date, in the format of HTML forms.
    pub(crate) first: String,
    pub(crate) last: String,
    /// The first and the final date to choose from.
    pub(crate) oldest: String,
    pub(crate) latest: String,
}

/// The chart lines, and the form to add a line.
#[derive(Debug)]
pub(crate) struct Lines {
    pub(crate) all: Vec<LegendLine>,
    pub(crate) fields: Vec<(&'static str, String)>,
    /// The first counter, which a form needs to repeat if it is not included in `fields`.
    pub(crate) repeated: Option<String>,
    pub(crate) is_full: bool,
}

/// A chart line in the legend.
#[derive(Debug)]
pub(crate) struct LegendLine {
    pub(crate) letter: char,
    pub(crate) address: Option<String>,
    pub(crate) off: Option<String>,
}

/// The title of the choice of all sites.
const ALL_SITES: &str = "All sites";

/// Returns the name of the comparison line of a line.
pub(crate) fn compared(view: &View, name: &str) -> String {
    match view.chart.compare {
        Compare::Year => format!("{name} (last year)"),
        _ => format!("{name} (previous)"),
    }
}

impl Controls {
    pub(crate) fn of(stats: &Stats, view: &View, now: Timestamp) -> Self {
        let (zone, timeline) = (&view.site.zone, view.timeline(now));
        let (range, chosen) = (timeline.buckets.range(), view.chart.period);
        let period = |period: Period| {
            let address = view.address_with(|view| (view.chart.period, view.chart.by) = (period, None));
            Chip::new("period", period.title(zone, now), period == chosen, address)
        };
        let compare = |compare: Compare| {
            let address = view.address_with(|view| view.chart.compare = compare);
            Chip::new("compare", compare.title(), compare == view.chart.compare, address)
        };
        let site = |name: Option<&String>| {
            let address = view.address_with(|view| view.of_site = name.cloned());
            Chip::new("site", name.map_or(ALL_SITES, |name| name), view.of_site.as_ref() == name, address)
        };
        let sites = &view.site.sites;
        let by = |by| {
            let address = view.address_with(|view| view.chart.by = Some(by));
            Chip::new("by", by.unit(), by == timeline.buckets.by, address)
        };
        let date = |at| instants::day(zone.local(at));
        let oldest = stats.reach().counts.iter().map(|part| part.oldest(now)).min().unwrap_or(now);
        Self {
            period: Menu::of_period(
                "",
                chosen,
                zone,
                now,
                view.available_periods(now).into_iter().map(period).collect(),
            ),
            custom: CustomForm {
                fields: view.fields(&["period", "from", "to", "by", "page"]),
                first: date(range.start),
                last: date(range.end.minus(1)),
                oldest: date(oldest),
                latest: date(now),
            },
            earlier: earlier(view, &timeline, now),
            later: later(view, &timeline, now),
            compare: (chosen != Period::All)
                .then(|| comparison(view, &timeline, now, Compare::ALL.map(compare).into())),
            sites: (!sites.is_empty()).then(|| Menu {
                word: "",
                title: view.of_site.as_deref().unwrap_or(ALL_SITES).to_owned(),
                times: None,
                choices: std::iter::once(None).chain(sites.iter().map(Some)).map(site).collect(),
            }),
            by: timeline.choices.iter().copied().map(by).collect(),
            forecast: Chip::new(
                "forecast",
                "Forecast",
                view.chart.forecast,
                view.address_with(|view| {
                    view.chart.forecast = !view.chart.forecast;
                    view.chart.metric = view.chart.metric.filter(|metric| metric.has_forecast());
                }),
            ),
            lines: Lines::of(view),
            chart_csv: view.download(CHART_CSV),
            chart_svg: view.download(CHART_SVG),
            zoom: view.zoom(),
            end: timeline.buckets.end.as_unix(),
            opened: Some(timeline.buckets.by)
                .filter(|by| !matches!(by, By::Width(_)) && timeline.buckets.starts.len() > 1)
                .map(By::unit),
        }
    }
}

impl Chip {
    fn new(group: &str, text: impl Into<String>, is_chosen: bool, address: String) -> Self {
        let text = text.into();
        let name: String =
            text.to_lowercase().split(|c: char| !c.is_alphanumeric()).collect::<Vec<_>>().join("-");
        Self { id: format!("{group}-{name}"), text, address, is_chosen }
    }
}

impl Menu {
    /// Returns a menu with a period as the current choice, after this word.
    fn of_period(
        word: &'static str,
        period: Period,
        zone: &Zone,
        now: Timestamp,
        choices: Vec<Chip>,
    ) -> Self {
        let times = period.times(zone).map(|(from, to)| {
            let style = Style::Full.of_years([from, to].map(|at| zone.local(at)), zone.local(now));
            (Instant::of(from, zone, style), Instant::of(to, zone, style), style.name())
        });
        Self { word, title: period.title(zone, now), times, choices }
    }
}

/// Returns the menu of comparisons, with the dates of the compared period, as in `vs. September`.
fn comparison(view: &View, timeline: &Timeline, now: Timestamp, choices: Vec<Chip>) -> Menu {
    let (compare, range) = (view.chart.compare, timeline.buckets.range());
    let compared = view.chart.period.compared(compare, &range, &timeline.calendar);
    let is_known = timeline.compared.is_some() && length(&range) >= DAY;
    match compared.filter(|_| is_known) {
        Some(range) => {
            let period = Period::Custom(range.start, range.end);
            Menu::of_period("vs. ", period, &timeline.calendar, now, choices)
        }
        None => Menu { word: "", title: compare.title().to_owned(), times: None, choices },
    }
}

/// Returns the URL of the period before, if it is retained.
fn earlier(view: &View, timeline: &Timeline, now: Timestamp) -> Option<String> {
    let range =
        view.chart.period.compared(Compare::Previous, &timeline.buckets.range(), &timeline.calendar)?;
    let period = view.chart.period.named(&range, &timeline.calendar, now);
    view.has(period, now).then(|| view.address_with(|view| view.chart.period = period))
}

/// Returns the URL of the period after, if it has begun.
fn later(view: &View, timeline: &Timeline, now: Timestamp) -> Option<String> {
    let range = view.chart.period.next(&timeline.buckets.range(), &timeline.calendar);
    let period = view.chart.period.named(&range, &timeline.calendar, now);
    (range.start <= now).then(|| view.address_with(|view| view.chart.period = period))
}

impl Lines {
    fn of(view: &View) -> Self {
        let line = |(place, name): (usize, &CounterName)| LegendLine {
            letter: curve::letter(place),
            address: (view.page != Page::Counter).then(|| view.counter(name)),
            off: view.toggled(name),
        };
        let fields = view.fields(&[]);
        Self {
            all: view.chart.counters.iter().enumerate().map(line).collect(),
            repeated: (fields.iter().all(|(name, _)| *name != "counter"))
                .then(|| view.chart.counters[0].to_string()),
            fields,
            is_full: view.chart.counters.len() >= MAX_LINES,
        }
    }
}
