//! The table of pages.

use std::cmp::Reverse;
use std::fmt::Write;

use counter_core::{CounterName, Error, Timestamp};
use futures_util::future::{try_join, try_join_all, try_join4};

use super::facets;
use super::name::Name;
use super::panel::Panel;
use crate::dashboard::chart::spark;
use crate::dashboard::format::numbers::{self, Change};
use crate::dashboard::period_reader::PeriodReader;
use crate::dashboard::view::table::Sort;
use crate::dashboard::view::view::View;
use crate::kind::Kind;
use crate::text::{csv, digits};
use counter_layer::internal::HITS;

/// The number of rows on a table page.
const ROWS_PER_PAGE: usize = 10;

/// The maximum number of counters to read.
const MAX_COUNTERS: usize = 10_000;

/// The maximum number of names that the form suggests.
const MAX_SUGGESTIONS: usize = 100;

/// The maximum number of sparkline samples in a single read. If we read more, then a SQL store would scan the
/// samples of all counters instead of looking up some of them.
const MAX_SAMPLES_PER_READ: usize = 9500;

/// A page of the table.
#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) columns: Vec<Heading>,
    pub(crate) rows: Vec<Row>,
    /// Counters that split all requests into parts.
    pub(crate) facets: Vec<Panel>,
    /// The names to suggest for the chart, most hits first.
    pub(crate) suggestions: Vec<String>,
    /// The visible rows and the total number, e.g. `1–10 of 80`.
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
    pub(crate) title: &'static str,
    pub(crate) address: Option<String>,
    /// The value of `aria-sort`.
    pub(crate) order: &'static str,
    pub(crate) style: &'static str,
}

/// A row of the table.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) name: Name,
    pub(crate) address: String,
    pub(crate) toggle: Option<String>,
    pub(crate) is_shown: bool,
    pub(crate) spark: String,
    pub(crate) spark_label: String,
    pub(crate) total: String,
    pub(crate) people: Option<String>,
    pub(crate) change: Option<Change>,
    pub(crate) lifetime: String,
}

/// A counter with a sort key.
struct Entry {
    name: CounterName,
    /// The views of the page if the site counts them, and otherwise its hits.
    counted: CounterName,
    /// `None` if it was not readable.
    total: Option<u64>,
    /// The sort key. Unknown values are sorted to the end.
    sort_key: Option<u64>,
}

/// The entries of a table, sorted as requested.
struct Entries {
    all: Vec<Entry>,
    has_views: bool,
    facets: Vec<(CounterName, Option<u64>)>,
    suggestions: Vec<String>,
    note: Option<String>,
}

impl Table {
    pub(crate) async fn read(period: &PeriodReader<'_>, view: &View, now: Timestamp) -> Result<Self, Error> {
        let Entries { all, has_views, facets, suggestions, mut note } = Entries::read(period, view).await?;
        let limit = period.visitor_limit();
        if limit < ROWS_PER_PAGE.min(all.len()) {
            note.get_or_insert_with(|| format!("People of this period are shown for {limit} pages only."));
        }
        let leaf = view.table.leaf.min(all.len().saturating_sub(1) / ROWS_PER_PAGE);
        let matching = all.len();
        let entries: Vec<_> = all.into_iter().skip(leaf * ROWS_PER_PAGE).take(ROWS_PER_PAGE).collect();
        let first = leaf * ROWS_PER_PAGE + 1;
        let shown = match matching {
            0 => String::new(),
            _ => {
                let [first, last, all] =
                    [first, first + entries.len() - 1, matching].map(|number| digits::grouped(number as u64));
                format!("{first}–{last} of {all}")
            }
        };
        Ok(Self {
            columns: headings(view, has_views),
            rows: rows(period, view, &entries, has_views, now).await?,
            facets: facets::panels(view, &facets),
            suggestions,
            shown,
            before: leaf.checked_sub(1).map(|leaf| view.address_with(|view| view.table.leaf = leaf)),
            after: (first + entries.len() <= matching)
                .then(|| view.address_with(|view| view.table.leaf = leaf + 1)),
            note,
        })
    }

    /// Returns the rows of all pages of the table as CSV, in the same order.
    pub(crate) async fn csv(period: &PeriodReader<'_>, view: &View) -> Result<String, Error> {
        let Entries { all, has_views, .. } = Entries::read(period, view).await?;
        let names: Vec<_> = all.iter().map(|entry| entry.name.clone()).collect();
        let (hits, before) = (period.totals(&names), period.totals_before(&names));
        let (hits, before, people, lifetimes) =
            try_join4(hits, before, period.visitors(&names), period.reader.lifetimes(&names)).await?;
        let mut text = "page,people,views,hits,hits_before,hits_all_time\r\n".to_owned();
        for (place, Entry { name, total, .. }) in all.iter().enumerate() {
            let people = people.as_ref().and_then(|people| people[place]);
            let people = people.map(|people| period.at_most(people.visitors, hits[place]));
            let views = total.filter(|_| has_views);
            let numbers =
                [people, views, hits[place], before[place], lifetimes[place]].map(csv::number).join(",");
            write!(text, "{},{numbers}\r\n", csv::name(name)).expect("writing to a string never fails");
        }
        Ok(text)
    }
}

impl Entries {
    async fn read(period: &PeriodReader<'_>, view: &View) -> Result<Self, Error> {
        let ((names, is_cut), has_views) =
            try_join(period.reader.counters(MAX_COUNTERS), period.counts_views()).await?;
        let is_facet = |name: &CounterName| **name == *HITS || Kind::Facet.has(name);
        let (facets, names): (Vec<_>, Vec<_>) = names.into_iter().partition(is_facet);
        let counted = |name: &CounterName| name.views().filter(|_| has_views).unwrap_or_else(|| name.clone());
        let counted: Vec<_> = names.iter().map(counted).collect();
        let (facet_totals, totals) = try_join(period.totals(&facets), period.totals(&counted)).await?;
        let facets: Vec<_> = facets.into_iter().zip(facet_totals).collect();
        let entry = |((name, counted), total)| Entry { name, counted, total, sort_key: total };
        let mut all: Vec<_> = names.into_iter().zip(counted).zip(totals).map(entry).collect();
        all.sort_by_key(|entry| Reverse(entry.sort_key));
        let suggestions = facets.iter().map(|(name, _)| name).filter(|name| ***name == *HITS);
        let suggestions = suggestions.chain(all.iter().map(|entry| &entry.name));
        let suggestions = suggestions.take(MAX_SUGGESTIONS).map(ToString::to_string).collect();
        let query = view.table.search.to_lowercase();
        all.retain(|entry| query.is_empty() || entry.name.to_lowercase().contains(&query));
        // Equal entries are sorted by name.
        all.sort_by(|one, other| one.name.cmp(&other.name));
        let mut note = is_cut
            .then(|| format!("Only the first {} counters are listed.", digits::grouped(MAX_COUNTERS as u64)));
        if !order(period, view, &mut all).await? {
            note = Some(format!(
                "Not sorted by people, which is possible for at most {} pages. Search to narrow the list.",
                digits::grouped(period.visitor_limit() as u64)
            ));
        }
        Ok(Self { all, has_views, facets, suggestions, note })
    }
}

/// Sorts the entries, and returns `false` if the requested order is not possible.
async fn order(period: &PeriodReader<'_>, view: &View, entries: &mut [Entry]) -> Result<bool, Error> {
    let names: Vec<_> = entries.iter().map(|entry| entry.name.clone()).collect();
    let counted: Vec<_> = entries.iter().map(|entry| entry.counted.clone()).collect();
    let mut sorted = true;
    match view.table.sort {
        Sort::Name => return Ok(true),
        Sort::Total => {}
        Sort::Lifetime => {
            for (entry, lifetime) in entries.iter_mut().zip(period.reader.lifetimes(&counted).await?) {
                entry.sort_key = lifetime;
            }
        }
        Sort::Change => {
            for (entry, before) in entries.iter_mut().zip(period.compared_totals(&counted).await?) {
                // In thousandths of the previous count. New counters are sorted to the end.
                entry.sort_key = entry.total.zip(before).map(|(total, before)| {
                    let part = (u128::from(total) * 1000).checked_div(u128::from(before));
                    u64::try_from(part.map_or(0, |part| part.saturating_add(1))).unwrap_or(u64::MAX)
                });
            }
        }
        Sort::People if names.len() > period.visitor_limit() => sorted = false,
        Sort::People => {
            let people = period.visitors(&names).await?;
            for (entry, people) in entries.iter_mut().zip(people.into_iter().flatten()) {
                entry.sort_key = people.map(|people| people.visitors);
            }
        }
    }
    entries.sort_by_key(|entry| Reverse(entry.sort_key));
    Ok(sorted)
}

async fn rows(
    period: &PeriodReader<'_>,
    view: &View,
    entries: &[Entry],
    has_views: bool,
    now: Timestamp,
) -> Result<Vec<Row>, Error> {
    if entries.is_empty() {
        return Ok(Vec::new());
    }
    let names: Vec<_> = entries.iter().map(|entry| entry.name.clone()).collect();
    let counted: Vec<_> = entries.iter().map(|entry| entry.counted.clone()).collect();
    let (reader, buckets) = (period.reader, &period.timeline.buckets);
    let (precision, range) = (buckets.read.precision, buckets.range());
    // The intervals of the chart may be shorter than those of views.
    let is_kept = reader.stats.reach().counts.of_views().retention(precision).is_some();
    let trends = if is_kept { &counted } else { &names };
    let counters_per_read = (MAX_SAMPLES_PER_READ / precision.starts(range.clone()).count().max(1)).max(1);
    let series =
        trends.chunks(counters_per_read).map(|names| reader.series_many(names, precision, range.clone()));
    let (series, previous_totals, lifetimes, uniques) = try_join4(
        try_join_all(series),
        period.compared_totals(&counted),
        reader.lifetimes(&counted),
        period.visitors(&names),
    )
    .await?;
    let people = |index: usize| uniques.as_ref().and_then(|uniques| uniques.get(index).copied().flatten());
    // We skip the current bucket because it is incomplete, so all lines would drop at the end.
    let whole = buckets.bucket_ranges().filter(|bucket| bucket.end <= now).count();
    let mut rows = Vec::with_capacity(entries.len());
    let read = entries.iter().zip(series.into_iter().flatten()).zip(previous_totals).zip(lifetimes);
    for (index, (((entry, series), before), lifetime)) in read.enumerate() {
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
            name: Name::new(&entry.name),
            total: entry.total.map_or_else(numbers::unknown, digits::grouped),
            people: people(index).map(|people| {
                // People who only sent other requests have no view.
                digits::grouped(period.at_most(people.visitors, entry.total.filter(|_| !has_views)))
            }),
            change: entry.total.zip(before).and_then(|(total, before)| numbers::change(total, before)),
            lifetime: lifetime.map_or_else(numbers::unknown, digits::grouped),
        });
    }
    Ok(rows)
}

fn headings(view: &View, has_views: bool) -> Vec<Heading> {
    let columns = [
        ("name", "Page", Some(Sort::Name), "name"),
        ("spark", "Trend", None, "wide"),
        ("people", "People", Some(Sort::People), "number"),
        ("total", if has_views { "Views" } else { "Hits" }, Some(Sort::Total), "number"),
        ("change", "Change", Some(Sort::Change), "number"),
        ("lifetime", "All time", Some(Sort::Lifetime), "number wide"),
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
