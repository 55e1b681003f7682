//! The pages with the highest mean response time.

use counter_core::visits::{Distribution, Measure};
use counter_core::{CounterName, Error};

use super::name::Name;
use super::panel::{Panel, PanelRow, Role};
use crate::dashboard::format::units;
use crate::dashboard::period_reader::PeriodReader;
use crate::dashboard::view::view::View;
use crate::kind::Kind;
use crate::text::digits;

/// The maximum number of pages.
const MAX_PAGES: usize = 8;

/// Reads the slowest pages of the period. Returns `None` if response times are not recorded.
pub(crate) async fn panel(period: &PeriodReader<'_>, view: &View) -> Result<Option<Panel>, Error> {
    let Some(retained) = period.retained_distributions() else { return Ok(None) };
    let is_page = |name: &CounterName| Kind::Page.has(name);
    let found = period
        .reader
        .stats
        .slowest(retained.precision, retained.range, MAX_PAGES, Measure::Time, is_page)
        .await;
    let found = match found {
        // The period has too many buckets for this number of counters.
        Err(error) if matches!(error.kind(), counter_core::ErrorKind::TooManyBuckets { .. }) => {
            return Ok(None);
        }
        found => found?,
    };
    period.reader.note_all(&found.unreadable);
    // Other pages may be slower at a site that is away.
    if !period.reader.is_complete() {
        return Ok(None);
    }
    let max = found.counters.first().and_then(|(_, times)| times.mean()).unwrap_or(1.0);
    let row = |(counter, times): &(CounterName, Distribution)| {
        let mean = times.mean()?;
        Some(PanelRow {
            name: Name::new(counter),
            address: view.counter(counter),
            value: units::seconds(mean),
            share: Some(digits::grouped(times.count())),
            change: None,
            percent: format!("{:.0}", mean / max * 100.0),
            description: None,
            role: Role::Value,
        })
    };
    let rows: Vec<_> = found.counters.iter().filter_map(row).collect();
    let note = Some("Mean time to response headers.".to_owned());
    Ok((!rows.is_empty()).then(|| Panel {
        id: "slowest".to_owned(),
        title: "Slow pages".to_owned(),
        rows,
        heads: Some(["Mean", "Requests"]),
        note,
        all: None,
    }))
}
