//! The label panels, e.g. for referrers.

use counter_core::visits::LabelRanking;
use counter_core::{CounterName, Error};

use super::period::Period;
use crate::dashboard::format::numbers;
use crate::dashboard::reader::Reader;
use crate::text::digits;

/// The top values of a label.
#[derive(Debug)]
pub(crate) struct Panel {
    pub(crate) id: String,
    pub(crate) title: String,
    pub(crate) rows: Vec<Value>,
    /// A hint on omitted values and the error of the counts.
    pub(crate) note: Option<String>,
}

/// A value of a label.
#[derive(Debug)]
pub(crate) struct Value {
    pub(crate) name: String,
    pub(crate) address: String,
    pub(crate) total: String,
    pub(crate) share: String,
    pub(crate) percent: u64,
}

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

impl Panel {
    /// Reads the panels of all labels, sorted by name. `address` maps a counter to the URL of the counter
    /// page.
    pub(crate) async fn read(
        reader: &Reader<'_>,
        period: &Period,
        address: impl Fn(&CounterName) -> String,
    ) -> Result<Vec<Self>, Error> {
        let (precision, range) = period.buckets();
        let expected = TITLES.map(|(label, _)| label);
        let mut labels = reader.stats.label_rankings(&expected, precision, range, MAX_VALUES).await?;
        labels.truncate(MAX_PANELS);
        let panel = |(label, ranking): (String, Result<_, _>)| Ok(Self::of(&label, ranking?, &address));
        labels.into_iter().map(panel).collect()
    }

    fn named(label: &str) -> Self {
        let title = TITLES.iter().find(|(known, _)| *known == label);
        let title = title.map_or_else(|| label.to_owned(), |(_, title)| (*title).to_owned());
        Self { id: label.to_owned(), title, rows: Vec::new(), note: None }
    }

    fn of(label: &str, ranking: LabelRanking, address: &impl Fn(&CounterName) -> String) -> Self {
        let LabelRanking { values, none, other, missed, total, is_partial, .. } = ranking;
        let max = values.first().map_or(0, |(_, count)| *count);
        let row = |(value, count): (String, u64)| {
            let counter = CounterName::new(&format!("{}{label}:{value}", CounterName::LABELS)).ok()?;
            Some(Value {
                address: address(&counter),
                name: value,
                total: digits::grouped(count),
                share: numbers::share(count, total).unwrap_or_default(),
                percent: numbers::percent(count, max),
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
        Self { rows, note, ..Self::named(label) }
    }
}
