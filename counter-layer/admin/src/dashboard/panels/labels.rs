//! The label panels, e.g. for referrers.

use std::collections::HashMap;

use counter_core::visits::LabelRanking;
use counter_core::{CounterName, Error};
use counter_layer::internal::{BOT_LABEL, SOURCE_LABEL};
use futures_util::future::{try_join, try_join_all};

use super::bots;
use super::describe::{NONE, Values};
use super::name::Name;
use super::panel::{self, Panel, PanelRow, Role};
use super::people::{LabelPeople, ValuePeople, counter};
use crate::dashboard::format::counters;
use crate::dashboard::format::instants;
use crate::dashboard::format::names;
use crate::dashboard::format::numbers;
use crate::dashboard::period_reader::{Before, PeriodReader};
use crate::dashboard::view::metric::Metric;
use crate::dashboard::view::table::Listed;
use crate::dashboard::view::view::View;
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

/// Labels to read without a round trip to find them. The store reads some names in vain for each that does not exist, so
/// rare labels are not listed.
const EXPECTED: [&str; 8] =
    [ADDRESS, BOT_LABEL, "browser", "campaign", "device", "language", REFERRER, SOURCE_LABEL];

/// Labels to read for a page.
const EXPECTED_OF_PAGE: [&str; 4] = [ADDRESS, BOT_LABEL, "device", REFERRER];

/// Rankings by label.
type Rankings = Vec<(String, Result<LabelRanking, Error>)>;

/// Reads the panels of all labels, sorted by name.
pub(crate) async fn panels(period: &PeriodReader<'_>, view: &View) -> Result<Vec<Panel>, Error> {
    let (precision, range) = period.precision();
    let labels = period.reader.stats.label_rankings(&EXPECTED, precision, range, bots::MAX_BOTS).await?;
    compare(period, labels, None, view).await
}

/// Reads the panels of all labels for a page.
pub(crate) async fn panels_of_page(
    period: &PeriodReader<'_>,
    page: &CounterName,
    view: &View,
) -> Result<Vec<Panel>, Error> {
    let (precision, range) = period.precision();
    let stats = period.reader.stats;
    let labels = stats.labels_of_page(&EXPECTED_OF_PAGE, page, precision, range, bots::MAX_BOTS).await?;
    compare(period, labels, Some(page), view).await
}

/// Reads the panel of the pages of a label value. Returns `None` if there are no pairs of this value.
pub(crate) async fn pages(
    period: &PeriodReader<'_>,
    label: &str,
    value: &str,
    view: &View,
) -> Result<Option<Panel>, Error> {
    let (precision, range) = period.precision();
    let ranking = period.reader.stats.pages_of_value(label, value, precision, range, MAX_PAGES).await?;
    if ranking.values.is_empty() {
        return Ok(None);
    }
    let pair = |page: &str| CounterName::of_pair(label, page, value);
    let names: Vec<_> = ranking.values.iter().filter_map(|(page, _)| pair(page)).collect();
    let before = period.before(&names).await?;
    let before = if is_new(&before) { vec![Before::Unknown; names.len()] } else { before };
    let before: HashMap<_, _> = names.into_iter().zip(before).collect();
    let before =
        |page: &str| pair(page).and_then(|pair| before.get(&pair).copied()).unwrap_or(Before::Unknown);
    let address = |page: &str| CounterName::new(page).ok().map(|page| view.counter(&page));
    period.reader.note_all(&ranking.unreadable);
    let panel = panel(ranking, rest(Listed::PagesOfValue(label, value)), before, address);
    let mut panel = panel.known_to(period.reader);
    if Values::of(label, &[]).is_neutral() {
        panel.rows.iter_mut().for_each(PanelRow::neutral);
    }
    let (heads, all) = (Some([Metric::of_label(label).title(), "Share"]), Some(view.list(None).address()));
    Ok(Some(Panel { id: "pages".to_owned(), title: "Pages".to_owned(), heads, all, ..panel }))
}

/// Creates the panels of labels, for a page if it is set, with the change from the compared period.
async fn compare(
    period: &PeriodReader<'_>,
    labels: Rankings,
    page: Option<&CounterName>,
    view: &View,
) -> Result<Vec<Panel>, Error> {
    let of_page = page.is_some();
    let counter_of = |label: &str, value: &str| match page {
        None => counter(label, value),
        Some(page) => CounterName::of_pair(label, page, value),
    };
    let labels = labels.into_iter().take(MAX_PANELS).map(|(label, ranking)| Ok((label, ranking?)));
    let mut labels: Vec<(String, LabelRanking)> = labels.collect::<Result<_, Error>>()?;
    for (label, ranking) in &mut labels {
        period.reader.note_all(&ranking.unreadable);
        remove_bots(label, ranking);
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
    let (before, people) = try_join(period.before(&names), people).await?;
    let mut by_label: HashMap<String, HashMap<String, Before>> = HashMap::new();
    for ((label, value), before) in values.into_iter().zip(before) {
        by_label.entry(label).or_default().insert(value, before);
    }
    by_label.retain(|_, before| !is_new(before.values()));
    let links = labels.iter().find(|(label, _)| label == counters::BROKEN_LINKS);
    let links = links.map(|(_, ranking)| ranking.values.clone()).unwrap_or_default();
    let panel = |((label, mut ranking), people): ((String, LabelRanking), Option<LabelPeople>)| {
        let of_label = by_label.get(&label);
        let before = |value: &str| of_label.and_then(|of| of.get(value).copied()).unwrap_or(Before::Unknown);
        let address = |value: &str| counter(&label, value).map(|counter| view.counter(&counter));
        let all = Some(view.list(Some(&label)).address());
        if label == BOT_LABEL {
            let (people, others) = (ranking.none, ranking.total.saturating_sub(ranking.none));
            let clients = bots::Clients { people, others, of_page, limits: limits(&ranking) };
            let panel = bots::panel(ranking.values, &clients, &before, &address).known_to(period.reader);
            return Panel { all, ..panel };
        }
        ranking.values.truncate(MAX_VALUES);
        let listed = page.map_or(Listed::Values(&label), |page| Listed::ValuesOfPage(&label, page));
        let mut rest = rest(listed);
        if ranking.values.is_empty() && !of_page {
            rest[1] = "with rare or invalid values";
        }
        let mut panel = match people {
            Some(mut people) => {
                if of_label.is_none() {
                    people.values.iter_mut().for_each(|value| value.compared = Before::Unknown);
                }
                panel_of_people(period, &label, &ranking, people, rest, address)
            }
            None => panel(ranking, rest, before, address).known_to(period.reader),
        };
        let values = Values::of(&label, &links);
        for row in &mut panel.rows {
            let (name, description) = values.describe(&row.name.whole);
            (row.name, row.description) = (Name::new(&name), description);
            if values.is_neutral() {
                row.neutral();
            }
        }
        if panel.heads == Some(OF_HITS) {
            panel.heads = Some([Metric::of_label(&label).title(), "Share"]);
        }
        Panel { id: format!("label-{label}"), title: names::title(&label).to_owned(), all, ..panel }
    };
    Ok(labels.into_iter().zip(people).map(panel).collect())
}

/// Returns `true` if no value of a label was counted before, so that the label is new.
pub(super) fn is_new<'a>(before: impl IntoIterator<Item = &'a Before>) -> bool {
    before.into_iter().all(|before| before.known().is_none())
}

/// Describes hits without a value, and hits of values that are not listed.
pub(super) fn rest(listed: Listed<'_>) -> [&'static str; 2] {
    let without = match listed.label() {
        Some(BOT_LABEL) => "by people",
        Some(REFERRER | SOURCE_LABEL) => "direct",
        _ => "without a value",
    };
    match listed {
        Listed::PagesOfValue(..) => ["without a value", "elsewhere"],
        Listed::ValuesOfPage(..) => [without, "not attributed"],
        Listed::Values(BOT_LABEL) => [without, "by other bots"],
        Listed::Values(_) | Listed::Pages => [without, "with other values"],
    }
}

/// Removes the bots from devices and browsers, because they have a panel of their own.
pub(super) fn remove_bots(label: &str, ranking: &mut LabelRanking) {
    if !OF_CLIENTS.contains(&label) {
        return;
    }
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
    rest: [&str; 2],
    address: impl Fn(&str) -> Option<String>,
) -> Panel {
    let LabelPeople { values, since } = people;
    let max = values.iter().filter_map(|value| value.people).max().unwrap_or_default();
    let shown: Vec<_> = values.into_iter().take(MAX_VALUES).collect();
    let listed = shown.iter().fold(0, |sum: u64, value| sum.saturating_add(value.hits));
    let row = |of: &ValuePeople| PanelRow {
        name: Name::new(&of.value),
        description: None,
        address: address(&of.value).filter(|_| of.value != NONE).unwrap_or_default(),
        value: of.people.map_or_else(numbers::unknown, digits::grouped),
        share: Some(digits::grouped(of.hits)),
        change: of.compared.change(),
        percent: numbers::percent(of.people.unwrap_or_default(), max).to_string(),
        role: Role::Value,
    };
    let none = if label == SOURCE_LABEL { 0 } else { ranking.none };
    let others = ranking.total.saturating_sub(listed).saturating_sub(none);
    let mut limits = limits(ranking);
    limits.extend(since.map(|since| {
        format!("people are counted since {}", instants::day(period.timeline.calendar.local(since)))
    }));
    let note = panel::note(&[(none, rest[0]), (others, rest[1])], &limits);
    let rows = shown.iter().map(row).collect();
    Panel { rows, heads: Some(["People", Metric::of_label(label).title()]), note, ..Panel::default() }
}

/// Describes the limits that apply to a ranking.
pub(super) fn limits(ranking: &LabelRanking) -> Vec<String> {
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
    before: impl Fn(&str) -> Before,
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
            change: before(value).with(Some(*count)).change(),
            percent: numbers::percent(*count, max).to_string(),
            description: None,
            role: Role::Value,
        })
    };
    let rows = values.iter().filter_map(row).collect();
    let shown = values.iter().fold(none, |sum, (_, count)| sum.saturating_add(*count));
    let counts = [(none, rest[0]), (total.saturating_sub(shown), rest[1])];
    let note = panel::note(&counts, &limits);
    Panel { rows, heads: Some(OF_HITS), note, ..Panel::default() }
}
