//! What the templates are filled with.

use askama::Template;
use counter_core::{CounterName, Error, Retention, Stats, Store, Timestamp};
use futures_util::future::{try_join, try_join3, try_join4};

use super::super::chart::{self, Chart};
use super::assets;
use super::glance::{Glance, Status};
use super::listing::Listing;
use super::period::Period;
use super::plot::{Plot, plot};
use super::text::{self, Change, Style};
use super::view::{LINES, Page, SPAN, View};

/// The page of the whole site.
#[derive(Debug, Template)]
#[template(path = "dashboard/site.html")]
pub(super) struct Site {
    frame: Frame,
    moving: Moving,
    controls: Controls,
    listing: Listing,
    period: String,
    search: String,
    search_fields: Vec<(&'static str, String)>,
    everything: String,
}

/// The page of one counter.
#[derive(Debug, Template)]
#[template(path = "dashboard/counter.html")]
pub(super) struct Counter {
    frame: Frame,
    moving: Moving,
    controls: Controls,
    name: String,
    period: String,
    total: String,
    change: Option<Change>,
    share: Option<String>,
    visitors: Option<String>,
    lifetime: String,
    days: Vec<Day>,
    days_style: &'static str,
}

/// What moves, by itself: what the script asks for every second.
#[derive(Debug, Template)]
#[template(path = "dashboard/parts.html")]
pub(super) struct Parts {
    pub(super) moving: Moving,
}

/// The page that says why there is no other.
#[derive(Debug, Template)]
#[template(path = "dashboard/trouble.html")]
pub(super) struct Trouble {
    frame: Frame,
    title: &'static str,
    text: String,
    status: Status,
}

/// What surrounds every page.
#[derive(Clone, Debug)]
pub(super) struct Frame {
    style: String,
    script: String,
    site: String,
    address: String,
    parts: String,
    live: String,
    zone: String,
    utc: bool,
}

/// Numbers and chart.
#[derive(Debug)]
pub(super) struct Moving {
    glance: Option<Glance>,
    status: Status,
    chart: Chart,
    /// What is to be said of what it expects.
    outlook: Option<String>,
    /// What the chart shows, in a sentence.
    label: String,
}

/// What can be chosen about the chart.
#[derive(Debug)]
struct Controls {
    title: String,
    precisions: Vec<Chip>,
    spans: Vec<Chip>,
    lines: Vec<Shown>,
    /// On or off; nothing where this precision has none.
    visitors: Option<Chip>,
    visitor_precisions: String,
    /// On or off; nothing without the feature.
    forecast: Option<Chip>,
    earlier: Option<String>,
    later: Option<String>,
    now: Option<String>,
    fields: Vec<(&'static str, String)>,
    /// Whether a form has to repeat the first line, which no field names.
    add_own: bool,
    is_full: bool,
    visitors_letter: char,
}

/// A choice among others.
#[derive(Debug)]
struct Chip {
    text: String,
    address: String,
    is_chosen: bool,
}

/// A line of the chart.
#[derive(Debug)]
struct Shown {
    letter: char,
    name: String,
    address: Option<String>,
    off: Option<String>,
}

/// A day of a counter.
#[derive(Debug)]
struct Day {
    iso: String,
    text: String,
    total: String,
    percent: u64,
    is_open: bool,
}

/// Days on the page of a counter.
const DAYS: u64 = 14;

impl Site {
    pub(super) async fn read<S: Store>(stats: &Stats<S>, view: &View, now: Timestamp) -> Result<Self, Error> {
        let period = Period::of(&stats.grid().counts, view.precision, now);
        let (moving, listing) =
            try_join(Moving::read(stats, view, now), Listing::read(stats, view, &period, now)).await?;
        Ok(Self {
            frame: Frame::of(view),
            moving,
            controls: Controls::of(stats, view, now),
            listing,
            period: period.name,
            search: view.search.clone(),
            search_fields: view.fields(&["q", "page"]),
            everything: view.but(|view| (view.search, view.leaf) = (String::new(), 0)),
        })
    }
}

impl Counter {
    pub(super) async fn read<S: Store>(stats: &Stats<S>, view: &View, now: Timestamp) -> Result<Self, Error> {
        let period = Period::of(&stats.grid().counts, view.precision, now);
        let counter = &view.counters[..1];
        let hits: Vec<_> = CounterName::new(super::view::HITS).into_iter().collect();
        let days_kept = stats.grid().counts.of_width(86_400);
        let days = async {
            match days_kept {
                Some(kept) => days(stats, &counter[0], kept, now).await,
                None => Ok(Vec::new()),
            }
        };
        let (moving, lifetimes, uniques, days) = try_join4(
            Moving::read(stats, view, now),
            stats.lifetimes(counter),
            period.visitors(stats, counter),
            days,
        )
        .await?;
        let (totals, befores, hits) = try_join3(
            period.totals(stats, counter),
            period.befores(stats, counter),
            period.totals(stats, &hits),
        )
        .await?;
        let first = |counts: &[u64]| counts.first().copied().unwrap_or_default();
        let (total, before) = (first(&totals), first(&befores));
        Ok(Self {
            frame: Frame::of(view),
            moving,
            controls: Controls::of(stats, view, now),
            name: counter[0].to_string(),
            period: period.name,
            total: text::grouped(total),
            change: text::change(total, before),
            share: text::share(total, first(&hits)),
            visitors: uniques
                .and_then(|uniques| uniques.first().copied())
                .map(|uniques| text::grouped(uniques.visitors)),
            lifetime: text::grouped(first(&lifetimes)),
            days,
            days_style: days_kept.map_or(Style::Day, |kept| Style::of(kept.precision)).name(),
        })
    }
}

impl Moving {
    pub(super) async fn read<S: Store>(stats: &Stats<S>, view: &View, now: Timestamp) -> Result<Self, Error> {
        let period = Period::of(&stats.grid().counts, view.precision, now);
        let glance = async {
            match view.page {
                Page::Site => Glance::read(stats, &period, now).await.map(Some),
                Page::Counter => Ok(None),
            }
        };
        let (glance, Plot { chart, outlook }) = try_join(glance, plot(stats, view, now)).await?;
        let names: Vec<_> = view.counters.iter().map(ToString::to_string).collect();
        let width = u64::from(view.precision.precision.as_seconds());
        let mut label = format!("{} per {}, {} of them", names.join(", "), text::unit(width), view.span);
        let ahead = chart.columns.len().saturating_sub(view.span as usize);
        if let Some(prospect) = chart.prospect.as_ref().filter(|_| ahead > 0) {
            label += &format!(", and what is {} in the next {ahead}", prospect.name);
        }
        Ok(Self { glance, status: Status::of(&stats.ledger(), &stats.health()), chart, outlook, label })
    }
}

impl Trouble {
    pub(super) fn of<S: Store>(stats: &Stats<S>, frame: &Frame, title: &'static str, text: String) -> Self {
        Self { frame: frame.clone(), title, text, status: Status::of(&stats.ledger(), &stats.health()) }
    }
}

impl Frame {
    pub(super) fn of(view: &View) -> Self {
        Self {
            style: format!("{}{}", view.mount, assets::style()),
            script: format!("{}{}", view.mount, assets::script()),
            site: view.site(),
            address: view.address(),
            parts: view.parts(),
            live: view.live(),
            zone: view.but(|view| view.utc = !view.utc),
            utc: view.utc,
        }
    }
}

impl Controls {
    fn of<S: Store>(stats: &Stats<S>, view: &View, now: Timestamp) -> Self {
        let kept = view.precision;
        let width = u64::from(kept.precision.as_seconds());
        let grid = stats.grid();
        let precisions = grid.counts.iter().map(|kept| Chip {
            text: text::span(u64::from(kept.precision.as_seconds())),
            address: view.with_precision(kept),
            is_chosen: kept == view.precision,
        });
        let most = kept.samples.get().clamp(2, SPAN);
        let mut spans: Vec<_> =
            [30, 60, 120, 240].into_iter().filter(|span| *span < most).chain([most]).collect();
        if !spans.contains(&view.span) {
            spans.push(view.span);
            spans.sort_unstable();
        }
        let spans = spans.into_iter().map(|span| Chip {
            text: text::span(width * u64::from(span)),
            address: view.but(|view| view.span = span),
            is_chosen: span == view.span,
        });
        let lines = view.counters.iter().zip('A'..).map(|(name, letter)| Shown {
            letter,
            name: name.to_string(),
            address: (view.page == Page::Site).then(|| view.counter(name)),
            off: view.toggled(name),
        });
        let kept_visitors = grid.visitors.retention(kept.precision).is_some();
        let range = view.range(now);
        let (oldest, latest) = (kept.oldest(now), kept.precision.bucket(now).end());
        let length = width * u64::from(view.span);
        let later = range.end.plus(length / 2);
        Self {
            title: format!("Hits per {}", text::unit(width)),
            precisions: precisions.collect(),
            spans: spans.collect(),
            lines: lines.collect(),
            visitors: kept_visitors.then(|| Chip {
                text: "unique visitors".to_owned(),
                address: view.but(|view| view.uniques = !view.uniques),
                is_chosen: view.uniques,
            }),
            visitor_precisions: grid
                .visitors
                .iter()
                .map(|kept| text::span(u64::from(kept.precision.as_seconds())))
                .collect::<Vec<_>>()
                .join(", "),
            forecast: cfg!(feature = "forecast").then(|| Chip {
                text: "forecast".to_owned(),
                address: view.but(|view| view.forecast = !view.forecast),
                is_chosen: view.forecast,
            }),
            earlier: (range.start > oldest).then(|| {
                let end = range.end.minus(length / 2).max(oldest.plus(length));
                view.but(|view| view.to = Some(end))
            }),
            later: (range.end < latest)
                .then(|| view.but(|view| view.to = Some(later).filter(|later| *later < latest))),
            now: view.to.is_some().then(|| view.but(|view| view.to = None)),
            fields: view.fields(&[]),
            add_own: view.fields(&[]).iter().all(|(name, _)| *name != "counter"),
            is_full: view.counters.len() >= LINES,
            visitors_letter: ('A'..).nth(view.counters.len()).unwrap_or('V'),
        }
    }
}

/// The last days of a counter, the last one first.
async fn days<S: Store>(
    stats: &Stats<S>,
    counter: &CounterName,
    kept: Retention,
    now: Timestamp,
) -> Result<Vec<Day>, Error> {
    let today = kept.precision.bucket(now).start;
    let from = today.minus((DAYS - 1) * 86_400).max(kept.oldest(now));
    let series = stats.series(counter, kept.precision, from..today.plus(86_400)).await?;
    let most = series.samples.iter().map(|sample| sample.count).max().unwrap_or_default().max(1);
    let day = |sample: &counter_core::Sample| Day {
        iso: text::iso(sample.start),
        text: text::instant(sample.start, Style::of(kept.precision)),
        total: text::grouped(sample.count),
        percent: u64::try_from(u128::from(sample.count) * 100 / u128::from(most)).unwrap_or_default(),
        is_open: sample.start == today,
    };
    Ok(series.samples.iter().rev().map(day).collect())
}
