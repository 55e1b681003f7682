//! The people of label values.

use counter_core::visits::{Coverage, LabelRanking, Uniques};
use counter_core::{CounterName, Error, Timestamp};
use counter_layer::internal::SOURCE_LABEL;

use super::describe::NONE;
use crate::dashboard::period_reader::{Before, PeriodPeople, PeriodReader};

/// Labels that can count people.
pub(super) const LABELS: [&str; 4] = ["address", "campaign", "country", SOURCE_LABEL];

/// The number of values to read people of. The values with the most people are among those with the most hits.
const MAX_VALUES: usize = 12;

/// The people of the values of a label.
#[derive(Debug)]
pub(super) struct LabelPeople {
    pub(super) values: Vec<ValuePeople>,
    /// Since when people are counted, if that is within the period.
    pub(super) since: Option<Timestamp>,
}

#[derive(Debug)]
pub(super) struct ValuePeople {
    pub(super) value: String,
    pub(super) hits: u64,
    /// `None` if they are not known.
    pub(super) people: Option<u64>,
    /// The people of the period and of the compared period.
    pub(super) compared: Before<(u64, u64)>,
}

impl LabelPeople {
    /// Reads the people of the values of a label, most people first. Returns `None` if the label does not count them, or not
    /// for this period.
    pub(super) async fn read(
        period: &PeriodReader<'_>,
        label: &str,
        ranking: &LabelRanking,
    ) -> Result<Option<Self>, Error> {
        if !LABELS.contains(&label) || ranking.values.is_empty() {
            return Ok(None);
        }
        let none = (NONE.to_owned(), ranking.none);
        let none = Some(none).filter(|(_, hits)| label == SOURCE_LABEL && *hits > 0);
        let values = ranking.values.iter().take(MAX_VALUES).cloned().chain(none);
        let named = values.filter_map(|(value, hits)| Some((counter(label, &value)?, (value, hits))));
        let (counters, values): (Vec<CounterName>, Vec<_>) = named.unzip();
        let PeriodPeople { all, compared, coverage } = period.people(&counters).await?;
        let Some(people) = all.filter(|people| people.iter().any(Option::is_some)) else { return Ok(None) };
        let start = period.timeline.buckets.range().start;
        let since = match coverage {
            Coverage::Since(first) => Some(first).filter(|first| *first > start),
            _ => None,
        };
        let of_value = |(((value, hits), people), compared): (((String, u64), Option<Uniques>), _)| {
            let people = people.map(|people| period.at_most(people.visitors, Some(hits)));
            ValuePeople { value, hits, people, compared }
        };
        let mut values: Vec<_> = values.into_iter().zip(people).zip(compared).map(of_value).collect();
        values.sort_by_key(|value| std::cmp::Reverse((value.people, value.hits)));
        Ok(Some(Self { values, since }))
    }
}

/// Returns the counter of a label value.
pub(super) fn counter(label: &str, value: &str) -> Option<CounterName> {
    CounterName::new(&format!("{}{label}:{value}", CounterName::LABELS)).ok()
}
