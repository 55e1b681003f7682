//! Counters that split all requests into parts, with a panel for each facet.

use std::cmp::Reverse;

use counter_core::CounterName;

use super::name::Name;
use super::panel::{Panel, PanelRow, Role};
use crate::dashboard::format::numbers;
use crate::dashboard::reader::Reader;
use crate::dashboard::view::view::View;
use crate::text::digits;

/// The panels and the counter name prefixes.
const PANELS: [(&str, &str, &str); 4] = [
    ("statuses", "Statuses", "status:"),
    ("agents", "People and bots", "agent:"),
    ("methods", "Methods", "method:"),
    ("grpc", "gRPC statuses", "grpc:"),
];

/// Creates the panels for these counters and counts.
pub(crate) fn panels(reader: &Reader<'_>, view: &View, totals: &[(CounterName, Option<u64>)]) -> Vec<Panel> {
    let panel = |(id, title, prefix): (&str, &str, &str)| {
        let parts =
            totals.iter().filter_map(|(name, total)| Some((name, name.strip_prefix(prefix)?, *total)));
        let mut parts: Vec<_> = parts.collect();
        // The sort is stable, so equal counts are sorted by name.
        parts.sort_by_key(|(.., total)| Reverse(*total));
        let known: Option<Vec<_>> = parts.iter().map(|(.., total)| *total).collect();
        let shares = known.filter(|_| reader.is_complete()).map(|totals| numbers::shares(&totals));
        let shares = shares.unwrap_or_default();
        let max = parts.first().and_then(|(.., total)| *total).unwrap_or_default();
        let row = |(index, (counter, name, total)): (usize, &(&CounterName, &str, Option<u64>))| PanelRow {
            name: Name::new(name),
            address: view.counter(counter),
            value: total.map_or_else(numbers::unknown, digits::grouped),
            share: shares.get(index).cloned(),
            change: None,
            percent: numbers::percent(total.unwrap_or_default(), max).to_string(),
            description: None,
            role: Role::Value,
        };
        let rows: Vec<_> = parts.iter().enumerate().map(row).collect();
        (!rows.is_empty()).then(|| Panel {
            id: id.to_owned(),
            title: title.to_owned(),
            rows,
            ..Panel::default()
        })
    };
    PANELS.into_iter().filter_map(panel).collect()
}
