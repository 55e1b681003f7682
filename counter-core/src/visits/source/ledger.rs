use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::time::Instant;

use super::name::SourceName;
use crate::time::Timestamp;
use crate::visits::ledger::{Dropped, Ignored, Skip};

/// Accounts for all records that a source has read in this process, and for the hits of these records.
///
/// Two equations always hold:
///
/// - `records.read = recorded + already_counted + excluded + unmatched + ignored.total() + malformed`;
/// - `hits.recorded = applied + pending + expired + returned + dropped.total()`, where hits are counted by
///   weight.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SourceLedger {
    /// Records, by decision.
    pub records: SourceRecords,
    /// Hits, by state.
    pub hits: SourceHits,
}

/// Records of a source, by decision. If a record is reread, this counts it again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SourceRecords {
    /// All records.
    pub read: u64,
    /// Records with at least one hit.
    pub recorded: u64,
    /// Records already counted by the store.
    pub already_counted: u64,
    /// Records excluded by a rule.
    pub excluded: u64,
    /// Records not matched by any rule.
    pub unmatched: u64,
    /// Records ignored for other reasons.
    pub ignored: Ignored,
    /// Malformed records.
    pub malformed: u64,
    /// Positions deleted from the log before reading. These are not included in `read`.
    pub lost: u64,
}

/// Hits of a source by state, counted by weight.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SourceHits {
    /// All recorded hits.
    pub recorded: u64,
    /// Hits acknowledged by the store.
    pub applied: u64,
    /// Hits that the store has not acknowledged yet.
    pub pending: u64,
    /// Hits past the retention of all precisions, which only add to the counter lifetimes. This also includes
    /// hits too old for the [lifetime](super::Sources::expire_after) of the source, which are not counted.
    pub expired: u64,
    /// Expired hits that an [archive](super::Sources::archive) has added to its buckets. These are included in `expired`,
    /// unless another run counted them in the store.
    pub archived: u64,
    /// Hits returned to the log, either because the store is at a different position or because the source
    /// was closed early. The next reader will determine if these hits are already counted.
    pub returned: u64,
    /// Hits permanently rejected by the store.
    pub dropped: Dropped,
    /// Recorded hits that count as `(other)`.
    pub overflow: u64,
}

/// The state of a [source](crate::source) in this process.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SourceStatus {
    /// The source name.
    pub name: SourceName,
    /// Position at which this process opened the source for the first time. Earlier records are already
    /// counted.
    pub opened: u64,
    /// Position of the next record to read.
    pub position: u64,
    /// Position up to which the store has counted all records.
    pub counted: u64,
    /// End of the log, if [set](super::Source::set_end) by the reader.
    pub end: Option<u64>,
    /// Time of the latest record with a hit.
    pub latest: Option<Timestamp>,
    /// Time of the latest acknowledged commit from this process.
    pub committed: Option<Timestamp>,
    /// Time since the latest progress, though the log contains more records. `None` if the source is at the
    /// end of the log or closed, or if the end is not known.
    pub stalled_for: Option<Duration>,
    /// The ledger.
    pub ledger: SourceLedger,
    /// Number of recently read records, and the elapsed time.
    recent: (u64, Duration),
}

/// The states of the sources in a process, by name.
#[derive(Debug, Default)]
pub(crate) struct Statuses(Mutex<BTreeMap<SourceName, Arc<Status>>>);

/// The state of a source, updated by all readers of the source in this process.
#[derive(Debug, Default)]
pub(super) struct Status(Mutex<State>);

#[derive(Clone, Copy, Debug)]
pub(super) struct State {
    pub(super) opened: Option<u64>,
    pub(super) position: u64,
    pub(super) counted: u64,
    pub(super) end: Option<u64>,
    pub(super) latest: Option<Timestamp>,
    pub(super) ledger: SourceLedger,
    committed: Option<Timestamp>,
    /// Time of the latest commit that made progress.
    progressed_at: Instant,
    /// Two recent instants with the number of records read until then, to compute the read rate.
    marks: [(Instant, u64); 2],
}

/// Minimum time to measure the read rate of a source.
const RATE_WINDOW: Duration = Duration::from_secs(10);

/// Time without progress until a source counts as stalled.
const STALL_TIMEOUT: Duration = Duration::from_secs(60);

/// Number of sources at which the states of closed sources are dropped.
const MAX_CLOSED: usize = 1000;

impl Statuses {
    /// Returns the state of a source. If a source with this name was closed earlier, the state is reused.
    pub(super) fn of(&self, name: &SourceName) -> Arc<Status> {
        let mut statuses = self.0.lock().expect("the lock is never poisoned");
        if statuses.len() >= MAX_CLOSED {
            statuses.retain(|_, status| Arc::strong_count(status) > 1);
        }
        Arc::clone(statuses.entry(name.clone()).or_default())
    }

    pub(crate) fn all(&self) -> Vec<SourceStatus> {
        let statuses = self.0.lock().expect("the lock is never poisoned");
        let status = |(name, status): (&SourceName, &Arc<Status>)| {
            let is_open = Arc::strong_count(status) > 1;
            let state = *status.lock();
            let State { position, counted, end, latest, ledger, committed, progressed_at, marks, .. } = state;
            let opened = state.opened.unwrap_or_default();
            let name = name.clone();
            let stalled_for =
                Some(progressed_at.elapsed()).filter(|_| is_open && end.is_some_and(|end| end > counted));
            let recent = (ledger.records.read.saturating_sub(marks[0].1), marks[0].0.elapsed());
            SourceStatus {
                name,
                opened,
                position,
                counted,
                end,
                latest,
                committed,
                stalled_for,
                ledger,
                recent,
            }
        };
        statuses.iter().map(status).collect()
    }

    /// Removes the state of a source, unless it is open.
    pub(super) fn forget(&self, name: &SourceName) {
        let mut statuses = self.0.lock().expect("the lock is never poisoned");
        if statuses.get(name).is_some_and(|status| Arc::strong_count(status) == 1) {
            statuses.remove(name);
        }
    }
}

impl State {
    /// Records that the store counted all records up to a position.
    pub(super) fn commit(&mut self, counted: u64) {
        let now = Instant::now();
        if counted > self.counted {
            self.progressed_at = now;
        }
        if now.duration_since(self.marks[1].0) >= RATE_WINDOW {
            self.marks = [self.marks[1], (now, self.ledger.records.read)];
        }
        (self.counted, self.committed) = (counted, Some(Timestamp::now()));
    }
}

impl Default for State {
    fn default() -> Self {
        let now = Instant::now();
        Self {
            opened: None,
            position: 0,
            counted: 0,
            end: None,
            latest: None,
            ledger: SourceLedger::default(),
            committed: None,
            progressed_at: now,
            marks: [(now, 0); 2],
        }
    }
}

impl Status {
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("the lock is never poisoned")
    }
}

impl SourceRecords {
    pub(super) fn skip(&mut self, skip: Skip) {
        self.read += 1;
        *match skip {
            Skip::Excluded => &mut self.excluded,
            Skip::Unmatched => &mut self.unmatched,
            Skip::Outcome => &mut self.ignored.outcome,
            Skip::Prefetch => &mut self.ignored.prefetch,
            Skip::Own => &mut self.ignored.own,
        } += 1;
    }

    /// Returns `true` if the first equation of the ledger holds.
    #[must_use]
    pub const fn balance(&self) -> bool {
        let decided = self.recorded + self.already_counted + self.excluded + self.unmatched;
        self.read == decided + self.ignored.total() + self.malformed
    }
}

impl SourceHits {
    /// Records the outcome of pending hits.
    pub(super) fn resolve(&mut self, resolved: &Self) {
        let Self { applied, expired, archived, returned, dropped, .. } = *resolved;
        self.pending -= applied + expired + returned + dropped.total();
        self.applied += applied;
        self.expired += expired;
        self.archived += archived;
        self.returned += returned;
        self.dropped += dropped;
    }

    /// Returns `true` if the second equation of the ledger holds.
    #[must_use]
    pub const fn balance(&self) -> bool {
        let resolved = self.applied + self.expired + self.returned + self.dropped.total();
        self.recorded == resolved + self.pending
    }
}

impl SourceStatus {
    /// Returns the number of positions between the counted records and the end of the log, if known.
    #[must_use]
    pub fn lag(&self) -> Option<u64> {
        self.end.map(|end| end.saturating_sub(self.counted))
    }

    /// Returns the age at `now` of the latest counted record, or 0 at the end of the log; `None` if either is
    /// unknown.
    #[must_use]
    pub fn lag_time(&self, now: Timestamp) -> Option<Duration> {
        match self.lag()? {
            0 => Some(Duration::ZERO),
            _ => Some(Duration::from_secs(now.as_unix().saturating_sub(self.latest?.as_unix()))),
        }
    }

    /// Returns `true` if the store made no progress for a minute, though the log contains more records.
    #[must_use]
    pub fn is_stalled(&self) -> bool {
        self.stalled_for.is_some_and(|standing| standing >= STALL_TIMEOUT)
    }

    /// Returns the number of records read per second, averaged over about ten seconds.
    #[must_use]
    pub fn records_per_second(&self) -> f64 {
        let (records, time) = self.recent;
        if records == 0 { 0.0 } else { records as f64 / time.as_secs_f64().max(1.0) }
    }
}
