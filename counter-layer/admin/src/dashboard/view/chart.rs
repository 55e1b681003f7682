//! The chart parameters of a page.

use std::borrow::Cow;

use counter_core::CounterName;
use counter_layer::internal::HITS;

use super::by::By;
use super::metric::Metric;
use super::period::{Compare, Period};
use super::value::WrongValue;
use crate::zone::Zone;

/// The maximum number of counters in a chart.
pub(crate) const MAX_LINES: usize = 6;

/// The period and the chart parameters of a URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ChartView {
    /// The chart lines: at least one counter, starting with the counter of the page.
    pub(crate) counters: Vec<CounterName>,
    /// The period of the whole page.
    pub(crate) period: Period,
    /// The requested interval, or `None` to choose it by the period.
    pub(crate) by: Option<By>,
    /// The comparison of the whole page.
    pub(crate) compare: Compare,
    /// The requested metric, or `None` for people if there are any, and otherwise hits.
    pub(crate) metric: Option<Metric>,
    /// True to show a forecast for the first counter.
    pub(crate) forecast: bool,
}

impl ChartView {
    /// Parses the parameters of a URL. Unknown parameters and names are ignored.
    pub(super) fn read(pairs: &[(Cow<'_, str>, Cow<'_, str>)], zone: &Zone) -> Result<Self, WrongValue> {
        let value = |wanted: &str| pairs.iter().find(|(name, _)| name == wanted).map(|(_, value)| &**value);
        let mut chart = Self {
            counters: Vec::new(),
            period: match value("period").unwrap_or("today") {
                "custom" => Period::custom(value("from"), value("to"), zone)?,
                name => Period::parse(name)?,
            },
            by: value("by").map(By::parse).transpose()?,
            compare: value("compare").map(Compare::parse).transpose()?.unwrap_or_default(),
            metric: value("show").and_then(Metric::parse),
            forecast: value("forecast") == Some("1"),
        };
        chart.forecast &= chart.metric.is_none_or(Metric::has_forecast);
        let counters = pairs.iter().filter(|(name, _)| name == "counter");
        counters.for_each(|(_, name)| chart.add(name));
        if chart.counters.is_empty() {
            chart.add(HITS);
        }
        Ok(chart)
    }

    fn add(&mut self, name: &str) {
        if let Ok(name) = CounterName::new(name)
            && !self.counters.contains(&name)
            && self.counters.len() < MAX_LINES
        {
            self.counters.push(name);
        }
    }

    /// Returns `true` if `hits` is the only line.
    pub(super) fn shows_only_hits(&self) -> bool {
        matches!(&*self.counters, [counter] if **counter == *HITS)
    }

    pub(super) fn show_hits(&mut self) {
        self.counters.clear();
        self.add(HITS);
    }

    /// Appends the period and the non-default parameters, except for the counters.
    pub(super) fn write(&self, zone: &Zone, fields: &mut Vec<(&'static str, String)>) {
        self.period.write(zone, fields);
        fields.extend(self.by.map(|by| ("by", by.name())));
        let compare = self.compare;
        fields.extend((compare != Compare::default()).then(|| ("compare", compare.name().to_owned())));
        fields.extend(self.metric.map(|metric| ("show", metric.name().to_owned())));
        fields.extend(self.forecast.then(|| ("forecast", "1".to_owned())));
    }
}
