use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::Instant;

use super::lane::{Lane, empty};
use super::ledger::{SourceHits, SourceLedger, Status};
use super::name::SourceName;
use super::position::{LARGEST, positions};
use crate::error::{Error, ErrorKind};
use crate::family::writer::WriterId;
use crate::time::Timestamp;
use crate::visits::ledger::{Dropped, Skip};
use crate::visits::store::{ApplyOutcome, FenceKind, Part, Remark, Store};
use crate::visits::tally::{Hit, Measured, Tally};

/// A reader of a [source](crate::source), which merges records and sends them in chunks.
///
/// Read the log from [`position`](Self::position), and pass each record to [`record`](Self::record), [`skip`](Self::skip) or
/// [`malformed`](Self::malformed) in the order of the log. Call [`commit`](Self::commit) when `record` returns `true`, at the
/// end of the log, and about once a second.
#[derive(Debug)]
pub struct Source {
    name: SourceName,
    writer: WriterId,
    tally: Arc<Tally>,
    store: Arc<dyn Store>,
    lanes: Vec<Lane>,
    position: u64,
    /// The time for which the store keeps the position after a commit; `None` means without limit.
    life: Option<Duration>,
    status: Arc<Status>,
    /// The hits of this reader. Several readers may share a status.
    hits: SourceHits,
    /// The time at which all shards were last at the same position.
    aligned: Instant,
}

/// The result of [`Source::commit`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "after `Moved` the log has to be read from another position"]
pub enum Commit {
    /// The store has counted all records up to [`Source::position`].
    Done,
    /// The store was at another position, because another reader was faster or the store returned to an older state. Continue
    /// reading at [`Source::position`], which has changed.
    Moved,
}

/// The time after which shards without records are advanced to the position of the others, so that the next reader starts
/// there.
const ALIGN: Duration = Duration::from_secs(5);

/// The maximum number of attempts to forget a source while a reader is counting it.
const ATTEMPTS: usize = 10;

/// The margin by which hits must be newer than the records that the store has forgotten. Hits up to 25 hours ahead of its
/// clock are counted, and the clocks of readers may differ from it by the rest of two days.
const MARGIN: Duration = Duration::from_secs(2 * 86_400);

/// Returns the oldest time at which a source with this lifetime counts hits. All records that the store may have counted and
/// forgotten are older.
fn oldest(now: Timestamp, life: Duration) -> Timestamp {
    now.minus(life.saturating_sub(MARGIN).as_secs())
}

impl Source {
    /// The maximum position: 2^53, up to which numbers in Lua are exact.
    pub const MAX_POSITION: u64 = LARGEST;

    pub(super) async fn open(
        tally: Arc<Tally>,
        store: Arc<dyn Store>,
        name: SourceName,
        life: Option<Duration>,
        status: Arc<Status>,
    ) -> Result<Self, Error> {
        let writer = name.writer();
        let lanes = store.shards().iter().map(Lane::new).collect();
        let aligned = Instant::now();
        let hits = SourceHits::default();
        let mut source = Self { name, writer, tally, store, lanes, position: 0, life, status, hits, aligned };
        source.locate().await?;
        Ok(source)
    }

    /// Returns the name of the source.
    #[must_use]
    pub const fn name(&self) -> &SourceName {
        &self.name
    }

    /// Returns the position of the next record to read.
    #[must_use]
    pub const fn position(&self) -> u64 {
        self.position
    }

    /// Returns the ledger of this source in this process.
    #[must_use]
    pub fn ledger(&self) -> SourceLedger {
        self.status.lock().ledger
    }

    /// Returns the hits that this reader has recorded since it was opened, by state.
    #[must_use]
    pub const fn hits(&self) -> SourceHits {
        self.hits
    }

    /// Sets the end of the log, from which the lag is computed.
    pub fn set_end(&mut self, end: u64) {
        self.status.lock().end = Some(end);
    }

    /// Adds the hits of a record at the positions `range` and the time `at`; returns `true` if you should
    /// [`commit`](Self::commit). Records stay in memory until a commit succeeds, so if one fails, call it again before you
    /// read more.
    ///
    /// Pass all hits of a record in one call. Positions may have gaps but must not decrease: a record before
    /// [`position`](Self::position) is not counted. Hits past the retention of all precisions are `expired` in the ledger, and
    /// only add to the lifetimes of their counters. Hits that are too old for the
    /// [lifetime](super::Sources::keep_for) of the source are `expired` as well, and are not counted, because they may have been
    /// counted before. A record is `malformed` if its range is empty or ends after [`MAX_POSITION`](Self::MAX_POSITION).
    pub fn record(&mut self, range: Range<u64>, at: Timestamp, hits: &[Hit]) -> bool {
        self.record_measured(range, at, hits, Measured { hits: &[], bins: &[] })
    }

    /// Adds the hits of a record like [`record`](Self::record), and adds the record exactly once to the distributions, if they
    /// are [kept](crate::Builder::distributions).
    pub fn record_measured(
        &mut self,
        range: Range<u64>,
        at: Timestamp,
        hits: &[Hit],
        measured: Measured<'_>,
    ) -> bool {
        let before = self.position;
        if !self.advance(&range) {
            self.malformed(range);
            return false;
        }
        let is_expired = self.life.is_some_and(|life| at < oldest(Timestamp::now(), life));
        let is_new = |lane: &Lane| range.start >= lane.read_to.max(before);
        let (mut is_full, mut counted, mut overflow) = (false, 0, 0);
        for hit in hits {
            if let Some((label, noted)) = self.tally.label_of(hit.counter) {
                let lane = &mut self.lanes[label.shard().index()];
                if is_new(lane) {
                    let weight = hit.weight.get().into();
                    counted += match is_expired {
                        true => weight,
                        false => lane.add_label(label.counts(noted, weight, at), at, &self.tally.grid),
                    };
                    is_full |= !is_expired && lane.is_full(&self.tally.grid);
                }
                continue;
            }
            let (number, shard, is_other) = self.tally.slot(hit.counter);
            let lane = &mut self.lanes[shard.index()];
            if is_new(lane) {
                let count = u64::from(hit.weight.get());
                if !is_expired {
                    lane.add(number, at, count, hit.register, &self.tally.grid);
                }
                counted += count;
                overflow += if is_other { count } else { 0 };
                is_full |= lane.is_full(&self.tally.grid);
            }
        }
        let is_measured = |hit: &&Hit| !is_expired && self.tally.label_of(hit.counter).is_none();
        for hit in measured.hits.iter().filter(is_measured) {
            let (number, shard, _) = self.tally.slot(hit.counter);
            let lane = &mut self.lanes[shard.index()];
            if is_new(lane) {
                lane.measure(number, at, measured.bins, &self.tally.grid);
                is_full |= lane.is_full(&self.tally.grid);
            }
        }
        self.note_record(at, is_expired, counted, overflow);
        is_full
    }

    /// Notes a record with `counted` new hits, `overflow` of them of the counter `(other)`.
    fn note_record(&mut self, at: Timestamp, is_expired: bool, counted: u64, overflow: u64) {
        self.update_hits(|hits| {
            hits.recorded += counted;
            *(if is_expired { &mut hits.expired } else { &mut hits.pending }) += counted;
            hits.overflow += overflow;
        });
        let state = &mut *self.status.lock();
        state.ledger.records.read += 1;
        if counted == 0 {
            state.ledger.records.already_counted += 1;
        } else {
            state.ledger.records.recorded += 1;
            state.latest = state.latest.max(Some(at));
        }
    }

    /// Updates the ledgers of the source in this process and of this reader.
    fn update_hits(&mut self, update: impl Fn(&mut SourceHits)) {
        update(&mut self.hits);
        update(&mut self.status.lock().ledger.hits);
    }

    /// Notes a record without hits.
    pub fn skip(&mut self, range: Range<u64>, skip: Skip) {
        self.advance(&range);
        self.status.lock().ledger.records.skip(skip);
    }

    /// Notes a malformed record.
    pub fn malformed(&mut self, range: Range<u64>) {
        self.advance(&range);
        let records = &mut self.status.lock().ledger.records;
        records.read += 1;
        records.malformed += 1;
    }

    /// Notes positions that were removed from the log before they were read, for example by retention.
    ///
    /// Positions before [`position`](Self::position) are ignored. A range that ends after
    /// [`MAX_POSITION`](Self::MAX_POSITION) is ignored.
    pub fn lose(&mut self, range: Range<u64>) {
        let lost = range.end.saturating_sub(range.start.max(self.position));
        if self.advance(&range) {
            self.status.lock().ledger.records.lost += lost;
        }
    }

    /// Advances to a later position without reading, for example to start a new source there.
    ///
    /// An earlier position, or one after [`MAX_POSITION`](Self::MAX_POSITION), has no effect.
    pub fn advance_to(&mut self, position: u64) {
        self.advance(&(self.position..position));
    }

    /// Advances to the end of a record; returns whether the range is valid.
    fn advance(&mut self, range: &Range<u64>) -> bool {
        let is_valid = range.start < range.end && range.end <= Self::MAX_POSITION;
        if is_valid {
            self.position = self.position.max(range.end);
            self.status.lock().position = self.position;
        }
        is_valid
    }

    /// Sends the added records to all affected shards.
    ///
    /// # Errors
    /// Fails if the store did not acknowledge a batch. The next call sends it again, so nothing is lost.
    ///
    /// # Cancel safety
    /// If you drop the future, no record is lost or counted twice.
    pub async fn commit(&mut self) -> Result<Commit, Error> {
        let align = self.aligned.elapsed() >= ALIGN;
        self.send(align).await
    }

    /// Sends the added records, and advances all shards to the same position, so that the next reader starts there.
    ///
    /// # Errors
    /// Fails like [`commit`](Self::commit).
    ///
    /// # Cancel safety
    /// As with [`commit`](Self::commit).
    pub async fn close(&mut self) -> Result<Commit, Error> {
        self.send(true).await
    }

    async fn send(&mut self, align: bool) -> Result<Commit, Error> {
        // A batch of an earlier call is sent first, and then the records added since.
        while self.lanes.iter().any(|lane| lane.is_due() || align && lane.counted < self.position) {
            for lane in &mut self.lanes {
                if align || lane.is_due() {
                    lane.cut(self.writer, self.life, self.position.max(lane.read_to), &self.tally);
                }
            }
            let outgoing: Vec<_> = self.lanes.iter().filter_map(|lane| lane.outgoing.as_ref()).collect();
            let outcomes = join_all(outgoing.into_iter().map(|batch| self.store.apply(batch))).await;
            if self.acknowledge(outcomes)? == Commit::Moved {
                return Ok(Commit::Moved);
            }
        }
        if align {
            self.aligned = Instant::now();
        }
        self.status.lock().commit(self.position);
        Ok(Commit::Done)
    }

    /// Handles the answers to the batches in flight, in the order of the shards.
    fn acknowledge(&mut self, outcomes: Vec<Result<ApplyOutcome, Error>>) -> Result<Commit, Error> {
        let (mut commit, mut failed) = (Commit::Done, None);
        note_offered(&mut self.lanes, self.position);
        let mut settled = SourceHits::default();
        let sent = self.lanes.iter_mut().filter(|lane| lane.outgoing.is_some());
        for (lane, outcome) in sent.zip(outcomes) {
            match outcome {
                Ok(ApplyOutcome::Applied(remarks)) => {
                    let Some(batch) = lane.outgoing.take() else { continue };
                    lane.counted = batch.fence.sequence;
                    let expired = batch.expired_hits();
                    let (mut applied, mut refused) = (batch.hits() - expired, Dropped::default());
                    for remark in remarks {
                        if let Remark::Refused { part: Part::Cell(index), reason } = remark {
                            // The remarks may belong to a chunk of another reader that ends at the same position.
                            let count = batch.cells.get(index).map_or(0, |cell| cell.count).min(applied);
                            applied -= count;
                            *refused.of(reason) += count;
                        }
                    }
                    settled.applied += applied;
                    settled.expired += expired;
                    settled.dropped += refused;
                }
                Ok(ApplyOutcome::SequenceGap { found } | ApplyOutcome::Conflict { found }) => {
                    settled.returned += lane.move_to(found.sequence);
                    self.tally.give_up_labels();
                    commit = Commit::Moved;
                }
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        self.update_hits(|hits| hits.settle(&settled));
        if commit == Commit::Moved {
            self.go_to_lowest();
            return Ok(commit);
        }
        failed.map_or(Ok(commit), Err)
    }

    /// Resets all shards to 0, so that the source is forgotten immediately.
    pub(super) async fn forget(mut self) -> Result<(), Error> {
        for lane in &mut self.lanes {
            for _ in 0..ATTEMPTS {
                if lane.counted == 0 {
                    break;
                }
                let mut batch = empty(self.writer, lane.shard, lane.counted, 0, &self.tally.grid);
                batch.fence.kind = FenceKind::Source { life: Some(Duration::ZERO) };
                lane.counted = match self.store.apply(&batch).await? {
                    ApplyOutcome::Applied(_) => 0,
                    ApplyOutcome::SequenceGap { found } | ApplyOutcome::Conflict { found } => found.sequence,
                };
            }
            if lane.counted > 0 {
                return Err(Error::new(ErrorKind::Unavailable));
            }
        }
        Ok(())
    }

    /// Checks whether the store is still at the position of this reader.
    ///
    /// A [`commit`](Self::commit) with records checks this as well. Call this periodically while the log is quiet; otherwise
    /// records that a store lost by returning to an older state would be missing until the next record arrives.
    ///
    /// # Errors
    /// Fails when the store cannot be read.
    ///
    /// # Cancel safety
    /// Dropping the future has no effect.
    pub async fn check(&mut self) -> Result<Commit, Error> {
        let positions = positions(&*self.store, self.writer, &self.tally.grid).await?;
        note_offered(&mut self.lanes, self.position);
        let mut commit = Commit::Done;
        for (lane, last) in self.lanes.iter_mut().zip(positions) {
            // The batch in flight may have been applied, which its own answer will show.
            if !lane.is_due() && lane.counted != last {
                lane.move_to(last);
                self.tally.give_up_labels();
                commit = Commit::Moved;
            }
        }
        if commit == Commit::Moved {
            self.go_to_lowest();
        }
        Ok(commit)
    }

    /// Moves to the lowest position from which a shard needs records.
    fn go_to_lowest(&mut self) {
        self.position = self.lanes.iter().map(|lane| lane.read_to).min().unwrap_or_default();
        let mut state = self.status.lock();
        state.position = self.position;
        state.counted = state.counted.min(self.position);
    }

    /// Moves to the lowest position of a shard.
    async fn locate(&mut self) -> Result<(), Error> {
        let positions = positions(&*self.store, self.writer, &self.tally.grid).await?;
        for (lane, last) in self.lanes.iter_mut().zip(positions) {
            lane.move_to(last);
        }
        self.position = self.lanes.iter().map(|lane| lane.counted).min().unwrap_or_default();
        let mut state = self.status.lock();
        state.opened.get_or_insert(self.position);
        (state.position, state.counted) = (self.position, self.position);
        Ok(())
    }
}

/// Notes that all records up to a position were passed to the lanes.
fn note_offered(lanes: &mut [Lane], position: u64) {
    for lane in lanes {
        lane.read_to = lane.read_to.max(position);
    }
}

/// Returns unacknowledged hits to the log.
impl Drop for Source {
    fn drop(&mut self) {
        let left = self.lanes.iter_mut().map(|lane| lane.move_to(0)).sum::<u64>();
        if left > 0 {
            self.tally.give_up_labels();
        }
        self.update_hits(|hits| hits.settle(&SourceHits { returned: left, ..SourceHits::default() }));
    }
}
