//! The counter table and the top pages.

use std::cmp::Reverse;

use counter_core::{CounterName, Error, Timestamp};
use futures_util::future::{try_join_all, try_join4};

use super::facets::Panel;
use super::period::Period;
use crate::dashboard::chart::spark;
use crate::dashboard::format::numbers::{self, Change};
use crate::dashboard::format::units;
use crate::dashboard::reader::Reader;
use crate::dashboard::view::table::Sort;
use crate::dashboard::view::view::View;
use crate::kind::Kind;
use crate::text::digits;
use counter_layer::internal::HITS;

/// The number of rows on a table page.
const ROWS_PER_PAGE: usize = 25;
/// The maximum number of top pages.
const MAX_TOP_PAGES: usize = 8;
/// The maximum number of counters to read.
const MAX_COUNTERS: usize = 10_000;

/// The maximum number of sparkline samples in a single read. If we read more, then a SQL store would scan the
/// samples of all counters instead of looking up some of them.
const MAX_SAMPLES_PER_READ: usize = 9500;

/// A page of the table.
#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) columns: Vec<Heading>,
    pub(crate) rows: Vec<Row>,
    pub(crate) top: Vec<Top>,
    /// Counters that split all requests into parts.
    pub(crate) facets: Vec<Panel>,
    /// The visible rows and the total number, e.g. `1–25 of 80`.
    pub(crate) shown: String,
    pub(crate) before: Option<String>,
    pub(crate) after: Option<String>,
    /// A hint on omitted counters or a changed sort order.
    pub(crate) note: Option<String>,
}

/// A column heading.
#[derive(Debug)]
pub(crate) struct Heading {
    pub(crate) id: &'static str,
    pub(crate) title: String,
    pub(crate) address: Option<String>,
    /// The value of `aria-sort`.
    pub(crate) order: &'static str,
    pub(crate) style: &'static str,
}

/// A row of the counter table.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) address: String,
    pub(crate) toggle: Option<String>,
    pub(crate) is_shown: bool,
    pub(crate) spark: String,
    pub(crate) spark_label: String,
    pub(crate) total: String,
    pub(crate) share: Option<String>,
    pub(crate) visitors: Option<String>,
    pub(crate) change: Option<Change>,
    pub(crate) lifetime: String,
}

/// An entry of the top pages.
#[derive(Debug)]
pub(crate) struct Top {
    pub(crate) name: String,
    pub(crate) address: String,
    pub(crate) total: String,
    /// Percentage relative to the top entry.
    pub(crate) percent: u64,
}

/// A counter with a sort key.
struct Entry {
    name: CounterName,
    /// `None` if it was not readable.
    total: Option<u64>,
    /// The sort key. Unknown values are sorted to the end.
    sort_key: Option<u64>,
}

impl Table {
    pub(crate) async fn read(
        reader: &Reader<'_>,
        view: &View,
        period: &Period,
        now: Timestamp,
    ) -> Result<Self, Error> {
        let (names, is_cut) = reader.counters(MAX_COUNTERS).await?;
        let totals = period.totals(reader, &names).await?;
        let entries: Vec<_> = names
            .into_iter()
            .zip(totals)
            .map(|(name, total)| Entry { name, total, sort_key: total })
            .collect();
        let hits = entries.iter().find(|entry| *entry.name == *HITS).map_or(Some(0), |entry| entry.total);
        let top = top(view, &entries);
        let (facet_totals, mut entries): (Vec<_>, Vec<_>) =
            entries.into_iter().partition(|entry| *entry.name == *HITS || Kind::Facet.has(&entry.name));
        let facet_totals = facet_totals.iter().map(|entry: &Entry| (&entry.name, entry.total));
        let facets = Panel::all(view, facet_totals, hits);
        let query = view.table.search.to_lowercase();
        entries.retain(|entry| query.is_empty() || entry.name.to_lowercase().contains(&query));
        let mut note = is_cut
            .then(|| format!("Only the first {} counters are listed.", digits::grouped(MAX_COUNTERS as u64)));
        if !order(reader, view, period, &mut entries).await? {
            note = Some(format!(
                "Sorted by hits: sorting by visitors supports at most {} counters. Search to narrow the list.",
                digits::grouped(period.visitor_limit(&reader.stats.grid().visitors) as u64)
            ));
        }

        let visitor_limit = period.visitor_limit(&reader.stats.grid().visitors);
        if visitor_limit < ROWS_PER_PAGE.min(entries.len()) {
            note.get_or_insert_with(|| {
                format!(
                    "Visitors are shown for {visitor_limit} counters only: too much data {}.",
                    period.name
                )
            });
        }
        let leaf = view.table.leaf.min(entries.len().saturating_sub(1) / ROWS_PER_PAGE);
        let matching = entries.len();
        let entries: Vec<_> = entries.into_iter().skip(leaf * ROWS_PER_PAGE).take(ROWS_PER_PAGE).collect();
        let first = leaf * ROWS_PER_PAGE + 1;
        let shown = match matching {
            0 => "No counters".to_owned(),
            _ => format!("{first}–{} of {}", first + entries.len() - 1, digits::grouped(matching as u64)),
        };
        Ok(Self {
            columns: headings(view, period),
            rows: rows(reader, view, period, &entries, hits, now).await?,
            top,
            facets,
            shown,
            before: leaf.checked_sub(1).map(|leaf| view.address_with(|view| view.table.leaf = leaf)),
            after: (first + entries.len() <= matching)
                .then(|| view.address_with(|view| view.table.leaf = leaf + 1)),
            note,
        })
    }
}

/// Sorts the entries, and returns `false` if the requested order is not possible.
async fn order(
    reader: &Reader<'_>,
    view: &View,
    period: &Period,
    entries: &mut [Entry],
) -> Result<bool, Error> {
    let names: Vec<_> = entries.iter().map(|entry| entry.name.clone()).collect();
    let mut sorted = true;
    match view.table.sort {
        Sort::Name => return Ok(true),
        Sort::Total => {}
        Sort::Lifetime => {
            for (entry, lifetime) in entries.iter_mut().zip(reader.lifetimes(&names).await?) {
                entry.sort_key = lifetime;
            }
        }
        Sort::Change => {
            for (entry, before) in entries.iter_mut().zip(period.previous_totals(reader, &names).await?) {
                // In thousandths of the previous count. New counters are sorted to the end.
                entry.sort_key = entry.total.map(|total| {
                    let part = (u128::from(total) * 1000).checked_div(u128::from(before));
                    u64::try_from(part.map_or(0, |part| part.saturating_add(1))).unwrap_or(u64::MAX)
                });
            }
        }
        Sort::Uniques if names.len() > period.visitor_limit(&reader.stats.grid().visitors) => sorted = false,
        Sort::Uniques => {
            let uniques = period.visitors(reader, &names).await?;
            for (entry, uniques) in entries.iter_mut().zip(uniques.into_iter().flatten()) {
                entry.sort_key = uniques.map(|uniques| uniques.visitors);
            }
        }
    }
    // The sort is stable, so equal entries are sorted by name.
    entries.sort_by_key(|entry| Reverse(entry.sort_key));
    Ok(sorted)
}

async fn rows(
    reader: &Reader<'_>,
    view: &View,
    period: &Period,
    entries: &[Entry],
    hits: Option<u64>,
    now: Timestamp,
) -> Result<Vec<Row>, Error> {
    if entries.is_empty() {
        return Ok(Vec::new());
    }
    let names: Vec<_> = entries.iter().map(|entry| entry.name.clone()).collect();
    let buckets = view.buckets(now);
    let (precision, range) = (buckets.read.precision, buckets.range());
    let counters_per_read = (MAX_SAMPLES_PER_READ / precision.starts(range.clone()).count().max(1)).max(1);
    let series =
        names.chunks(counters_per_read).map(|names| reader.series_many(names, precision, range.clone()));
    let (series, previous_totals, lifetimes, uniques) = try_join4(
        try_join_all(series),
        period.previous_totals(reader, &names),
        reader.lifetimes(&names),
        period.visitors(reader, &names),
    )
    .await?;
    let visitors = |index: usize| uniques.as_ref().and_then(|uniques| uniques.get(index).copied().flatten());
    // We skip the current bucket because it is incomplete, so all lines would drop at the end.
    let mut rows = Vec::with_capacity(entries.len());
    let read = entries.iter().zip(series.into_iter().flatten()).zip(previous_totals).zip(lifetimes);
    for (index, (((entry, series), before), lifetime)) in read.enumerate() {
        let whole = buckets.bucket_ranges().filter(|bucket| bucket.end <= now).count();
        let counts: Vec<_> = buckets.counts(series.as_ref()).into_iter().take(whole).flatten().collect();
        let (min, max) = (counts.iter().min().copied(), counts.iter().max().copied());
        rows.push(Row {
            address: view.counter(&entry.name),
            toggle: view.toggled(&entry.name),
            is_shown: view.chart.counters.contains(&entry.name),
            spark: spark::spark(&counts),
            spark_label: format!(
                "between {} and {}",
                digits::grouped(min.unwrap_or_default()),
                digits::grouped(max.unwrap_or_default())
            ),
            name: entry.name.to_string(),
            total: entry.total.map_or_else(numbers::unknown, digits::grouped),
            share: entry.total.zip(hits).and_then(|(total, hits)| numbers::share(total, hits)),
            visitors: visitors(index).map(|uniques| digits::grouped(uniques.visitors)),
            change: entry.total.and_then(|total| numbers::change(total, before)),
            lifetime: lifetime.map_or_else(numbers::unknown, digits::grouped),
        });
    }
    Ok(rows)
}

fn top(view: &View, entries: &[Entry]) -> Vec<Top> {
    let known = entries.iter().filter_map(|entry| Some((&entry.name, entry.total?)));
    let mut pages: Vec<_> = known.filter(|(name, total)| *total > 0 && Kind::Page.has(name)).collect();
    pages.sort_by_key(|(_, total)| Reverse(*total));
    let max = pages.first().map_or(1, |(_, total)| *total);
    let top = |(name, total): &(&CounterName, u64)| Top {
        name: name.to_string(),
        address: view.counter(name),
        total: digits::grouped(*total),
        percent: numbers::percent(*total, max),
    };
    pages.iter().take(MAX_TOP_PAGES).map(top).collect()
}

fn headings(view: &View, period: &Period) -> Vec<Heading> {
    let width = u64::from(view.chart.precision.precision.as_seconds());
    let columns = [
        ("name", "Counter".to_owned(), Some(Sort::Name), "name"),
        ("spark", format!("Trend ({})", units::span(width * u64::from(view.chart.span))), None, "wide"),
        ("total", format!("Hits {}", period.name), Some(Sort::Total), "number"),
        ("share", "Share".to_owned(), None, "number wide"),
        ("uniques", "Visitors".to_owned(), Some(Sort::Uniques), "number"),
        ("change", "Change".to_owned(), Some(Sort::Change), "number wide"),
        ("lifetime", "All time".to_owned(), Some(Sort::Lifetime), "number wide"),
    ];
    columns
        .into_iter()
        .map(|(id, title, sort, style)| Heading {
            id,
            title,
            address: sort
                .map(|sort| view.address_with(|view| (view.table.sort, view.table.leaf) = (sort, 0))),
            order: match sort {
                Some(Sort::Name) if view.table.sort == Sort::Name => "ascending",
                Some(sort) if view.table.sort == sort => "descending",
                _ => "none",
            },
            style,
        })
        .collect()
}
