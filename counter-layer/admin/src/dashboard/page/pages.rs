//! The data of the templates.

use askama::Template;
use counter_core::{Error, Stats, Timestamp};
use futures_util::future::{try_join, try_join3, try_join4};

use super::frame::{Frame, alignment};
use super::goal_forms::GoalForms;
use super::note_forms::NoteForms;
use crate::access::assets;
use crate::dashboard::annotations::Annotators;
use crate::dashboard::chart::annotations::Annotation;
use crate::dashboard::chart::chart::Chart;
use crate::dashboard::chart::{bands, canvas};
use crate::dashboard::format::counters;
use crate::dashboard::panels::goals;
use crate::dashboard::panels::labels;
use crate::dashboard::panels::measured::{self, Measured};
use crate::dashboard::panels::panel::{Layout, Panel, Panels};
use crate::dashboard::panels::slowest;
use crate::dashboard::panels::sources::Sources;
use crate::dashboard::panels::table::Table;
use crate::dashboard::period_reader::PeriodReader;
use crate::dashboard::plot::controls::Controls;
use crate::dashboard::plot::plot::Plot;
use crate::dashboard::plot::sums::Sums;
use crate::dashboard::reader::{Reader, UNREAD};
use crate::dashboard::summary::cards::{self, Extent, Summary};
use crate::dashboard::summary::raised::Raised;
use crate::dashboard::summary::sites::{self, SiteCard};
use crate::dashboard::summary::status::Status;
use crate::dashboard::view::addresses::LIST_CSV;
use crate::dashboard::view::metric::Metric;
use crate::dashboard::view::view::{Page, SharedPart, View};
use crate::problem::Message;
use crate::text::escape;

/// The page of the whole site.
#[derive(Debug, Template)]
#[template(path = "pages/site.html", whitespace = "minimize")]
pub(crate) struct Site {
    frame: Frame,
    /// The sites of a fleet, on the page of all of them.
    sites: Vec<SiteCard>,
    pub(crate) moving: Moving,
    controls: Controls,
    table: Table,
    layout: Layout,
    sources: Option<Sources>,
    search: Option<Search>,
    /// The URL of all pages as a file.
    pages_csv: String,
    /// True if the panel of the service is the first one, and open.
    is_service: bool,
    /// The URL of the page with another first panel.
    other_view: String,
    /// The URL to open for the first hit.
    root: Option<String>,
    unread: Option<String>,
}

/// A page with all pages or values of a label.
#[derive(Debug, Template)]
#[template(path = "pages/list.html", whitespace = "minimize")]
pub(crate) struct List {
    frame: Frame,
    controls: Controls,
    title: String,
    /// The name and the URL of the page or value that the list belongs to.
    owner: Option<(String, String)>,
    pub(crate) table: Table,
    search: Search,
    csv: String,
    status: Status,
    unread: Option<String>,
}

/// The form to search a list.
#[derive(Debug)]
struct Search {
    /// The URL of the list, without a query.
    action: String,
    fields: Vec<(&'static str, String)>,
    title: String,
    text: String,
    /// The URL of the whole list.
    everything: String,
}

/// A counter page.
#[derive(Debug, Template)]
#[template(path = "pages/counter.html", whitespace = "minimize")]
pub(crate) struct Counter {
    frame: Frame,
    pub(crate) moving: Moving,
    controls: Controls,
    name: String,
    measured: Option<Measured>,
    goal: Option<GoalForms>,
    /// The labels of a page, or the pages of a label value.
    panels: Panels,
    unread: Option<String>,
}

/// Only the live parts of a page, which the script reads most often.
#[derive(Debug, Template)]
#[template(path = "pages/parts.html", whitespace = "minimize")]
pub(crate) struct Parts {
    moving: Moving,
    is_site: bool,
    /// False if the chart is only read with the whole page, because people and response times are more expensive.
    has_chart: bool,
    /// True if revocations of other instances can't be read.
    misses_revocations: bool,
    /// What these parts lack. The other parts may lack more.
    unread: Option<String>,
}

/// A shared view: a chart and distributions, or a whole page, but no navigation.
#[derive(Debug, Template)]
#[template(path = "pages/shared.html", whitespace = "minimize")]
pub(crate) struct Shared {
    style: String,
    icon: String,
    site_name: String,
    /// What the chart or the page is about, unless it is the whole site.
    title: Option<String>,
    period: String,
    moving: Moving,
    measured: Option<Measured>,
    /// The panels and the table of the site, if the whole page is shared.
    site: Option<(Layout, Table)>,
    search: Option<Search>,
    /// The panels of a counter, if the whole page is shared.
    panels: Panels,
    unread: Option<String>,
    alignment: String,
}

/// An error page.
#[derive(Debug, Template)]
#[template(path = "pages/trouble.html", whitespace = "minimize")]
pub(crate) struct FailurePage {
    frame: Frame,
    title: String,
    text: String,
    status: Status,
    /// True if the page will be available when the store is back.
    is_away: bool,
}

/// The live parts of a page: numbers and the chart.
#[derive(Debug)]
pub(crate) struct Moving {
    /// The numbers at the top, unless only the chart is shared.
    summary: Option<Summary>,
    /// The raised alerts, only on the site page.
    raised: Option<Raised>,
    status: Status,
    /// The people of the last minutes and the current rate, except on other pages than that of the site.
    now: Option<String>,
    chart: Chart,
    metric: Metric,
    /// What the chart shows, and its interval.
    title: String,
    /// The events shown in the chart.
    annotations: Vec<Annotation>,
    pub(crate) sums: Sums,
    /// The description of the forecast.
    forecast: Option<String>,
    /// The forms to add and remove notes.
    note_forms: Option<NoteForms>,
    /// The time zone name of the site.
    zone: String,
    /// The description of the chart.
    label: String,
}

impl Site {
    pub(crate) async fn read(reader: Reader<'_>, view: &View, now: Timestamp) -> Result<Self, Error> {
        let stats = reader.stats;
        let period = PeriodReader::new(&reader, view, now);
        let moving = Moving::read(&period, view, Extent::Page, now);
        let (moving, (layout, table)) = try_join(moving, panels_of_site(&period, view, now)).await?;
        let sites = sites::read(&reader, view, now).await;
        let (is_empty, all_pages) = (table.suggestions.is_empty(), view.list(None));
        Ok(Self {
            frame: Frame::of(stats, view).pinned(view, moving.metric),
            sites,
            moving,
            controls: Controls::of(stats, view, now),
            table,
            layout,
            sources: Sources::of(stats, now),
            search: Some(Search::of(&all_pages)),
            pages_csv: all_pages.download(LIST_CSV),
            is_service: view.is_service,
            other_view: view.address_with(|view| view.is_service = !view.is_service),
            root: is_empty.then(|| "/".to_owned()),
            unread: reader.unread(),
        })
    }
}

impl Counter {
    pub(crate) async fn read(reader: Reader<'_>, view: &View, now: Timestamp) -> Result<Self, Error> {
        let stats = reader.stats;
        let period = PeriodReader::new(&reader, view, now);
        let (moving, mut measured, panels, goal) = try_join4(
            Moving::read(&period, view, Extent::Page, now),
            measured::read(&period, view, now),
            panels_of_counter(&period, view),
            GoalForms::read(&reader, view),
        )
        .await?;
        if let Some(bands) = measured.as_mut().and_then(|measured| measured.bands.as_mut()) {
            bands.annotate(&moving.annotations);
        }
        Ok(Self {
            frame: Frame::of(stats, view).pinned(view, moving.metric),
            moving,
            controls: Controls::of(stats, view, now),
            name: counters::title(&view.chart.counters[0]),
            measured,
            goal,
            panels: Panels::of(panels),
            unread: reader.unread(),
        })
    }
}

impl List {
    pub(crate) async fn read(reader: Reader<'_>, view: &View, now: Timestamp) -> Result<Self, Error> {
        let (stats, listed) = (reader.stats, view.listed());
        let table = Table::read(&PeriodReader::new(&reader, view, now), view, now).await?;
        let counter = &view.chart.counters[0];
        let owner = listed.has_owner().then(|| (counters::title(counter), view.counter(counter)));
        let of_owner = owner.as_ref().map(|(name, _)| format!(" of {}", escape::isolated(name)));
        Ok(Self {
            frame: Frame::of(stats, view),
            controls: Controls::of(stats, view, now),
            title: listed.title().to_owned() + &of_owner.unwrap_or_default(),
            owner,
            table,
            search: Search::of(view),
            csv: view.download(LIST_CSV),
            status: Status::of(&stats.ledger(), &stats.health()),
            unread: reader.unread(),
        })
    }
}

impl Search {
    fn of(list: &View) -> Self {
        let everything = list.address_with(|view| (view.table.search, view.table.leaf) = (String::new(), 0));
        Self {
            action: format!("{}{}", list.site.mount, list.page.path()),
            fields: list.fields(&["q", "page"]),
            title: format!("Search {}", list.listed().title().to_lowercase()),
            text: list.table.search.clone(),
            everything,
        }
    }
}

impl Site {
    /// Removes the titles of the buckets, because the script shows their values.
    pub(crate) fn for_script(mut self) -> Self {
        self.moving.chart.has_titles = false;
        self
    }
}

impl Counter {
    /// Removes the titles of the buckets, because the script shows their values.
    pub(crate) fn for_script(mut self) -> Self {
        self.moving.chart.has_titles = false;
        if let Some(bands) = self.measured.as_mut().and_then(|measured| measured.bands.as_mut()) {
            bands.has_titles = false;
        }
        self
    }
}

impl Parts {
    pub(crate) async fn read(reader: Reader<'_>, view: &View, now: Timestamp) -> Result<Self, Error> {
        let period = PeriodReader::new(&reader, view, now);
        let mut moving = Moving::read(&period, view, Extent::Live, now).await?;
        moving.chart.has_titles = false;
        let (is_site, has_chart) = (view.page == Page::Site, is_live(view));
        let misses_revocations = view.client.misses_revocations;
        Ok(Self { moving, is_site, has_chart, misses_revocations, unread: reader.unread() })
    }
}

/// Returns `true` if the chart is one of the live parts.
fn is_live(view: &View) -> bool {
    view.chart.metric.is_none_or(Metric::is_live)
}

impl Moving {
    /// Reads the live parts of a page.
    async fn read(
        period: &PeriodReader<'_>,
        view: &View,
        extent: Extent,
        now: Timestamp,
    ) -> Result<Self, Error> {
        let site_parts = async {
            match view.page {
                Page::Site => {
                    let summary = Summary::of_site(period, view, extent, now);
                    let (summary, raised) = try_join(summary, Raised::read(period.reader, view)).await?;
                    Ok((Some(summary), raised))
                }
                Page::Counter => Ok((Some(Summary::of_counter(period, view, extent).await?), None)),
                Page::List => Ok((None, None)),
            }
        };
        // If the people of the last minutes can't be read, the page does not need to be missing, too.
        let stats = period.reader.stats;
        let people = async {
            Ok(match view.page {
                Page::Site => stats.now().await.ok(),
                Page::Counter | Page::List => None,
            })
        };
        let plot = async {
            match extent == Extent::Page || is_live(view) {
                true => Plot::read(period, view, now).await,
                false => Ok(Plot::without_lines(period, view, now)),
            }
        };
        let ((mut summary, raised), plot, people) = try_join3(site_parts, plot, people).await?;
        let people = people.and_then(|people| cards::people_now(&people, stats.ledger().requests));
        let rate = summary.as_ref().and_then(|summary| summary.rate.clone());
        let now: Vec<_> = people.into_iter().chain(rate).collect();
        if let Some(summary) = &mut summary {
            summary.choose(view, plot.metric);
        }
        let moving = Self::of(period, view, plot);
        // While the store does not take hits, these are too low.
        let now = Some(now.join(" · ")).filter(|now| !now.is_empty() && !moving.status.is_loud);
        Ok(Self { summary, raised, now, ..moving })
    }

    /// Reads only the chart.
    async fn read_chart(period: &PeriodReader<'_>, view: &View, now: Timestamp) -> Result<Self, Error> {
        Ok(Self::of(period, view, Plot::read(period, view, now).await?))
    }

    fn of(period: &PeriodReader<'_>, view: &View, plot: Plot) -> Self {
        let Plot { chart, metric, annotations, sums, forecast, .. } = plot;
        let (stats, buckets) = (period.reader.stats, &period.timeline.buckets);
        let names: Vec<_> =
            view.chart.counters.iter().map(|counter| escape::isolated(&metric.line(counter))).collect();
        let shown = buckets.starts.len();
        let mut label = format!("{} per {}, {shown} values", names.join(", "), buckets.by.unit());
        let forecast_buckets = chart.columns.len().saturating_sub(shown);
        if let Some(forecast) = chart.forecast.as_ref().filter(|_| forecast_buckets > 0) {
            label += &format!("; {} for the next {forecast_buckets}", forecast.name);
        }
        Self {
            summary: None,
            raised: None,
            status: Status::of(&stats.ledger(), &stats.health()),
            now: None,
            chart,
            metric,
            title: format!("{} per {}", metric.title_of(&view.chart.counters), buckets.by.unit()),
            annotations,
            sums,
            forecast,
            note_forms: NoteForms::of(view),
            zone: view.site.zone.name().to_owned(),
            label,
        }
    }
}

impl Shared {
    pub(crate) async fn read(stats: &Stats, view: &View, now: Timestamp) -> Result<Self, Error> {
        // Users with a link should not see notes, alerts and goals.
        let none = Annotators::default();
        let reader = Reader::new(stats, &none);
        let period = PeriodReader::new(&reader, view, now);
        let measured = async {
            match view.page {
                Page::Site | Page::List => Ok(None),
                Page::Counter => measured::read(&period, view, now).await,
            }
        };
        let is_page = view.shared == SharedPart::Page;
        let page = async {
            let (mut summary, mut site, mut panels) = (None, None, Vec::new());
            match view.page {
                Page::Site if is_page => {
                    let of_site = Summary::of_site(&period, view, Extent::Page, now);
                    let read = try_join(of_site, panels_of_site(&period, view, now)).await?;
                    (summary, site) = (Some(read.0), Some(read.1));
                }
                Page::Counter if is_page => {
                    let of_counter = Summary::of_counter(&period, view, Extent::Page);
                    let read = try_join(of_counter, panels_of_counter(&period, view)).await?;
                    (summary, panels) = (Some(read.0), read.1);
                }
                Page::Site | Page::Counter | Page::List => {}
            }
            Ok((summary, site, panels))
        };
        let moving = Moving::read_chart(&period, view, now);
        let (mut moving, measured, (summary, site, panels)) = try_join3(moving, measured, page).await?;
        moving.summary = summary;
        let names: Vec<_> = view.chart.counters.iter().map(counters::title).collect();
        Ok(Self {
            style: format!("{}{}", view.site.mount, assets::style()),
            icon: format!("{}{}", view.site.mount, assets::icon()),
            site_name: view.site_name().to_owned(),
            title: match (is_page, view.page) {
                (false, _) => Some(names.join(", ")),
                (true, Page::Counter) => names.into_iter().next(),
                (true, Page::Site | Page::List) => None,
            },
            period: view.chart.period.title(&view.site.zone, now),
            moving,
            measured,
            site,
            search: None,
            panels: Panels::of(panels),
            // The reasons contain addresses of servers.
            unread: reader.unread().map(|_| format!("{UNREAD}.")),
            alignment: alignment(stats, view),
        })
    }
}

/// Reads the panels and the table of the site.
async fn panels_of_site(
    period: &PeriodReader<'_>,
    view: &View,
    now: Timestamp,
) -> Result<(Layout, Table), Error> {
    let (mut table, mut panels, slowest, goals) = try_join4(
        Table::read(period, view, now),
        labels::panels(period, view),
        slowest::panel(period, view),
        goals::panel(period, view),
    )
    .await?;
    panels.extend(slowest.into_iter().chain(goals));
    let layout = Layout::of(panels, std::mem::take(&mut table.facets));
    Ok((layout, table))
}

/// Reads the panels of a counter page: the labels of a page, or the pages of a label value.
async fn panels_of_counter(period: &PeriodReader<'_>, view: &View) -> Result<Vec<Panel>, Error> {
    let counter = &view.chart.counters[0];
    match (counter.pair(), counter.label()) {
        (Some(_), _) => Ok(Vec::new()),
        (None, None) => labels::panels_of_page(period, counter, view).await,
        (None, Some((label, value))) => {
            Ok(labels::pages(period, label, value, view).await?.into_iter().collect())
        }
    }
}

impl FailurePage {
    pub(crate) fn of(stats: &Stats, view: &View, title: &str, text: String) -> Self {
        Self {
            frame: Frame::of(stats, view),
            title: title.to_owned(),
            text,
            status: Status::of(&stats.ledger(), &stats.health()),
            is_away: false,
        }
    }

    /// Returns the page to show if the store can't be read.
    pub(crate) fn unreadable(stats: &Stats, view: &View, error: &Error) -> Self {
        let Message { title, text } = Message::of(error);
        let status = Status::unreadable(&stats.ledger(), &stats.health());
        Self { frame: Frame::of(stats, view), title, text, status, is_away: true }
    }
}
