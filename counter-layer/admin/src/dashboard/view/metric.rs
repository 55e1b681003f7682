//! The metric of a chart: people, views, hits, shares of hits, or response times.

use counter_core::CounterName;
use counter_layer::internal::{AGENTS, HITS, STATUSES};

use crate::dashboard::format::counters;
use crate::dashboard::format::numbers::Unit;
use crate::kind::Kind;

/// What a chart shows of its counters. All lines of a chart have the same unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Metric {
    /// Unique visitors.
    People,
    Views,
    Hits,
    /// The share of all hits, such as the share of errors.
    Share,
    /// The 90 % quantile of the times to response headers.
    Time,
}

impl Metric {
    const ALL: [Self; 5] = [Self::People, Self::Views, Self::Hits, Self::Share, Self::Time];

    pub(super) fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|metric| metric.name() == text)
    }

    /// Returns the name in URLs.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::People => "people",
            Self::Views => "views",
            Self::Hits => "hits",
            Self::Share => "share",
            Self::Time => "p90",
        }
    }

    pub(crate) const fn title(self) -> &'static str {
        match self {
            Self::People => "People",
            Self::Views => "Views",
            Self::Hits => "Hits",
            Self::Share => "Share of hits",
            Self::Time => "Response time (p90)",
        }
    }

    /// Returns what the values of a label count.
    pub(crate) fn of_label(label: &str) -> Self {
        if CounterName::VIEW_LABELS.contains(&label) { Self::Views } else { Self::Hits }
    }

    /// Returns what a counter counts.
    pub(crate) fn counted(counter: &CounterName) -> Self {
        let pair = counter.pair().map(|(label, ..)| label);
        pair.or_else(|| counter.label().map(|(label, _)| label)).map_or(Self::Hits, Self::of_label)
    }

    /// Returns the title of a chart of these counters.
    pub(crate) fn title_of(self, counters: &[CounterName]) -> &'static str {
        let is_of_views = || counters.iter().all(|counter| Self::counted(counter) == Self::Views);
        if self == Self::Hits && is_of_views() { Self::Views.title() } else { self.title() }
    }

    pub(crate) const fn unit(self) -> Unit {
        match self {
            Self::People | Self::Views | Self::Hits => Unit::Count,
            Self::Share => Unit::Share,
            Self::Time => Unit::Time,
        }
    }

    /// Returns `true` if a chart is read again as often as the numbers of hits. Sketches and distributions are more expensive
    /// for the store.
    pub(crate) const fn is_live(self) -> bool {
        !matches!(self, Self::People | Self::Time)
    }

    /// Returns `true` if there are forecasts. Other metrics can't be added up.
    pub(crate) const fn has_forecast(self) -> bool {
        matches!(self, Self::Views | Self::Hits)
    }

    /// Returns the counters whose sum a counter is a share of, itself included.
    pub(crate) fn wholes(counter: &CounterName) -> Option<&'static [&'static str]> {
        let groups: [&[&str]; 2] = [&STATUSES, &AGENTS];
        groups.into_iter().find(|group| group.contains(&&**counter))
    }

    /// Returns `true` if counters of this kind can have it. Most labels count no people, which only the store knows.
    pub(crate) fn has(self, counter: &CounterName) -> bool {
        let is_page = Kind::Page.has(counter) || [HITS, CounterName::OTHER].contains(&&**counter);
        match self {
            Self::People => is_page || (counter.label().is_some() && counter.pair().is_none()),
            Self::Views => is_page && counter.views().is_some(),
            Self::Hits => true,
            Self::Time => is_page,
            Self::Share => Self::wholes(counter).is_some(),
        }
    }

    /// Returns the name of a line in the legend. The title of the chart already contains the metric.
    pub(crate) fn line(self, counter: &CounterName) -> String {
        if **counter == *HITS { self.name().to_owned() } else { counters::title(counter) }
    }

    /// Returns the name of a line on its own, such as in the name of a file.
    pub(crate) fn of(self, counter: &CounterName) -> String {
        let line = self.line(counter);
        match self == Self::Hits || **counter == *HITS {
            true => line,
            false => format!("{} of {line}", self.name()),
        }
    }

    /// Returns the name of a line in a file.
    pub(crate) fn column(self, counter: &CounterName) -> String {
        match self {
            Self::Hits => counter.to_string(),
            Self::Share => format!("{counter} in % of hits"),
            _ if **counter == *HITS => self.name().to_owned(),
            _ => format!("{} of {counter}", self.name()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_and_addresses_count_views_also_by_page() {
        for (counter, counted) in [
            ("label:source:Google", Metric::Views),
            ("label:source@:/ = Google", Metric::Views),
            ("label:address:/17", Metric::Views),
            ("label:device:mobile", Metric::Hits),
            ("label:device@:/ = mobile", Metric::Hits),
            ("/source", Metric::Hits),
        ] {
            assert_eq!(Metric::counted(&CounterName::new(counter).expect("a name")), counted, "{counter}");
        }
    }
}
