//! The data of the templates.

use askama::Template;
use counter_core::{CounterName, Error, Stats, Timestamp};
use futures_util::future::{try_join, try_join3};

use super::frame::{Frame, alignment};
use crate::dashboard::annotations::Annotators;
use crate::dashboard::chart::annotations::Annotation;
use crate::dashboard::chart::chart::Chart;
use crate::dashboard::chart::{bands, canvas};
use crate::dashboard::format::instants::{self, Style};
use crate::dashboard::format::numbers::{self, Change};
use crate::dashboard::format::units;
use crate::dashboard::panels::labels::Panel;
use crate::dashboard::panels::measured::{self, Measured};
use crate::dashboard::panels::note_forms::NoteForms;
use crate::dashboard::panels::period::Period;
use crate::dashboard::panels::raised::Raised;
use crate::dashboard::panels::sources::Sources;
use crate::dashboard::panels::summary::{Status, Summary};
use crate::dashboard::panels::table::Table;
use crate::dashboard::plot::controls::Controls;
use crate::dashboard::plot::plot::Plot;
use crate::dashboard::plot::sums::Sums;
use crate::dashboard::plot::visitors::Extent;
use crate::dashboard::reader::Reader;
use crate::dashboard::view::buckets::Buckets;
use crate::dashboard::view::view::{Page, View};
use crate::text::digits;
use crate::text::escape;

/// The page of the whole site.
#[derive(Debug, Template)]
#[template(path = "pages/site.html")]
pub(crate) struct Site {
    frame: Frame,
    moving: Moving,
    controls: Controls,
    table: Table,
    labels: Vec<Panel>,
    sources: Option<Sources>,
    period: String,
    search: String,
    search_fields: Vec<(&'static str, String)>,
    everything: String,
    unread: Option<String>,
}

/// A counter page.
#[derive(Debug, Template)]
#[template(path = "pages/counter.html")]
pub(crate) struct Counter {
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
    measured: Option<Measured>,
    days: Vec<Day>,
    days_style: &'static str,
    unread: Option<String>,
}

/// Only the live parts of a page, polled by the script every second.
#[derive(Debug, Template)]
#[template(path = "pages/parts.html")]
pub(crate) struct Parts {
    pub(crate) moving: Moving,
}

/// The page that shows a link to a view.
#[derive(Debug, Template)]
#[template(path = "pages/share.html")]
pub(crate) struct Share {
    frame: Frame,
    link: String,
    until: String,
}

/// A shared view: a chart and distributions, but no navigation.
#[derive(Debug, Template)]
#[template(path = "pages/shared.html")]
pub(crate) struct Shared {
    style: String,
    title: String,
    unit: String,
    moving: Moving,
    measured: Option<Measured>,
    alignment: String,
}

/// An error page.
#[derive(Debug, Template)]
#[template(path = "pages/trouble.html")]
pub(crate) struct FailurePage {
    frame: Frame,
    title: &'static str,
    text: String,
    status: Status,
}

/// The live parts of a page: numbers and the chart.
#[derive(Debug)]
pub(crate) struct Moving {
    summary: Option<Summary>,
    /// The raised alerts, only on the site page.
    raised: Option<Raised>,
    status: Status,
    chart: Chart,
    /// The events shown in the chart.
    annotations: Vec<Annotation>,
    sums: Sums,
    /// The description of the forecast.
    forecast: Option<String>,
    /// A sentence on visitors over the whole period. Not included in polled parts.
    visitors_shown: Option<String>,
    /// The forms to add and remove notes.
    note_forms: Option<NoteForms>,
    /// The time zone name of the site.
    zone: String,
    /// The description of the chart.
    label: String,
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

/// The number of days on a counter page.
const SHOWN_DAYS: u32 = 14;

impl Site {
    pub(crate) async fn read(reader: Reader<'_>, view: &View, now: Timestamp) -> Result<Self, Error> {
        let stats = reader.stats;
        let period = Period::of(&stats.grid().counts, view.chart.precision, &view.site.zone, now);
        let (moving, table, labels) = try_join3(
            Moving::read(&reader, view, Extent::Whole, now),
            Table::read(&reader, view, &period, now),
            Panel::read(&reader, &period, |counter| view.counter(counter)),
        )
        .await?;
        Ok(Self {
            frame: Frame::of(stats, view),
            moving,
            controls: Controls::of(stats, view, now),
            table,
            labels,
            sources: Sources::of(stats, now),
            period: period.name,
            search: view.table.search.clone(),
            search_fields: view.fields(&["q", "page"]),
            everything: view.address_with(|view| (view.table.search, view.table.leaf) = (String::new(), 0)),
            unread: reader.unread(),
        })
    }
}

impl Counter {
    pub(crate) async fn read(reader: Reader<'_>, view: &View, now: Timestamp) -> Result<Self, Error> {
        let stats = reader.stats;
        let period = Period::of(&stats.grid().counts, view.chart.precision, &view.site.zone, now);
        let counter = &view.chart.counters[..1];
        let hits: Vec<_> = CounterName::new(counter_layer::internal::HITS).into_iter().collect();
        let recent_days = recent_days(stats, view, now);
        let days = async {
            match &recent_days {
                Some((buckets, style)) => days(&reader, view, buckets, *style).await,
                None => Ok(Vec::new()),
            }
        };
        let ((moving, days, mut measured), (totals, previous_totals, hits), (lifetimes, uniques)) =
            try_join3(
                try_join3(
                    Moving::read(&reader, view, Extent::Whole, now),
                    days,
                    measured::read(&reader, view, now),
                ),
                try_join3(
                    period.totals(&reader, counter),
                    period.previous_totals(&reader, counter),
                    period.totals(&reader, &hits),
                ),
                try_join(reader.lifetimes(counter), period.visitors(&reader, counter)),
            )
            .await?;
        if let Some(bands) = measured.as_mut().and_then(|measured| measured.bands.as_mut()) {
            bands.annotate(&moving.annotations);
        }
        let first = |counts: &[Option<u64>]| counts.first().copied().unwrap_or(Some(0));
        let (total, before) = (first(&totals), previous_totals.first().copied().unwrap_or_default());
        Ok(Self {
            frame: Frame::of(stats, view),
            moving,
            controls: Controls::of(stats, view, now),
            name: counter[0].to_string(),
            period: period.name,
            total: total.map_or_else(numbers::unknown, digits::grouped),
            change: total.and_then(|total| numbers::change(total, before)),
            share: total.zip(first(&hits)).and_then(|(total, hits)| numbers::share(total, hits)),
            visitors: uniques
                .and_then(|uniques| uniques.first().copied().flatten())
                .map(|uniques| digits::grouped(uniques.visitors)),
            lifetime: first(&lifetimes).map_or_else(numbers::unknown, digits::grouped),
            measured,
            days,
            days_style: recent_days.as_ref().map_or(Style::Day, |(_, style)| *style).name(),
            unread: reader.unread(),
        })
    }
}

impl Moving {
    pub(crate) async fn read(
        reader: &Reader<'_>,
        view: &View,
        extent: Extent,
        now: Timestamp,
    ) -> Result<Self, Error> {
        let stats = reader.stats;
        let period = Period::of(&stats.grid().counts, view.chart.precision, &view.site.zone, now);
        let site_parts = async {
            match view.page {
                Page::Site => {
                    let summary = Summary::read(reader, &period, now);
                    let (summary, raised) = try_join(summary, Raised::read(reader, view)).await?;
                    Ok((Some(summary), raised))
                }
                Page::Counter => Ok((None, None)),
            }
        };
        let ((summary, raised), Plot { chart, annotations, sums, forecast, visitors_shown }) =
            try_join(site_parts, Plot::read(reader, view, extent, now)).await?;
        let names: Vec<_> = view.chart.counters.iter().map(|name| escape::isolated(name)).collect();
        let width = u64::from(view.chart.precision.precision.as_seconds());
        let shown = view.buckets(now).starts.len();
        let mut label = format!("{} per {}, {shown} values", names.join(", "), units::unit(width));
        let forecast_buckets = chart.columns.len().saturating_sub(shown);
        if let Some(forecast) = chart.forecast.as_ref().filter(|_| forecast_buckets > 0) {
            label += &format!("; {} for the next {forecast_buckets}", forecast.name);
        }
        Ok(Self {
            summary,
            raised,
            status: Status::of(&stats.ledger(), &stats.health()),
            chart,
            annotations,
            sums,
            forecast,
            visitors_shown,
            note_forms: NoteForms::of(view),
            zone: view.site.zone.name().to_owned(),
            label,
        })
    }
}

impl Share {
    pub(crate) fn of(stats: &Stats, view: &View, link: String, until: Timestamp) -> Self {
        let until = instants::instant(view.site.zone.local(until), Style::FullOfYear);
        Self { frame: Frame::of(stats, view), link, until: format!("{until} {}", view.site.zone.name()) }
    }
}

impl Shared {
    pub(crate) async fn read(
        stats: &Stats,
        view: &View,
        style: String,
        now: Timestamp,
    ) -> Result<Self, Error> {
        // Users with a link should not see notes and alerts.
        let none = Annotators::default();
        let reader = Reader::new(stats, &none);
        let measured = async {
            match view.page {
                Page::Site => Ok(None),
                Page::Counter => measured::read(&reader, view, now).await,
            }
        };
        // A shared view should never include the site summary.
        let mut chart = view.clone();
        chart.page = Page::Counter;
        let (moving, measured) =
            try_join(Moving::read(&reader, &chart, Extent::Whole, now), measured).await?;
        let names: Vec<_> = view.chart.counters.iter().map(ToString::to_string).collect();
        Ok(Self {
            style,
            title: names.join(", "),
            unit: units::unit(u64::from(view.chart.precision.precision.as_seconds())),
            moving,
            measured,
            alignment: alignment(stats, view),
        })
    }
}

impl FailurePage {
    pub(crate) fn of(stats: &Stats, view: &View, title: &'static str, text: String) -> Self {
        Self {
            frame: Frame::of(stats, view),
            title,
            text,
            status: Status::of(&stats.ledger(), &stats.health()),
        }
    }

    /// Returns the page to show if the store can't be read.
    pub(crate) fn unreadable(stats: &Stats, view: &View, error: &Error) -> Self {
        let (title, text) = ("Data unavailable", error.to_string());
        let status = Status::unreadable(&stats.ledger(), &stats.health());
        Self { frame: Frame::of(stats, view), title, text, status }
    }
}

/// Returns the most recent days and the format to use.
fn recent_days(stats: &Stats, view: &View, now: Timestamp) -> Option<(Buckets, Style)> {
    if let Some(days) = view.days(SHOWN_DAYS, now) {
        return Some((days, Style::Day));
    }
    let retained = stats.grid().counts.of_width(86_400)?;
    let today = retained.precision.bucket(now);
    let from = today.start.minus(u64::from(SHOWN_DAYS - 1) * 86_400).max(retained.oldest(now));
    Some((Buckets::of(retained, from..today.end()), Style::of(retained.precision)))
}

/// Returns the recent days with hits of the first counter, newest first.
async fn days(reader: &Reader<'_>, view: &View, buckets: &Buckets, style: Style) -> Result<Vec<Day>, Error> {
    let series =
        reader.series_many(&view.chart.counters[..1], buckets.read.precision, buckets.range()).await?;
    let counts = buckets.counts(series.first().and_then(Option::as_ref));
    let max = counts.iter().flatten().max().copied().unwrap_or_default();
    let days = buckets
        .bucket_ranges()
        .zip(counts)
        .filter_map(|(day, count)| Some((day, count.filter(|count| *count > 0)?)));
    let day = |(day, count): (std::ops::Range<Timestamp>, u64)| Day {
        iso: instants::iso(day.start),
        text: instants::instant(view.site.zone.local(day.start), style),
        total: digits::grouped(count),
        percent: numbers::percent(count, max),
        is_open: day.end == buckets.end,
    };
    let mut days: Vec<_> = days.map(day).collect();
    days.reverse();
    Ok(days)
}
