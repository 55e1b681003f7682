//! The contents of the templates.

use askama::Template;
use counter_core::time::Retention;
use counter_core::{CounterName, Error, Stats, Timestamp};
use futures_util::future::{try_join, try_join3};

use super::assets;
use super::chart::{self, Chart};
use super::controls::Controls;
use super::format::{self, Change, Style};
use super::labels::Panel;
use super::period::Period;
use super::plot::{Plot, plot};
use super::reader::Reader;
use super::sources::Sources;
use super::summary::{Status, Summary};
use super::sums::Sums;
use super::table::Table;
use super::view::{Page, View};
use super::visitors::Extent;

/// The page of the whole site.
#[derive(Debug, Template)]
#[template(path = "dashboard/site.html")]
pub(super) struct Site {
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
    unread: Option<String>,
}

/// The moving parts by themselves, which the script asks for every second.
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

/// The frame of every page.
#[derive(Debug)]
struct Frame {
    style: String,
    script: String,
    site: String,
    address: String,
    parts: String,
    live: String,
    zone: String,
    utc: bool,
    logout: Option<String>,
    /// The beginnings of buckets and days, in words.
    beginning: String,
}

/// Numbers and chart.
#[derive(Debug)]
pub(super) struct Moving {
    summary: Option<Summary>,
    status: Status,
    chart: Chart,
    sums: Sums,
    /// The forecast in words.
    forecast: Option<String>,
    /// The visitors of all of the time, in words; not in what is read again and again.
    visitors_shown: Option<String>,
    /// The content of the chart in a sentence.
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

/// Days on the page of a counter.
const DAYS: u64 = 14;

impl Site {
    pub(super) async fn read(stats: &Stats, view: &View, now: Timestamp) -> Result<Self, Error> {
        let period = Period::of(&stats.grid().counts, view.precision, now);
        let reader = Reader::new(stats);
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
            search: view.search.clone(),
            search_fields: view.fields(&["q", "page"]),
            everything: view.but(|view| (view.search, view.leaf) = (String::new(), 0)),
            unread: reader.unread(),
        })
    }
}

impl Counter {
    pub(super) async fn read(stats: &Stats, view: &View, now: Timestamp) -> Result<Self, Error> {
        let period = Period::of(&stats.grid().counts, view.precision, now);
        let counter = &view.counters[..1];
        let hits: Vec<_> = CounterName::new(crate::reserved::HITS).into_iter().collect();
        let days_kept = stats.grid().counts.of_width(86_400);
        let reader = Reader::new(stats);
        let days = async {
            match days_kept {
                Some(kept) => days(&reader, &counter[0], kept, now).await,
                None => Ok(Vec::new()),
            }
        };
        let ((moving, days), (totals, befores, hits), (lifetimes, uniques)) = try_join3(
            try_join(Moving::read(&reader, view, Extent::Whole, now), days),
            try_join3(
                period.totals(&reader, counter),
                period.befores(&reader, counter),
                period.totals(&reader, &hits),
            ),
            try_join(reader.lifetimes(counter), period.visitors(&reader, counter)),
        )
        .await?;
        let first = |counts: &[Option<u64>]| counts.first().copied().unwrap_or(Some(0));
        let (total, before) = (first(&totals), befores.first().copied().unwrap_or_default());
        Ok(Self {
            frame: Frame::of(stats, view),
            moving,
            controls: Controls::of(stats, view, now),
            name: counter[0].to_string(),
            period: period.name,
            total: total.map_or_else(format::unknown, format::grouped),
            change: total.and_then(|total| format::change(total, before)),
            share: total.zip(first(&hits)).and_then(|(total, hits)| format::share(total, hits)),
            visitors: uniques
                .and_then(|uniques| uniques.first().copied().flatten())
                .map(|uniques| format::grouped(uniques.visitors)),
            lifetime: first(&lifetimes).map_or_else(format::unknown, format::grouped),
            days,
            days_style: days_kept.map_or(Style::Day, |kept| Style::of(kept.precision)).name(),
            unread: reader.unread(),
        })
    }
}

impl Moving {
    pub(super) async fn read(
        reader: &Reader<'_>,
        view: &View,
        extent: Extent,
        now: Timestamp,
    ) -> Result<Self, Error> {
        let stats = reader.stats;
        let period = Period::of(&stats.grid().counts, view.precision, now);
        let summary = async {
            match view.page {
                Page::Site => Summary::read(reader, &period, now).await.map(Some),
                Page::Counter => Ok(None),
            }
        };
        let (summary, Plot { chart, sums, forecast, visitors_shown }) =
            try_join(summary, plot(reader, view, extent, now)).await?;
        let names: Vec<_> = view.counters.iter().map(ToString::to_string).collect();
        let width = u64::from(view.precision.precision.as_seconds());
        let mut label = format!("{} per {}, {} of them", names.join(", "), format::unit(width), view.span);
        let ahead = chart.columns.len().saturating_sub(view.span as usize);
        if let Some(forecast) = chart.forecast.as_ref().filter(|_| ahead > 0) {
            label += &format!(", and what is {} in the next {ahead}", forecast.name);
        }
        Ok(Self {
            summary,
            status: Status::of(&stats.ledger(), &stats.health()),
            chart,
            sums,
            forecast,
            visitors_shown,
            label,
        })
    }
}

impl Trouble {
    pub(super) fn of(stats: &Stats, view: &View, title: &'static str, text: String) -> Self {
        Self {
            frame: Frame::of(stats, view),
            title,
            text,
            status: Status::of(&stats.ledger(), &stats.health()),
        }
    }
}

impl Frame {
    fn of(stats: &Stats, view: &View) -> Self {
        Self {
            style: format!("{}{}", view.mount, assets::style()),
            script: format!("{}{}", view.mount, assets::script()),
            site: view.site(),
            address: view.address(),
            parts: view.parts(),
            live: view.live(),
            zone: view.but(|view| view.utc = !view.utc),
            utc: view.utc,
            logout: view.logout(),
            beginning: format::beginning(&stats.grid().counts),
        }
    }
}

/// The last days of a counter, the last one first.
async fn days(
    reader: &Reader<'_>,
    counter: &CounterName,
    kept: Retention,
    now: Timestamp,
) -> Result<Vec<Day>, Error> {
    let today = kept.precision.bucket(now).start;
    let from = today.minus((DAYS - 1) * 86_400).max(kept.oldest(now));
    let counter = std::slice::from_ref(counter);
    let series = reader.series_many(counter, kept.precision, from..today.plus(86_400)).await?;
    let Some(series) = series.into_iter().next().flatten() else { return Ok(Vec::new()) };
    let most = series.samples.iter().map(|sample| sample.count).max().unwrap_or_default();
    let day = |sample: &counter_core::Sample| Day {
        iso: format::iso(sample.start),
        text: format::instant(sample.start, Style::of(kept.precision)),
        total: format::grouped(sample.count),
        percent: format::percent(sample.count, most),
        is_open: sample.start == today,
    };
    Ok(series.samples.iter().rev().map(day).collect())
}
