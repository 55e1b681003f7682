//! The label panels, e.g. for referrers.

use counter_core::visits::LabelRanking;
use counter_core::{CounterName, Error};

use super::name::Name;
use super::panel::{Panel, PanelRow};
use crate::dashboard::format::numbers;
use crate::dashboard::period_reader::PeriodReader;
use crate::text::digits;

/// The maximum number of values to show for a label.
const MAX_VALUES: usize = 8;

/// The maximum number of labels, which is also the limit per process.
const MAX_PANELS: usize = 8;

/// Titles for the built-in labels. Custom labels are shown by name.
const TITLES: [(&str, &str); 5] = [
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
    let mut labels = period.reader.stats.label_rankings(&expected, precision, range, MAX_VALUES).await?;
    labels.truncate(MAX_PANELS);
    labels.into_iter().map(|(label, ranking)| Ok(panel(&label, ranking?, &address))).collect()
}

fn panel(label: &str, ranking: LabelRanking, address: &impl Fn(&CounterName) -> String) -> Panel {
    let LabelRanking { values, none, other, missed, total, is_partial, .. } = ranking;
    let max = values.first().map_or(0, |(_, count)| *count);
    let row = |(value, count): (String, u64)| {
        let counter = CounterName::new(&format!("{}{label}:{value}", CounterName::LABELS)).ok()?;
        Some(PanelRow {
            address: address(&counter),
            name: Name::new(&value),
            value: digits::grouped(count),
            share: numbers::share(count, total),
            percent: numbers::percent(count, max).to_string(),
        })
    };
    let shown: u64 = values.iter().map(|(_, count)| count).sum();
    let rows = values.into_iter().filter_map(row).collect();
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
