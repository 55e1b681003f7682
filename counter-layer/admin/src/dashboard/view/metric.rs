//! The unit of the lines in a chart: people, views or hits.

use counter_core::CounterName;
use counter_layer::internal::HITS;

use crate::dashboard::format::counters;
use crate::kind::Kind;

/// What a chart shows of its counters. All lines of a chart have the same unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Metric {
    /// Unique visitors.
    People,
    Views,
    Hits,
}

impl Metric {
    const ALL: [Self; 3] = [Self::People, Self::Views, Self::Hits];

    pub(super) fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|metric| metric.name() == text)
    }

    /// Returns the name in URLs.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::People => "people",
            Self::Views => "views",
            Self::Hits => "hits",
        }
    }

    pub(crate) const fn title(self) -> &'static str {
        match self {
            Self::People => "People",
            Self::Views => "Views",
            Self::Hits => "Hits",
        }
    }

    /// Returns `true` if counters of this kind can have it. Most labels count no people, which only the store knows.
    pub(crate) fn has(self, counter: &CounterName) -> bool {
        let is_page = Kind::Page.has(counter) || [HITS, CounterName::OTHER].contains(&&**counter);
        match self {
            Self::People => is_page || (counter.label().is_some() && counter.pair().is_none()),
            Self::Views => is_page && counter.views().is_some(),
            Self::Hits => true,
        }
    }

    /// Returns the name of a line in the legend. The title of the chart already contains the metric.
    pub(crate) fn line(self, counter: &CounterName) -> String {
        if **counter == *HITS { self.name().to_owned() } else { counters::title(counter) }
    }

    /// Returns the name of a line in a file.
    pub(crate) fn column(self, counter: &CounterName) -> String {
        match self {
            Self::Hits => counter.to_string(),
            _ if **counter == *HITS => self.name().to_owned(),
            _ => format!("{} of {counter}", self.name()),
        }
    }
}
