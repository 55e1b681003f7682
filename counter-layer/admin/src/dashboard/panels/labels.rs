//! The label panels, e.g. for referrers.

use std::collections::HashMap;

use counter_core::visits::LabelRanking;
use counter_core::{CounterName, Error};
use counter_layer::SourceGroup;
use counter_layer::internal::{BOT_LABEL, SOURCE_LABEL};
use futures_util::future::{try_join, try_join_all};

use super::bots;
use super::missing;
use super::name::Name;
use super::panel::{self, Panel, PanelRow, Role};
use super::people::{self, LabelPeople, ValuePeople, counter};
use crate::dashboard::format::counters;
use crate::dashboard::format::instants;
use crate::dashboard::format::names;
use crate::dashboard::format::numbers;
use crate::dashboard::period_reader::PeriodReader;
use crate::text::digits;

const REFERRER: &str = "referrer";

/// The maximum number of values to show for a label.
const MAX_VALUES: usize = 8;

const ADDRESS: &str = "address";

/// The numbers of a row without people.
const OF_HITS: [&str; 2] = ["Hits", "Share"];

/// Labels with a value for all bots.
const OF_CLIENTS: [&str; 2] = ["browser", "device"];
const BOTS: &str = "bot";

/// The maximum number of pages to show for a value.
const MAX_PAGES: usize = 20;

/// The maximum number of labels, which is also the limit per process.
const MAX_PANELS: usize = 16;

/// Titles for the built-in labels. Custom labels are shown by name.
const TITLES: [(&str, &str); 14] = [
    (ADDRESS, "Addresses"),
    (BOT_LABEL, "Crawlers"),
    (counters::BROKEN_LINKS, "Broken links"),
    ("browser", "Browsers"),
    ("campaign", "Campaigns"),
    ("content", "Campaign contents"),
    ("country", "Countries"),
    ("device", "Devices"),
    ("language", "Languages"),
    ("medium", "Campaign mediums"),
    (counters::MISSING_PAGES, "Missing pages"),
    (REFERRER, "Referrers"),
    (SOURCE_LABEL, "Sources"),
    ("term", "Campaign terms"),
];

/// Labels to read without a round trip to find them. The store reads some names in vain for each that does not exist, so
/// rare labels are not listed.
const EXPECTED: [&str; 8] =
    [ADDRESS, BOT_LABEL, "browser", "campaign", "device", "language", REFERRER, SOURCE_LABEL];

/// Labels to read for a page.
const EXPECTED_OF_PAGE: [&str; 4] = [ADDRESS, BOT_LABEL, "device", REFERRER];

/// Rankings by label.
type Rankings = Vec<(String, Result<LabelRanking, Error>)>;

/// Totals in the compared period, by label and value.
type Before = HashMap<(String, String), Option<u64>>;

/// Reads the panels of all labels, sorted by name. `address` maps a counter to the URL of the counter page.
pub(crate) async fn panels(
    period: &PeriodReader<'_>,
    address: impl Fn(&CounterName) -> String,
) -> Result<Vec<Panel>, Error> {
    let (precision, range) = period.precision();
    let labels = period.reader.stats.label_rankings(&EXPECTED, precision, range, bots::MAX_BOTS).await?;
    compare(period, labels, None, address).await
}

/// Reads the panels of all labels for a page.
pub(crate) async fn panels_of_page(
    period: &PeriodReader<'_>,
    page: &CounterName,
    address: impl Fn(&CounterName) -> String,
) -> Result<Vec<Panel>, Error> {
    let (precision, range) = period.precision();
    let stats = period.reader.stats;
    let labels = stats.labels_of_page(&EXPECTED_OF_PAGE, page, precision, range, bots::MAX_BOTS).await?;
    compare(period, labels, Some(page), address).await
}

/// Reads the panel of the pages of a label value. Returns `None` if there are no pairs of this value.
pub(crate) async fn pages(
    period: &PeriodReader<'_>,
    label: &str,
    value: &str,
    address: impl Fn(&CounterName) -> String,
) -> Result<Option<Panel>, Error> {
    let (precision, range) = period.precision();
    let ranking = period.reader.stats.pages_of_value(label, value, precision, range, MAX_PAGES).await?;
    if ranking.values.is_empty() {
        return Ok(None);
    }
    let pair = |page: &str| CounterName::of_pair(label, page, value);
    let names: Vec<_> = ranking.values.iter().filter_map(|(page, _)| pair(page)).collect();
    let before = period.compared_totals(&names).await?;
    let before: HashMap<_, _> = names.into_iter().zip(before).collect();
    let before = |page: &str| before.get(&pair(page)?).copied().flatten();
    let address = |page: &str| CounterName::new(page).ok().map(|page| address(&page));
    let panel = panel(ranking, ["without a value", "elsewhere"], before, address);
    Ok(Some(Panel { id: "pages".to_owned(), title: "Pages".to_owned(), ..panel }))
}

/// Creates the panels of labels, for a page if it is set, with the change from the compared period.
async fn compare(
    period: &PeriodReader<'_>,
    labels: Rankings,
    page: Option<&CounterName>,
    address: impl Fn(&CounterName) -> String,
) -> Result<Vec<Panel>, Error> {
    let of_page = page.is_some();
    let kinds: HashMap<_, _> =
        SourceGroup::all().map(|group| (group.name(), group.kind().as_str())).collect();
    let counter_of = |label: &str, value: &str| match page {
        None => counter(label, value),
        Some(page) => CounterName::of_pair(label, page, value),
    };
    let labels = labels.into_iter().take(MAX_PANELS).map(|(label, ranking)| Ok((label, ranking?)));
    let mut labels: Vec<(String, LabelRanking)> = labels.collect::<Result<_, Error>>()?;
    for (_, ranking) in labels.iter_mut().filter(|(label, _)| OF_CLIENTS.contains(&&**label)) {
        remove_bots(ranking);
    }
    let of_label = |(label, ranking): &(String, LabelRanking)| {
        let max = if label == BOT_LABEL { bots::MAX_BOTS } else { MAX_VALUES };
        let values = ranking.values.iter().take(max);
        values
            .filter_map(|(value, _)| Some(((label.clone(), value.clone()), counter_of(label, value)?)))
            .collect::<Vec<_>>()
    };
    let (values, names): (Vec<_>, Vec<_>) = labels.iter().flat_map(of_label).unzip();
    let people = try_join_all(labels.iter().map(async |(label, ranking)| match page {
        None => LabelPeople::read(period, label, ranking).await,
        Some(_) => Ok(None),
    }));
    let (before, people) = try_join(period.compared_totals(&names), people).await?;
    let before: Before = values.into_iter().zip(before).collect();
    let links = labels.iter().find(|(label, _)| label == counters::BROKEN_LINKS);
    let links = links.map(|(_, ranking)| ranking.values.clone()).unwrap_or_default();
    let panel = |((label, mut ranking), people): ((String, LabelRanking), Option<LabelPeople>)| {
        let before = |value: &str| before.get(&(label.clone(), value.to_owned())).copied().flatten();
        let address = |value: &str| counter(&label, value).map(|counter| address(&counter));
        if label == BOT_LABEL {
            let (people, others) = (ranking.none, ranking.total.saturating_sub(ranking.none));
            let clients = bots::Clients { people, others, of_page, limits: limits(&ranking) };
            return bots::panel(ranking.values, &clients, &before, &address);
        }
        ranking.values.truncate(MAX_VALUES);
        let title = TITLES.iter().find(|(known, _)| *known == label).map_or(&*label, |(_, title)| title);
        let others = match ranking.values.is_empty() {
            _ if of_page => "not attributed",
            true => "with rare or invalid values",
            false => "with other values",
        };
        let none = if [REFERRER, SOURCE_LABEL].contains(&&*label) { "direct" } else { "without a value" };
        let mut panel = match people {
            Some(people) => panel_of_people(period, &label, &ranking, people, others, address),
            None => panel(ranking, [none, others], before, address),
        };
        for row in &mut panel.rows {
            match &*label {
                counters::MISSING_PAGES => {
                    row.description = missing::linking_hosts(&row.name.whole, &links);
                    missing::describe(row);
                }
                counters::BROKEN_LINKS => missing::describe(row),
                SOURCE_LABEL => row.description = kinds.get(&*row.name.whole).map(|kind| (*kind).to_owned()),
                _ => row.name = Name::new(&names::readable(&label, &row.name.whole)),
            }
        }
        if CounterName::VIEW_LABELS.contains(&&*label) && panel.heads == Some(OF_HITS) {
            panel.heads = Some(["Views", "Share"]);
        }
        Panel { id: format!("label-{label}"), title: title.to_owned(), ..panel }
    };
    Ok(labels.into_iter().zip(people).map(panel).collect())
}

/// Removes the bots, which have a panel of their own.
fn remove_bots(ranking: &mut LabelRanking) {
    if let Some(place) = ranking.values.iter().position(|(value, _)| value == BOTS) {
        let (_, hits) = ranking.values.remove(place);
        ranking.total = ranking.total.saturating_sub(hits);
    }
}

/// Creates a panel without a title that shows people first.
fn panel_of_people(
    period: &PeriodReader<'_>,
    label: &str,
    ranking: &LabelRanking,
    people: LabelPeople,
    others: &str,
    address: impl Fn(&str) -> Option<String>,
) -> Panel {
    let LabelPeople { values, since } = people;
    let max = values.iter().filter_map(|value| value.people).max().unwrap_or_default();
    let shown: Vec<_> = values.into_iter().take(MAX_VALUES).collect();
    let listed = shown.iter().fold(0, |sum: u64, value| sum.saturating_add(value.hits));
    let row = |of: &ValuePeople| PanelRow {
        name: Name::new(if of.value == people::NONE { "Direct" } else { &of.value }),
        description: None,
        address: address(&of.value).filter(|_| of.value != people::NONE).unwrap_or_default(),
        value: of.people.map_or_else(numbers::unknown, digits::grouped),
        share: Some(digits::grouped(of.hits)),
        change: of.compared.and_then(|(now, before)| numbers::change(now, before)),
        percent: numbers::percent(of.people.unwrap_or_default(), max).to_string(),
        role: Role::Value,
    };
    let none = if label == SOURCE_LABEL { 0 } else { ranking.none };
    let rest = ranking.total.saturating_sub(listed).saturating_sub(none);
    let unit = if CounterName::VIEW_LABELS.contains(&label) { "Views" } else { "Hits" };
    let mut limits = limits(ranking);
    limits.extend(since.map(|since| {
        format!("people are counted since {}", instants::day(period.timeline.calendar.local(since)))
    }));
    let note = panel::note(&[(none, "without a value"), (rest, others)], &limits);
    let rows = shown.iter().map(row).collect();
    Panel { id: String::new(), title: String::new(), rows, heads: Some(["People", unit]), note }
}

/// Describes the limits that apply to a ranking.
fn limits(ranking: &LabelRanking) -> Vec<String> {
    let LabelRanking { other, missed, is_partial, .. } = ranking;
    let low = || format!("counts may be up to {} too low", digits::grouped(*missed));
    let rare = || "some rare values are missing".to_owned();
    let is_low = *other > 0 && *missed > 0;
    is_low.then(low).into_iter().chain(is_partial.then(rare)).collect()
}

/// Creates a panel without a title. `rest` describes hits without a value, and hits that are not shown, `before` returns the total of a value in
/// the compared period, and `address` the URL of its page.
fn panel(
    ranking: LabelRanking,
    rest: [&str; 2],
    before: impl Fn(&str) -> Option<u64>,
    address: impl Fn(&str) -> Option<String>,
) -> Panel {
    let limits = limits(&ranking);
    let LabelRanking { values, none, total, .. } = ranking;
    let max = values.first().map_or(0, |(_, count)| *count);
    let row = |(value, count): &(String, u64)| {
        Some(PanelRow {
            address: address(value)?,
            name: Name::new(value),
            value: digits::grouped(*count),
            share: numbers::share(*count, total),
            change: before(value).and_then(|before| numbers::change(*count, before)),
            percent: numbers::percent(*count, max).to_string(),
            description: None,
            role: Role::Value,
        })
    };
    let rows = values.iter().filter_map(row).collect();
    let shown = values.iter().fold(none, |sum, (_, count)| sum.saturating_add(*count));
    let counts = [(none, rest[0]), (total.saturating_sub(shown), rest[1])];
    let note = panel::note(&counts, &limits);
    Panel { id: String::new(), title: String::new(), rows, heads: Some(OF_HITS), note }
}
