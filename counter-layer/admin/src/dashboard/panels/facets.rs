//! Counters that split all requests into parts, with a panel for each facet.

use counter_core::CounterName;

use crate::dashboard::format::numbers;
use crate::dashboard::view::view::View;
use crate::text::digits;

/// A panel for the counters of a facet.
#[derive(Debug)]
pub(crate) struct Panel {
    pub(crate) id: &'static str,
    pub(crate) title: &'static str,
    pub(crate) parts: Vec<Part>,
}

/// A counter of all requests or of a part.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) name: String,
    pub(crate) address: String,
    pub(crate) toggle: Option<String>,
    pub(crate) is_shown: bool,
    pub(crate) total: String,
    pub(crate) share: Option<String>,
}

/// The panels and the counter name prefixes. The empty prefix matches all remaining counters.
const PANELS: [(&str, &str, &str); 5] = [
    ("requests", "All requests", ""),
    ("agents", "People and bots", "agent:"),
    ("statuses", "Statuses", "status:"),
    ("methods", "Methods", "method:"),
    ("grpc", "gRPC statuses", "grpc:"),
];

impl Panel {
    /// Creates the panels for these counters and counts. `hits` is the count of all requests.
    pub(crate) fn all<'a>(
        view: &View,
        counters: impl Iterator<Item = (&'a CounterName, Option<u64>)>,
        hits: Option<u64>,
    ) -> Vec<Self> {
        let mut panels = PANELS.map(|(id, title, _)| Self { id, title, parts: Vec::new() });
        for (name, total) in counters {
            let place = PANELS.iter().rposition(|(_, _, begin)| name.starts_with(begin)).unwrap_or(0);
            panels[place].parts.push(Part::of(view, name, total, hits));
        }
        panels.into_iter().filter(|panel| !panel.parts.is_empty()).collect()
    }
}

impl Part {
    fn of(view: &View, name: &CounterName, total: Option<u64>, hits: Option<u64>) -> Self {
        Self {
            address: view.counter(name),
            toggle: view.toggled(name),
            is_shown: view.chart.counters.contains(name),
            name: name.to_string(),
            total: total.map_or_else(numbers::unknown, digits::grouped),
            share: total.zip(hits).and_then(|(total, hits)| numbers::share(total, hits)),
        }
    }
}
