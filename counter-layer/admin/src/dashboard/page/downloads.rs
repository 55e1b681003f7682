//! Lists and charts as files.

use std::fmt::Write;

use askama::Template;
use axum::extract::{RawQuery, State};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Router, routing::get};
use counter_core::Timestamp;
use http::header::{CONTENT_DISPOSITION, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS};

use super::routes::{Dashboard, Rejection, check_counters, failure, rendered};
use crate::dashboard::chart::canvas;
use crate::dashboard::chart::chart::Chart;
use crate::dashboard::format::counters;
use crate::dashboard::format::instants;
use crate::dashboard::panels::table::Table;
use crate::dashboard::period_reader::PeriodReader;
use crate::dashboard::plot::plot::Plot;
use crate::dashboard::view::addresses::{CHART_CSV, CHART_SVG, LIST_CSV};
use crate::dashboard::view::client::Client;
use crate::dashboard::view::metric::Metric;
use crate::dashboard::view::view::{Page, View};
use crate::mount::Mount;
use crate::text::csv;

/// The colors of the lines.
const COLORS: [&str; 6] = ["#2563c9", "#b8500c", "#1a7f4b", "#7c3aed", "#c01c6f", "#0e7490"];

const CSV: &str = "text/csv; charset=utf-8; header=present";

/// The maximum length of a file name without its extension.
const MAX_NAME_CHARS: usize = 120;

/// A chart as a separate image.
#[derive(Debug, Template)]
#[template(path = "pages/chart.svg")]
struct Image {
    chart: Chart,
    title: String,
}

/// A file of a view.
#[derive(Clone, Copy, Debug)]
enum File {
    ListCsv,
    ChartCsv,
    ChartSvg,
}

/// Returns the files of a view.
pub(crate) fn downloads(dashboard: &Dashboard) -> Router {
    let route =
        |file: File| get(move |state, mount, query, client| download(file, state, mount, query, client));
    Router::new()
        .route(LIST_CSV, route(File::ListCsv))
        .route(CHART_CSV, route(File::ChartCsv))
        .route(CHART_SVG, route(File::ChartSvg))
        .with_state(dashboard.clone())
}

async fn download(
    file: File,
    State(dashboard): State<Dashboard>,
    Extension(mount): Extension<Mount>,
    RawQuery(query): RawQuery,
    client: Client,
) -> Result<Response, Rejection> {
    let page = if matches!(file, File::ListCsv) { Page::List } else { Page::Site };
    let mut view = dashboard.view(&mount, page, client, query.as_deref())?;
    let (reader, now) = (dashboard.reader(), Timestamp::now());
    let first_hit = dashboard.read_first_hit(&mut view, now).await;
    first_hit.map_err(|error| failure(dashboard.stats(), &view, &error))?;
    if page == Page::List {
        check_counters(dashboard.stats(), &view).await?;
    }
    let period = PeriodReader::new(&reader, &view, now);
    let counter = &view.chart.counters[0];
    let chart = |plot: &Plot, extension| file_name(&view, &plot.metric.of(counter), extension, now);
    let (kind, name, text) = match file {
        File::ListCsv => {
            let listed = view.listed();
            let owner = listed.has_owner().then(|| counters::title(counter));
            let content = [Some(listed.title().to_lowercase()), owner];
            let content = content.into_iter().flatten().collect::<Vec<_>>().join(" ");
            (CSV, file_name(&view, &content, "csv", now), Table::csv(&period, &view).await)
        }
        File::ChartCsv | File::ChartSvg => match (Plot::read(&period, &view, now).await, file) {
            (Ok(plot), File::ChartSvg) => {
                let name = chart(&plot, "svg");
                ("image/svg+xml", name, Ok(rendered(&image(&view, plot, now))?))
            }
            (Ok(plot), _) => (CSV, chart(&plot, "csv"), Ok(chart_csv(&plot))),
            (Err(error), _) => return Ok(failure(dashboard.stats(), &view, &error)),
        },
    };
    Ok(match reader.require_complete().and(text) {
        Ok(text) => {
            let headers = [
                (CONTENT_TYPE, kind.to_owned()),
                (CONTENT_DISPOSITION, format!("attachment; filename=\"{name}\"")),
                (X_CONTENT_TYPE_OPTIONS, "nosniff".to_owned()),
            ];
            (headers, text).into_response()
        }
        Err(error) => failure(dashboard.stats(), &view, &error),
    })
}

/// Returns the name of a file: the site, the content and the period.
fn file_name(view: &View, content: &str, extension: &str, now: Timestamp) -> String {
    let timeline = view.timeline(now);
    let (zone, range) = (&timeline.calendar, timeline.buckets.range());
    let is_days = zone.day(range.start) == range.start && zone.day(range.end) == range.end;
    let (end, style) =
        if is_days { (range.end.min(now.plus(1)).minus(1), "%F") } else { (range.end, "%FT%H%M") };
    let [first, last] = [range.start, end].map(|at| instants::format(zone.local(at), style));
    let period = if first == last { first } else { format!("{first} to {last}") };
    let name = [view.configured_name(), Some(content), Some(&period)];
    let name = name.into_iter().flatten().collect::<Vec<_>>().join(" ");
    let words = name.split(|c: char| !c.is_ascii_alphanumeric() && !['.', '-'].contains(&c));
    let words = words.filter(|word| !word.is_empty()).collect::<Vec<_>>().join("-");
    format!(
        "{}.{extension}",
        words.chars().rev().take(MAX_NAME_CHARS).collect::<String>().chars().rev().collect::<String>()
    )
}

/// Returns the values of the chart, with an empty field if a value is unknown.
fn chart_csv(Plot { lines, starts, metric, .. }: &Plot) -> String {
    let unit = if *metric == Metric::Time { " in ms" } else { "" };
    let names: Vec<_> = lines.iter().map(|line| csv::name(&format!("{}{unit}", line.name))).collect();
    let mut text = format!("start,{}\r\n", names.join(","));
    for (place, start) in starts.iter().enumerate() {
        let values = lines.iter().map(|line| {
            let value = line.points.get(place).and_then(|point| point.count());
            value.map_or_else(String::new, |value| line.unit.plain(value))
        });
        let values = values.collect::<Vec<_>>().join(",");
        write!(text, "{},{values}\r\n", instants::iso(*start)).expect("writing to a string never fails");
    }
    text
}

fn image(view: &View, plot: Plot, now: Timestamp) -> Image {
    let names: Vec<_> = view.chart.counters.iter().map(|counter| plot.metric.column(counter)).collect();
    Image {
        chart: plot.chart,
        title: format!("{}, {}", names.join(", "), view.chart.period.title(&view.site.zone, now)),
    }
}
