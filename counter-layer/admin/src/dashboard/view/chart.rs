//! The chart parameters of a page.

use counter_core::time::Retention;
use counter_core::{CounterName, Precisions, Timestamp};
use counter_layer::internal::HITS;

use super::range::{MAX_SPAN, NamedRange};
use super::value::{WrongValue, end, positive};
use crate::api::parameter;
use crate::zone::Zone;

/// The maximum number of counters in a chart.
pub(crate) const MAX_LINES: usize = 6;

/// The chart parameters of a URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ChartView {
    /// The chart lines: at least one counter, starting with the counter of the page.
    pub(crate) counters: Vec<CounterName>,
    /// The chart precision and the number of readable samples.
    pub(crate) precision: Retention,
    /// The number of buckets in the chart.
    pub(crate) span: u32,
    /// The end of the chart, or `None` for the current time.
    pub(crate) to: Option<Timestamp>,
    /// The selected comparison, if any.
    pub(crate) other: Option<ComparedPeriod>,
    /// True to show unique visitors as a line.
    pub(crate) uniques: bool,
    /// True to show a forecast for the first counter.
    pub(crate) forecast: bool,
}

/// A period of the same length as the chart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ComparedPeriod {
    /// The period this number of seconds earlier.
    Ago(u64),
    /// The period with this end, independent of the chart end.
    Until(Timestamp),
}

impl ChartView {
    pub(super) fn new(reach: &Precisions) -> Self {
        Self {
            counters: Vec::new(),
            precision: parameter::default_precision(reach),
            span: 0,
            to: None,
            other: None,
            uniques: false,
            forecast: false,
        }
    }

    /// Parses a query parameter. Unknown parameters and names are ignored.
    pub(super) fn read(
        &mut self,
        name: &str,
        value: &str,
        reach: &Precisions,
        zone: &Zone,
    ) -> Result<(), WrongValue> {
        match name {
            "counter" => self.add(value),
            "precision" => self.precision = parameter::precision(value, reach).unwrap_or(self.precision),
            "span" => self.span = positive("span", value)?,
            "to" => self.to = Some(end("to", value, zone)?),
            "ago" => self.other = Some(ComparedPeriod::Ago(positive("ago", value)?)),
            "against" => self.other = Some(ComparedPeriod::Until(end("against", value, zone)?)),
            "uniques" => self.uniques = value == "1",
            "forecast" => self.forecast = value == "1",
            _ => {}
        }
        Ok(())
    }

    /// Sets missing values to the default, and limits the length to the readable samples.
    pub(super) fn complete(&mut self) {
        if self.counters.is_empty() {
            self.add(HITS);
        }
        self.span = match self.span {
            0 => self.default_span(),
            span => span.clamp(2, self.precision.samples.get().clamp(2, MAX_SPAN)),
        };
    }

    fn add(&mut self, name: &str) {
        if let Ok(name) = CounterName::new(name)
            && !self.counters.contains(&name)
            && self.counters.len() < MAX_LINES
        {
            self.counters.push(name);
        }
    }

    fn default_span(&self) -> u32 {
        self.precision.samples.get().clamp(2, 60)
    }

    /// Returns `true` if `hits` is the only line.
    pub(super) fn shows_only_hits(&self) -> bool {
        matches!(&*self.counters, [counter] if **counter == *HITS)
    }

    pub(super) fn show_hits(&mut self) {
        self.counters.clear();
        self.add(HITS);
    }

    /// Appends the non-default parameters, except for the counters.
    pub(super) fn write(&self, fields: &mut Vec<(&'static str, String)>) {
        let width = self.precision.precision.as_seconds();
        fields.extend((width != parameter::DEFAULT_WIDTH).then(|| ("precision", width.to_string())));
        fields.extend((self.span != self.default_span()).then(|| ("span", self.span.to_string())));
        fields.extend(self.to.map(|to| ("to", to.to_string())));
        fields.extend(self.other.map(|other| match other {
            ComparedPeriod::Ago(seconds) => ("ago", seconds.to_string()),
            ComparedPeriod::Until(end) => ("against", end.to_string()),
        }));
        fields.extend(self.uniques.then(|| ("uniques", "1".to_owned())));
        fields.extend(self.forecast.then(|| ("forecast", "1".to_owned())));
    }

    /// Sets the precision and resets the length to the default.
    pub(crate) fn set_precision(&mut self, precision: Retention) {
        self.precision = precision;
        self.span = self.default_span();
    }

    /// Returns the named range that matches the chart, if any.
    pub(crate) fn named(&self, reach: &Precisions) -> Option<NamedRange> {
        NamedRange::all(reach).find(|range| range.precision == self.precision && range.span == self.span)
    }
}
