use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::time::Instant;

use super::name::SourceName;
use crate::time::Timestamp;
use crate::visits::ledger::{Dropped, Ignored, Skip};

/// Accounts for every record that a source has read in this process, and for the hits of these records.
///
/// Two equations hold at every observation:
///
/// - `records.read = recorded + already_counted + excluded + unmatched + ignored.total() + malformed`;
/// - `hits.recorded = applied + pending + expired + returned + dropped.total()`, in hits by their weight.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SourceLedger {
    /// Records by decision.
    pub records: SourceRecords,
    /// Hits by state.
    pub hits: SourceHits,
}

/// Records of a source by decision. A record that is read again is counted again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SourceRecords {
    /// All records.
    pub read: u64,
    /// Records with at least one hit.
    pub recorded: u64,
    /// Records that the store had already counted.
    pub already_counted: u64,
    /// Records that a rule excludes.
    pub excluded: u64,
    /// Records that no rule matches.
    pub unmatched: u64,
    /// Records that were ignored for another reason.
    pub ignored: Ignored,
    /// Malformed records.
    pub malformed: u64,
    /// Positions that were removed from the log before they were read; they are not part of `read`.
    pub lost: u64,
}

/// Hits of a source by state, each counted by its weight.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SourceHits {
    /// All recorded hits.
    pub recorded: u64,
    /// Hits that the store acknowledged.
    pub applied: u64,
    /// Hits that the store has not acknowledged yet.
    pub pending: u64,
    /// Hits past the retention of all precisions, which only add to the lifetimes of their counters. Also hits that are too
    /// old for the [lifetime](super::Sources::keep_for) of the source, which are not counted.
    pub expired: u64,
    /// Hits that were returned to the log, because the store was at another position, or the source was closed before the store
    /// acknowledged them. The next reader determines whether they are counted.
    pub returned: u64,
    /// Hits that the store refused permanently.
    pub dropped: Dropped,
    /// Recorded hits that were counted under `(other)`.
    pub overflow: u64,
}

/// The state of a source.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SourceStatus {
    /// The name.
    pub name: SourceName,
    /// The position at which this process first opened the source. Earlier records were counted before.
    pub opened: u64,
    /// The position after the last record that was read.
    pub position: u64,
    /// The position up to which the store has counted all records.
    pub counted: u64,
    /// The end of the log, if the reader has [set it](super::Source::set_end).
    pub end: Option<u64>,
    /// The time of the latest record with a hit.
    pub latest: Option<Timestamp>,
    /// The time of the last acknowledged commit of this process.
    pub committed: Option<Timestamp>,
    /// The time for which the store has counted no further record although the log has some; `None` if it has none, if its end
    /// is unknown, or if the source is closed.
    pub standing_for: Option<Duration>,
    /// The ledger.
    pub ledger: SourceLedger,
    /// The number of recently read records, and the time they took.
    recent: (u64, Duration),
}

/// The sources of a process.
#[derive(Debug, Default)]
pub(crate) struct Statuses(Mutex<BTreeMap<SourceName, Arc<Status>>>);

/// The state of a source, which its reader updates.
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
    /// The time of the last commit that counted further records.
    moved: Instant,
    /// Times some seconds apart, with the number of records read by then.
    marks: [(Instant, u64); 2],
}

/// The minimum time over which the speed of a source is measured.
const RECENT: Duration = Duration::from_secs(10);

/// The time after which a source without progress is stalled.
const STILL: Duration = Duration::from_secs(60);

/// The maximum number of closed sources whose state is kept.
const CLOSED: usize = 1000;

impl Statuses {
    /// Returns the state of a source, which continues that of a closed source with the same name.
    pub(super) fn of(&self, name: &SourceName) -> Arc<Status> {
        let mut statuses = self.0.lock().expect("nothing panics under this lock");
        if statuses.len() >= CLOSED {
            statuses.retain(|_, status| Arc::strong_count(status) > 1);
        }
        Arc::clone(statuses.entry(name.clone()).or_default())
    }

    pub(crate) fn all(&self) -> Vec<SourceStatus> {
        let statuses = self.0.lock().expect("nothing panics under this lock");
        let status = |(name, status): (&SourceName, &Arc<Status>)| {
            let is_open = Arc::strong_count(status) > 1;
            let state = *status.lock();
            let State { position, counted, end, latest, ledger, committed, moved, marks, .. } = state;
            let opened = state.opened.unwrap_or_default();
            let name = name.clone();
            let standing_for =
                Some(moved.elapsed()).filter(|_| is_open && end.is_some_and(|end| end > counted));
            let recent = (ledger.records.read.saturating_sub(marks[0].1), marks[0].0.elapsed());
            SourceStatus {
                name,
                opened,
                position,
                counted,
                end,
                latest,
                committed,
                standing_for,
                ledger,
                recent,
            }
        };
        statuses.iter().map(status).collect()
    }

    /// Removes the state of a source that is not open.
    pub(super) fn forget(&self, name: &SourceName) {
        let mut statuses = self.0.lock().expect("nothing panics under this lock");
        if statuses.get(name).is_some_and(|status| Arc::strong_count(status) == 1) {
            statuses.remove(name);
        }
    }
}

impl State {
    /// Notes that the store has counted all records up to a position.
    pub(super) fn commit(&mut self, counted: u64) {
        let now = Instant::now();
        if counted > self.counted {
            self.moved = now;
        }
        if now.duration_since(self.marks[1].0) >= RECENT {
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
            moved: now,
            marks: [(now, 0); 2],
        }
    }
}

impl Status {
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("nothing panics under this lock")
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
        } += 1;
    }

    /// Returns whether the first equation of the ledger holds.
    #[must_use]
    pub const fn balance(&self) -> bool {
        let decided = self.recorded + self.already_counted + self.excluded + self.unmatched;
        self.read == decided + self.ignored.total() + self.malformed
    }
}

impl SourceHits {
    /// Notes the outcome of pending hits.
    pub(super) fn settle(&mut self, settled: &Self) {
        let Self { applied, expired, returned, dropped, .. } = *settled;
        self.pending -= applied + expired + returned + dropped.total();
        self.applied += applied;
        self.expired += expired;
        self.returned += returned;
        self.dropped += dropped;
    }

    /// Returns whether the second equation of the ledger holds.
    #[must_use]
    pub const fn balance(&self) -> bool {
        let settled = self.applied + self.expired + self.returned + self.dropped.total();
        self.recorded == settled + self.pending
    }
}

impl SourceStatus {
    /// Returns the number of positions between the last counted one and the end of the log, if that is known.
    #[must_use]
    pub fn lag(&self) -> Option<u64> {
        self.end.map(|end| end.saturating_sub(self.counted))
    }

    /// Returns the age at `now` of the latest counted record, or 0 at the end of the log; `None` if either is unknown.
    #[must_use]
    pub fn lag_time(&self, now: Timestamp) -> Option<Duration> {
        match self.lag()? {
            0 => Some(Duration::ZERO),
            _ => Some(Duration::from_secs(now.as_unix().saturating_sub(self.latest?.as_unix()))),
        }
    }

    /// Returns whether the store has counted no further record for a minute although the log has some.
    #[must_use]
    pub fn stands_still(&self) -> bool {
        self.standing_for.is_some_and(|standing| standing >= STILL)
    }

    /// Returns the number of records read per second, over about the last ten seconds.
    #[must_use]
    pub fn records_per_second(&self) -> f64 {
        let (records, time) = self.recent;
        if records == 0 { 0.0 } else { records as f64 / time.as_secs_f64().max(1.0) }
    }
}
