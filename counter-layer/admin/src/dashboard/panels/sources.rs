//! The table of sources, i.e. logs, topics and producers, that this process reads.

use counter_core::source::SourceStatus;
use counter_core::{Stats, Timestamp};

use crate::dashboard::format::numbers;
use crate::dashboard::format::units;
use crate::text::digits;

/// The table of sources, shown if this process reads any.
#[derive(Debug)]
pub(crate) struct Sources {
    pub(crate) rows: Vec<Source>,
    /// A hint on omitted sources.
    pub(crate) note: Option<String>,
}

/// A row in the table of sources.
#[derive(Debug)]
pub(crate) struct Source {
    pub(crate) name: String,
    pub(crate) read: String,
    pub(crate) recorded: String,
    /// Records skipped due to rules or outcomes.
    pub(crate) skipped: String,
    pub(crate) malformed: String,
    pub(crate) lost: String,
    pub(crate) speed: String,
    pub(crate) lag: String,
    pub(crate) committed: String,
}

/// The maximum number of rows in the table of sources.
const MAX_ROWS: usize = 25;

impl Sources {
    /// Returns the table, or `None` if this process does not read any source. Stalled sources come first,
    /// followed by all other sources, sorted by the latest commit.
    pub(crate) fn of(stats: &Stats, now: Timestamp) -> Option<Self> {
        let mut sources = stats.sources();
        sources.sort_by_key(|source| std::cmp::Reverse((source.is_stalled(), source.committed)));
        let note = sources.len().checked_sub(MAX_ROWS + 1).map(|more| {
            let more = digits::grouped(more as u64 + 1);
            format!("{more} more in api/sources.")
        });
        let rows: Vec<_> = sources.iter().take(MAX_ROWS).map(|source| Source::of(source, now)).collect();
        (!rows.is_empty()).then_some(Self { rows, note })
    }
}

impl Source {
    fn of(source: &SourceStatus, now: Timestamp) -> Self {
        let records = source.ledger.records;
        let lag = match (source.lag(), source.lag_time(now)) {
            (None, _) => "–".to_owned(),
            (Some(0), _) => "0".to_owned(),
            (Some(lag), None) => digits::grouped(lag),
            (Some(lag), Some(time)) => format!("{}, {}", digits::grouped(lag), units::about(time.as_secs())),
        };
        let ago = source.committed.map(|at| now.as_unix().saturating_sub(at.as_unix()));
        let committed = ago.map_or_else(|| "never".to_owned(), |ago| format!("{} ago", units::about(ago)));
        Self {
            name: source.name.to_string(),
            read: digits::grouped(records.read),
            recorded: digits::grouped(records.recorded),
            skipped: digits::grouped(records.excluded + records.unmatched + records.ignored.total()),
            malformed: digits::grouped(records.malformed),
            lost: digits::grouped(records.lost),
            speed: numbers::rounded(source.records_per_second()),
            lag,
            committed: if source.is_stalled() { format!("{committed} (stalled)") } else { committed },
        }
    }
}
