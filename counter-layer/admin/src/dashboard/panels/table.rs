//! The table of pages or label values.

use std::fmt::Write;

use counter_core::visits::Uniques;
use counter_core::{CounterName, Error, ErrorKind, Timestamp};
use futures_util::future::{try_join_all, try_join4};

use super::entries::{Columns, Entries, Entry};
use super::facets;
use super::name::Name;
use super::panel::Panel;
use crate::dashboard::chart::spark;
use crate::dashboard::format::numbers;
use crate::dashboard::period_reader::{Before, PeriodReader};
use crate::dashboard::view::table::{Listed, Sort};
use crate::dashboard::view::view::{Page, View};
use crate::text::{csv, digits, escape};

/// The number of rows on a page of a list, and on the first page.
const ROWS_OF_LIST: usize = 50;
const ROWS_OF_SITE: usize = 10;

/// The maximum number of sparkline samples in a single read. If we read more, then a SQL store would scan the
/// samples of all counters instead of looking up some of them.
const MAX_SAMPLES_PER_READ: usize = 9500;

/// A part of a table.
#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) title: String,
    pub(crate) columns: Vec<Heading>,
    pub(crate) rows: Vec<Row>,
    /// Counters that split all requests into parts.
    pub(crate) facets: Vec<Panel>,
    /// The names to suggest for the chart, most hits first.
    pub(crate) suggestions: Vec<String>,
    /// The visible rows and the total number, e.g. `1–50 of 80`.
    pub(crate) shown: String,
    pub(crate) before: Option<String>,
    pub(crate) after: Option<String>,
    /// A hint on omitted entries or a changed sort order.
    pub(crate) note: Option<String>,
    /// What to show instead of rows.
    pub(crate) empty: String,
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
    pub(crate) description: Option<String>,
    /// The URL of its page. Empty if there is none.
    pub(crate) address: String,
    pub(crate) spark: Option<Spark>,
    pub(crate) cells: Vec<Cell>,
    pub(crate) toggle: Option<String>,
    pub(crate) is_shown: bool,
}

/// A small chart of the period.
#[derive(Debug)]
pub(crate) struct Spark {
    pub(crate) path: String,
    pub(crate) label: String,
}

/// A number in a row.
#[derive(Debug)]
pub(crate) struct Cell {
    pub(crate) text: String,
    pub(crate) style: &'static str,
    /// The style of a change.
    pub(crate) change: &'static str,
}

/// The numbers of the rows that are shown.
struct Numbers {
    people: Vec<Option<Uniques>>,
    /// Counts of the period and of the compared period.
    compared: Vec<Before<(u64, u64)>>,
    sparks: Vec<Option<Spark>>,
    lifetimes: Vec<Option<u64>>,
}

impl Table {
    /// Reads a part of the table.
    pub(crate) async fn read(period: &PeriodReader<'_>, view: &View, now: Timestamp) -> Result<Self, Error> {
        let mut entries = Entries::read(period, view).await?;
        let rows_per_part = if view.page == Page::List { ROWS_OF_LIST } else { ROWS_OF_SITE };
        let matching = entries.all.len();
        let leaf = view.table.leaf.min(matching.saturating_sub(1) / rows_per_part);
        let first = leaf * rows_per_part;
        let shown = first..matching.min(first + rows_per_part);
        let names: Vec<_> = entries.all[shown.clone()].iter().map(|entry| entry.hits.clone()).collect();
        let limit = period.visitor_limit(&names);
        if !matches!(entries.columns, Columns::Share(_)) && limit < names.len() {
            let column = view.listed().column();
            entries.notes.push(format!("People of this period are shown for {limit} {column}s only."));
        }
        let description = match matching {
            0 => String::new(),
            _ => {
                let [from, to, all] =
                    [first + 1, shown.end, matching].map(|number| digits::grouped(number as u64));
                format!("{from}–{to} of {all}")
            }
        };
        let mut numbers = Numbers::read(period, &entries, &entries.all[shown.clone()], now).await?;
        let row = |(place, entry)| numbers.row(period, view, &entries, place, entry);
        let rows = entries.all[shown.clone()].iter().enumerate().map(row).collect();
        Ok(Self {
            title: view.listed().title().to_owned(),
            columns: headings(view, &entries),
            rows,
            facets: facets::panels(period.reader, view, &entries.facets),
            suggestions: entries.suggestions,
            shown: description,
            before: leaf.checked_sub(1).map(|leaf| view.address_with(|view| view.table.leaf = leaf)),
            after: (shown.end < matching).then(|| view.address_with(|view| view.table.leaf = leaf + 1)),
            note: (!entries.notes.is_empty()).then(|| entries.notes.join(" ")),
            empty: match (entries.unread, &*view.table.search) {
                (Some(_), _) => {
                    "Views are not kept by the minute, so this list needs a longer period".to_owned()
                }
                (None, "") if entries.notes.is_empty() => "No data yet".to_owned(),
                (None, "") => "No value in this period".to_owned(),
                (None, search) => format!("Nothing contains {}", escape::isolated(search)),
            },
        })
    }

    /// Returns `true` if any row can be added to the chart or removed from it.
    pub(crate) fn has_toggles(&self) -> bool {
        self.rows.iter().any(|row| row.toggle.is_some())
    }

    /// Returns all rows as CSV, in the same order. Hits without a value and of values that are not listed are the final rows,
    /// so that the hits of all rows add up.
    ///
    /// # Errors
    /// Fails if the rows are not known for this period: an empty file would say that there are none.
    pub(crate) async fn csv(period: &PeriodReader<'_>, view: &View) -> Result<String, Error> {
        let listed = view.listed();
        let Entries { all, unit, columns, is_new, unlisted, unread, .. } =
            Entries::read(period, view).await?;
        if let Some(requested) = unread {
            let retained = period.reader.stats.reach().counts.of_views().to_string();
            return Err(Error::new(ErrorKind::UnknownPrecision { requested, retained }));
        }
        let names: Vec<_> = all.iter().map(|entry| entry.hits.clone()).collect();
        let (counts, before) = (period.totals(&names), period.before(&names));
        let unknown = || vec![None; names.len()];
        let people = async {
            let people = match columns {
                Columns::Pages | Columns::People(_) => period.visitors(&names).await?,
                Columns::Share(_) => None,
            };
            Ok(people.unwrap_or_else(|| vec![None; names.len()]))
        };
        let lifetimes = async {
            match columns {
                Columns::Pages => period.reader.lifetimes(&names).await,
                Columns::People(_) | Columns::Share(_) => Ok(unknown()),
            }
        };
        let (counts, before, people, lifetimes) = try_join4(counts, before, people, lifetimes).await?;
        let unit = unit.to_lowercase();
        let mut text = match listed {
            Listed::Pages => "page,people,views,hits,hits_before,hits_all_time\r\n".to_owned(),
            Listed::Values(_) => format!("value,people,{unit},{unit}_before\r\n"),
            _ => format!("{},{unit},{unit}_before\r\n", listed.column()),
        };
        let mut write = |value: &str, numbers: [Option<u64>; 5]| {
            let [people, views, count, before, lifetime] = numbers;
            let numbers = match listed {
                Listed::Pages => vec![people, views, count, before, lifetime],
                Listed::Values(_) => vec![people, count, before],
                _ => vec![count, before],
            };
            let numbers: Vec<_> = numbers.into_iter().map(csv::number).collect();
            write!(text, "{},{}\r\n", csv::name(value), numbers.join(","))
                .expect("writing to a string never fails");
        };
        for (place, entry) in all.iter().enumerate() {
            let people = people[place].map(|people| period.at_most(people.visitors, counts[place]));
            let views = entry.total.filter(|_| unit == "views");
            let before = Some(before[place]).filter(|before| !(is_new && before.is_new()));
            let before = before.and_then(Before::total);
            write(&entry.value, [people, views, counts[place], before, lifetimes[place]]);
        }
        for (value, count) in unlisted {
            write(value, [None, None, count, None, None]);
        }
        Ok(text)
    }
}

impl Numbers {
    async fn read(
        period: &PeriodReader<'_>,
        entries: &Entries,
        shown: &[Entry],
        now: Timestamp,
    ) -> Result<Self, Error> {
        let hits: Vec<_> = shown.iter().map(|entry| entry.hits.clone()).collect();
        let counted: Vec<_> = shown.iter().map(|entry| entry.counted.clone()).collect();
        let mut numbers = Self {
            people: vec![None; shown.len()],
            compared: Vec::new(),
            sparks: shown.iter().map(|_| None).collect(),
            lifetimes: vec![None; shown.len()],
        };
        let compared = async {
            let before = period.before(&counted).await?;
            Ok(shown.iter().zip(before).map(|(entry, before)| before.with(entry.total)).collect())
        };
        let people = match entries.columns {
            _ if shown.is_empty() => None,
            Columns::People(coverage) => {
                let people = period.people_with(&hits, coverage).await?;
                numbers.compared = people.compared;
                people.all
            }
            Columns::Share(_) => {
                numbers.compared = compared.await?;
                None
            }
            Columns::Pages => {
                let people;
                (people, numbers.compared, numbers.lifetimes, numbers.sparks) = try_join4(
                    period.visitors(&hits),
                    compared,
                    period.reader.lifetimes(&counted),
                    sparks(period, &hits, &counted, now),
                )
                .await?;
                people
            }
        };
        numbers.people = people.unwrap_or(numbers.people);
        Ok(numbers)
    }

    fn row(
        &mut self,
        period: &PeriodReader<'_>,
        view: &View,
        entries: &Entries,
        place: usize,
        entry: &Entry,
    ) -> Row {
        let number = |text: Option<String>| Cell {
            text: text.unwrap_or_else(numbers::unknown),
            style: "number",
            change: "",
        };
        let people = number(self.people[place].map(|people| {
            // People who only sent other requests have no view.
            let limit = entry.total.filter(|_| entry.hits == entry.counted);
            digits::grouped(period.at_most(people.visitors, limit))
        }));
        let total = number(entry.total.map(digits::grouped));
        let is_known = |before: &Before<_>| !(entries.is_new && before.is_new());
        let change = Some(self.compared[place]).filter(is_known).and_then(Before::change);
        let change = match change.map(|change| if entries.is_neutral { change.neutral() } else { change }) {
            Some(change) => Cell { change: change.style, ..number(Some(change.text)) },
            None => number(None),
        };
        let lifetime = number(self.lifetimes[place].map(digits::grouped));
        let lifetime = Some(Cell { style: "number wide", ..lifetime }).filter(|_| !view.is_shared);
        Row {
            name: Name::new(&entry.name),
            description: entry.description.clone(),
            address: entry.link.as_ref().map(|link| view.counter(link)).unwrap_or_default(),
            spark: self.sparks[place].take(),
            cells: match entries.columns {
                Columns::Pages => [people, total, change].into_iter().chain(lifetime).collect(),
                Columns::People(_) => vec![people, change, total],
                Columns::Share(whole) => {
                    let share = entry.total.and_then(|total| period.reader.share(total, whole));
                    vec![total, change, number(share)]
                }
            },
            toggle: view.toggled(&entry.hits).filter(|_| view.page == Page::Site),
            is_shown: view.chart.counters.contains(&entry.hits),
        }
    }
}

/// Reads the small charts of counters: of their views if these are kept for the buckets, and otherwise of their hits.
pub(crate) async fn sparks(
    period: &PeriodReader<'_>,
    hits: &[CounterName],
    counted: &[CounterName],
    now: Timestamp,
) -> Result<Vec<Option<Spark>>, Error> {
    let (reader, buckets) = (period.reader, &period.timeline.buckets);
    let (precision, range) = (buckets.read.precision, buckets.range());
    // The intervals of the chart may be shorter than those of views.
    let is_kept = reader.stats.reach().counts.of_views().retention(precision).is_some();
    let trends = if is_kept { counted } else { hits };
    let counters_per_read = (MAX_SAMPLES_PER_READ / precision.starts(range.clone()).count().max(1)).max(1);
    let series =
        trends.chunks(counters_per_read).map(|names| reader.series_many(names, precision, range.clone()));
    let series = try_join_all(series).await?;
    // We skip the current bucket because it is incomplete, so all lines would drop at the end.
    let whole = buckets.bucket_ranges().filter(|bucket| bucket.end <= now).count();
    let spark = |series: Option<counter_core::Series>| {
        let counts: Vec<_> = buckets.counts(series.as_ref()).into_iter().take(whole).flatten().collect();
        let [min, max] = [counts.iter().min(), counts.iter().max()]
            .map(|count| digits::grouped(count.copied().unwrap_or_default()));
        Some(Spark { path: spark::spark(&counts), label: format!("between {min} and {max}") })
    };
    Ok(series.into_iter().flatten().map(spark).collect())
}

fn headings(view: &View, entries: &Entries) -> Vec<Heading> {
    let name = match view.listed() {
        Listed::Pages | Listed::PagesOfValue(..) => "Page",
        Listed::Values(_) | Listed::ValuesOfPage(..) => "Name",
    };
    let name = ("name", name, Some(Sort::Name), "name");
    let people = ("people", "People", Some(Sort::People), "number");
    let total = ("total", entries.unit, Some(Sort::Total), "number");
    let change = ("change", "Change", Some(Sort::Change), "number");
    let columns = match entries.columns {
        Columns::Pages => {
            let lifetime = ("lifetime", "All time", Some(Sort::Lifetime), "number wide");
            let lifetime = Some(lifetime).filter(|_| !view.is_shared);
            [name, ("spark", "Trend", None, "wide"), people, total, change]
                .into_iter()
                .chain(lifetime)
                .collect()
        }
        Columns::People(_) => vec![name, people, change, total],
        Columns::Share(_) => vec![name, total, change, ("share", "Share", None, "number")],
    };
    // The first page shows the rows with the highest total.
    let can_sort = view.page == Page::List;
    let heading = |(id, title, sort, style): (_, _, Option<Sort>, _)| Heading {
        id,
        title,
        address: sort
            .filter(|_| can_sort)
            .map(|sort| view.address_with(|view| (view.table.sort, view.table.leaf) = (Some(sort), 0))),
        order: match sort {
            Some(Sort::Name) if entries.order == Sort::Name => "ascending",
            Some(sort) if entries.order == sort => "descending",
            _ => "none",
        },
        style,
    };
    columns.into_iter().map(heading).collect()
}
