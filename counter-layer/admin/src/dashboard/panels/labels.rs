//! The label panels, e.g. for referrers.

use std::collections::HashMap;

use counter_core::visits::LabelRanking;
use counter_core::{CounterName, Error};

use super::bots;
use super::name::Name;
use super::panel::{Panel, PanelRow, Role};
use crate::dashboard::format::numbers;
use crate::dashboard::period_reader::PeriodReader;
use crate::text::digits;

/// The maximum number of values to show for a label.
const MAX_VALUES: usize = 8;

/// The maximum number of labels, which is also the limit per process.
const MAX_PANELS: usize = 8;

/// Titles for the built-in labels. Custom labels are shown by name.
const TITLES: [(&str, &str); 6] = [
    (bots::LABEL, "Bots"),
    ("browser", "Browsers"),
    ("campaign", "Campaigns"),
    ("device", "Devices"),
    ("language", "Languages"),
    ("referrer", "Referrers"),
];

/// Reads the panels of all labels, sorted by name. `address` maps a counter to the URL of the counter page.
pub(crate) async fn panels(
    period: &PeriodReader<'_>,
    address: impl Fn(&CounterName) -> String,
) -> Result<Vec<Panel>, Error> {
    let (precision, range) = period.precision();
    let expected = TITLES.map(|(label, _)| label);
    let mut labels = period.reader.stats.label_rankings(&expected, precision, range, bots::MAX_BOTS).await?;
    labels.truncate(MAX_PANELS);
    let labels = labels.into_iter().map(|(label, ranking)| Ok((label, ranking?)));
    let labels: Vec<(String, LabelRanking)> = labels.collect::<Result<_, Error>>()?;
    let of_label = |(label, ranking): &(String, LabelRanking)| {
        let max = if label == bots::LABEL { bots::MAX_BOTS } else { MAX_VALUES };
        ranking.values.iter().take(max).filter_map(|(value, _)| counter(label, value)).collect::<Vec<_>>()
    };
    let names: Vec<_> = labels.iter().flat_map(of_label).collect();
    let before = period.compared_totals(&names).await?;
    let before: HashMap<_, _> = names.into_iter().zip(before).collect();
    let panel = |(label, mut ranking): (String, LabelRanking)| match label.as_str() {
        bots::LABEL => {
            let LabelRanking { values, none, total, .. } = ranking;
            bots::panel(values, total.saturating_sub(none), none, &before, &address)
        }
        label => {
            ranking.values.truncate(MAX_VALUES);
            panel(label, ranking, &before, &address)
        }
    };
    Ok(labels.into_iter().map(panel).collect())
}

pub(super) fn counter(label: &str, value: &str) -> Option<CounterName> {
    CounterName::new(&format!("{}{label}:{value}", CounterName::LABELS)).ok()
}

/// Creates the panel of a label, given the totals in the compared period.
fn panel(
    label: &str,
    ranking: LabelRanking,
    before: &HashMap<CounterName, Option<u64>>,
    address: &impl Fn(&CounterName) -> String,
) -> Panel {
    let LabelRanking { values, none, other, missed, total, is_partial, .. } = ranking;
    let max = values.first().map_or(0, |(_, count)| *count);
    let row = |(value, count): &(String, u64)| {
        let counter = counter(label, value)?;
        let before = before.get(&counter).copied().flatten();
        Some(PanelRow {
            address: address(&counter),
            name: Name::new(value),
            value: digits::grouped(*count),
            share: numbers::share(*count, total),
            change: before.and_then(|before| numbers::change(*count, before)),
            percent: numbers::percent(*count, max).to_string(),
            role: Role::Value,
        })
    };
    let rows = values.iter().filter_map(row).collect();
    let shown: u64 = values.iter().map(|(_, count)| count).sum();
    let rest = total.saturating_sub(shown + none);
    let mut notes = Vec::new();
    for (count, description) in [(none, "without a value"), (rest, "with other values")] {
        if count > 0 {
            notes.push(format!("{} {description}", digits::grouped(count)));
        }
    }
    if other > 0 && missed > 0 {
        notes.push(format!("counts may be up to {} too low", digits::grouped(missed)));
    }
    if is_partial {
        notes.push("some rare values are missing".to_owned());
    }
    let note = (!notes.is_empty()).then(|| format!("{}.", notes.join("; ")));
    let title = TITLES.iter().find(|(known, _)| *known == label).map_or(label, |(_, title)| title);
    Panel { id: format!("label-{label}"), title: title.to_owned(), rows, note }
}
