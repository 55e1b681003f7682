use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::{Instant, timeout};

use super::history::{FarStore, History};
use super::lane::{Lane, empty, hits_in_buckets, mark_read};
use super::ledger::{SourceHits, SourceLedger, Status};
use super::name::SourceName;
use super::position::{LARGEST_POSITION, all_positions};
use crate::error::{Error, ErrorKind};
use crate::family::writer::WriterId;
use crate::time::Timestamp;
use crate::visits::ledger::{Dropped, Skip};
use crate::visits::store::{ApplyOutcome, Cell, FenceKind, Part, Remark, Store};
use crate::visits::tally::{Hit, Measured, Part as LabelPart, STAY, Tally};

/// A reader of a [source](crate::source), which merges records and sends them in chunks.
///
/// Read the log from [`position`](Self::position), and pass the records to [`record`](Self::record),
/// [`skip`](Self::skip) or [`malformed`](Self::malformed) in log order. You should call
/// [`commit`](Self::commit) when `record` returns `true`, at the end of the log, and about once a second.
#[derive(Debug)]
pub struct Source {
    name: SourceName,
    writer: WriterId,
    tally: Arc<Tally>,
    store: Arc<dyn Store>,
    /// A lane per shard of the store, and a lane per precision of the far store.
    lanes: Vec<Lane>,
    shards: usize,
    history: Option<History>,
    position: u64,
    /// Time for which the store keeps the position after a commit; `None` means forever.
    life: Option<Duration>,
    status: Arc<Status>,
    /// Hits of this reader. The status can be shared by multiple readers.
    hits: SourceHits,
    /// Time at which all shards were last at the same position.
    aligned: Instant,
    /// People in earlier records are not here now.
    here_since: Timestamp,
}

/// The result of [`Source::commit`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "after `Moved`, the log must be read from a different position"]
pub enum Commit {
    /// The store has counted all records up to [`Source::position`].
    Done,
    /// The store is at a different position, because another reader is ahead or because the store lost data.
    /// Continue to read at [`Source::position`], which is updated.
    Moved,
}

/// Interval at which shards without new records are advanced to the common position, so that the next reader
/// can start there.
const ALIGN_INTERVAL: Duration = Duration::from_secs(5);

/// Maximum number of attempts to forget a source while it is being read.
const MAX_ATTEMPTS: usize = 10;

/// Safety margin between hits and records that the store could have forgotten. Hits up to 25 hours ahead of
/// the store clock are counted; the rest of the two days allows for clock skew between readers and the store.
const SKEW_MARGIN: Duration = Duration::from_secs(2 * 86_400);

/// Returns the oldest time at which a source with this lifetime counts hits. If the store has counted and
/// then forgotten a record, the record must be older.
fn oldest(now: Timestamp, life: Duration) -> Timestamp {
    now.minus(life.saturating_sub(SKEW_MARGIN).as_secs())
}

impl Source {
    /// The maximum position of a source: 2^53, because larger integers are not exact in Lua.
    pub const MAX_POSITION: u64 = LARGEST_POSITION;

    pub(super) fn new(
        tally: Arc<Tally>,
        store: Arc<dyn Store>,
        name: SourceName,
        life: Option<Duration>,
        status: Arc<Status>,
    ) -> Self {
        let writer = name.writer();
        let lane = |shard| Lane::new(shard, Arc::clone(&store), writer, Arc::clone(&tally.grid));
        let lanes: Vec<_> = store.info().shards.iter().map(lane).collect();
        let (shards, aligned, hits) = (lanes.len(), Instant::now(), SourceHits::default());
        let (history, position) = (None, 0);
        let here_since = Timestamp::now().minus(STAY * 60);
        Self {
            name,
            writer,
            tally,
            store,
            lanes,
            shards,
            history,
            position,
            life,
            status,
            hits,
            aligned,
            here_since,
        }
    }

    pub(super) async fn open(mut self, has_history: bool, far: Option<&FarStore>) -> Result<Self, Error> {
        if has_history {
            self.history = Some(History::read(&*self.store, self.writer, &self.tally.grid, far).await?);
        }
        for (far, part) in far.iter().flat_map(|far| far.parts.iter().map(move |part| (far, part))) {
            let writer = self.name.writer_of(part.near.precision);
            self.lanes.push(Lane::to_far(Arc::clone(&far.store), writer, part.clone()));
        }
        self.locate().await?;
        Ok(self)
    }

    /// Returns the source name.
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

    /// Returns the hits recorded by this reader so far, by state.
    #[must_use]
    pub const fn hits(&self) -> SourceHits {
        self.hits
    }

    /// Sets the end of the log, which is used to compute the lag.
    pub fn set_end(&mut self, end: u64) {
        self.status.lock().end = Some(end);
    }

    /// Adds the hits of a record at the positions `range` and the time `at`. Returns `true` if you should
    /// [`commit`](Self::commit). Records are buffered in memory until a commit succeeds. If a commit fails,
    /// you should retry it before reading more.
    ///
    /// All hits of a record must be passed in a single call. Positions may have gaps but must not decrease: a
    /// record before [`position`](Self::position) will not be counted. If a hit is past the retention of all
    /// precisions, it only adds to the counter lifetime, and is `expired` in the ledger. If a hit is too old
    /// for the [lifetime](super::Sources::expire_after) of the source, it is also `expired`, but will not be
    /// counted, because it might already have been counted. If the range is empty or ends after
    /// [`MAX_POSITION`](Self::MAX_POSITION), the record is `malformed`.
    pub fn record(&mut self, range: Range<u64>, at: Timestamp, hits: &[Hit]) -> bool {
        self.record_measured(range, at, hits, Measured { hits: &[], bins: &[] })
    }

    /// Adds the hits of a record like [`record`](Self::record), and also adds the record to the distributions
    /// exactly once, if [enabled](crate::Builder::distributions).
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
        let history = self.history.as_ref();
        let cutoff = history.and_then(|history| history.cutoff(range.start));
        let clock = || history.map_or_else(Timestamp::now, History::clock);
        let (near, far) = self.lanes.split_at_mut(self.shards);
        let is_expired = self.life.is_some_and(|life| at < oldest(Timestamp::now(), life));
        let is_new = |lane: &Lane| range.start >= lane.read_to.max(before);
        let (mut is_full, mut counted, mut overflow) = (false, 0, 0);
        // We only read the clock if the record is not too old anyway.
        if at >= self.here_since {
            let registers = hits.iter().filter_map(|hit| hit.register);
            registers.for_each(|register| self.tally.presence.see_at(at, register));
        }
        for hit in hits {
            if let Some((label, noted)) = self.tally.label_of(hit.counter) {
                let (weight, is_own_new) =
                    (hit.weight.get().into(), is_new(&near[hit.counter.shard.index()]));
                let is_near_new = is_own_new || near.iter().any(is_new);
                if is_expired {
                    counted += if is_own_new { weight } else { 0 };
                } else if is_near_new || far.iter().any(is_new) {
                    // The error bound of pairs is on a different shard, which may be at a different position.
                    let register = hit.register.filter(|_| !noted.is_pair() && label.has_people());
                    let parts = label.parts(noted, weight, at).into_iter().flatten();
                    // The second part is the error bound.
                    for (LabelPart { counter, shard, count }, register) in
                        parts.zip([register, None]).filter(|(part, _)| part.count > 0)
                    {
                        let lane = &mut near[shard.index()];
                        if is_new(lane) {
                            counted += count;
                        } else if is_near_new {
                            // The bound may not be part of the counted records.
                            self.tally.give_up_labels();
                        }
                        for lane in std::iter::once(lane).chain(&mut *far).filter(|lane| is_new(lane)) {
                            lane.add_label(&counter, at, count, cutoff);
                            if let Some(register) = register {
                                lane.raise_label(&counter, at, register, cutoff);
                            }
                            is_full |= lane.is_full(clock);
                        }
                    }
                }
                continue;
            }
            let (number, shard, is_other) = self.tally.slot(hit.counter);
            let (lane, count) = (&mut near[shard.index()], u64::from(hit.weight.get()));
            if is_new(lane) {
                counted += count;
                overflow += if is_other { count } else { 0 };
            }
            if !is_expired {
                for lane in std::iter::once(lane).chain(&mut *far).filter(|lane| is_new(lane)) {
                    lane.add(number, at, count, hit.register, cutoff);
                    is_full |= lane.is_full(clock);
                }
            }
        }
        // A record of many equal requests has many hits on the same counter in a row.
        let equal = measured.hits.chunk_by(|one, other| one.counter == other.counter);
        for hits in equal.filter(|hits| !is_expired && self.tally.label_of(hits[0].counter).is_none()) {
            let (number, shard, _) = self.tally.slot(hits[0].counter);
            let lane = &mut near[shard.index()];
            for lane in std::iter::once(lane).chain(&mut *far).filter(|lane| is_new(lane)) {
                lane.measure(number, at, measured.bins, hits.len() as u64, cutoff);
                is_full |= lane.is_full(clock);
            }
        }
        self.note_record(at, is_expired, counted, overflow);
        is_full
    }

    /// Adds a record with `counted` new hits to the ledger, including `overflow` hits for `(other)`.
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

    /// Updates the hits of this reader, and of the source in this process.
    fn update_hits(&mut self, update: impl Fn(&mut SourceHits)) {
        update(&mut self.hits);
        update(&mut self.status.lock().ledger.hits);
    }

    /// Adds a record without hits to the ledger, with the reason.
    pub fn skip(&mut self, range: Range<u64>, skip: Skip) {
        self.advance(&range);
        self.status.lock().ledger.records.skip(skip);
    }

    /// Adds a malformed record to the ledger.
    pub fn malformed(&mut self, range: Range<u64>) {
        self.advance(&range);
        let records = &mut self.status.lock().ledger.records;
        records.read += 1;
        records.malformed += 1;
    }

    /// Adds positions to the ledger that were deleted from the log before reading, e.g. by the retention of
    /// the log.
    ///
    /// Ignores positions before [`position`](Self::position), and any range that ends after
    /// [`MAX_POSITION`](Self::MAX_POSITION).
    pub fn lose(&mut self, range: Range<u64>) {
        let lost = range.end.saturating_sub(range.start.max(self.position));
        if self.advance(&range) {
            self.status.lock().ledger.records.lost += lost;
        }
    }

    /// Advances to a later position without reading, e.g. to start a new source at this position.
    ///
    /// Does nothing if the position is earlier, or after [`MAX_POSITION`](Self::MAX_POSITION).
    pub fn advance_to(&mut self, position: u64) {
        self.advance(&(self.position..position));
    }

    /// Advances to the end of a record. Returns `true` if the range is valid.
    fn advance(&mut self, range: &Range<u64>) -> bool {
        let is_valid = range.start < range.end && range.end <= Self::MAX_POSITION;
        if is_valid {
            self.position = self.position.max(range.end);
            self.status.lock().position = self.position;
        }
        is_valid
    }

    /// Sends the buffered records to all affected shards.
    ///
    /// # Errors
    /// Returns an error if the store does not acknowledge a batch. The batch will be retried by the next
    /// call, so no hits are lost.
    ///
    /// # Cancel safety
    /// If you drop the future, records are not lost or double-counted.
    pub async fn commit(&mut self) -> Result<Commit, Error> {
        let align = self.aligned.elapsed() >= ALIGN_INTERVAL;
        let commit = self.send(align).await?;
        self.tally.presence.share_if_due(&*self.store).await;
        Ok(commit)
    }

    /// Sends the buffered records, and advances all shards to the same position, so that the next reader can
    /// start there.
    ///
    /// # Errors
    /// Same as for [`commit`](Self::commit).
    ///
    /// # Cancel safety
    /// Same as for [`commit`](Self::commit).
    pub async fn close(&mut self) -> Result<Commit, Error> {
        let commit = self.send(true).await?;
        // There may be no flusher that shares them later. If the store hangs only now, this is not worth the wait.
        drop(timeout(Duration::from_secs(1), self.tally.presence.share(&*self.store)).await);
        Ok(commit)
    }

    async fn send(&mut self, align: bool) -> Result<Commit, Error> {
        let align = align || self.history.as_ref().is_some_and(|history| history.is_due(self.position));
        if let Some(history) = &mut self.history {
            history.write(&*self.store, self.writer).await?;
        }
        // The far store must not be ahead: it decides by the time at which the near store counted a record.
        for lanes in [0..self.shards, self.shards..self.lanes.len()] {
            // If an earlier call left a batch in flight, this sends that batch first, and then the newer records.
            let position = self.position;
            let is_due = |lane: &Lane| lane.is_due() || align && lane.counted < position;
            while self.lanes[lanes.clone()].iter().any(is_due) {
                if let Some(history) = self.history.as_mut().filter(|_| lanes.start > 0) {
                    history.wait_until_settled().await?;
                }
                let clock = self.history.as_ref().map_or_else(Timestamp::now, History::clock);
                for lane in &mut self.lanes[lanes.clone()] {
                    if align || lane.is_due() {
                        lane.cut(self.life, position.max(lane.read_to), clock, &self.tally);
                    }
                }
                let outcomes = join_all(self.lanes[lanes.clone()].iter().filter_map(Lane::apply)).await;
                if self.acknowledge(lanes.clone(), outcomes)? == Commit::Moved {
                    return Ok(Commit::Moved);
                }
            }
        }
        if align {
            self.aligned = Instant::now();
            self.renew_cutoff().await?;
        }
        self.status.lock().commit(self.position);
        Ok(Commit::Done)
    }

    /// Adds a cutoff for the records that are not counted yet, if needed.
    async fn renew_cutoff(&mut self) -> Result<(), Error> {
        let counted = self.lanes[..self.shards].iter().map(|lane| lane.counted).max().unwrap_or_default();
        let Some(history) = &mut self.history else { return Ok(()) };
        history.renew(&*self.store, self.writer, counted).await
    }

    /// Handles the replies to the batches in flight, in the order of the lanes.
    fn acknowledge(
        &mut self,
        lanes: Range<usize>,
        outcomes: Vec<Result<ApplyOutcome, Error>>,
    ) -> Result<Commit, Error> {
        let (mut commit, mut failed) = (Commit::Done, None);
        mark_read(&mut self.lanes, self.position);
        let mut resolved = SourceHits::default();
        let coarsest = self.lanes.len() - 1;
        let sent = self.lanes.iter_mut().enumerate().take(lanes.end).skip(lanes.start);
        let sent = sent.filter(|(_, lane)| lane.outgoing.is_some());
        for ((index, lane), outcome) in sent.zip(outcomes) {
            match outcome {
                Ok(ApplyOutcome::Applied(remarks)) => {
                    let Some(batch) = lane.outgoing.take() else { continue };
                    lane.counted = batch.fence.sequence;
                    if lane.far.is_some() {
                        // Hits that are past the longest retention of the near store have expired there.
                        resolved.archived += if index == coarsest { hits_in_buckets(&batch) } else { 0 };
                        continue;
                    }
                    let expired = batch.expired_hits();
                    let (mut applied, mut rejected) = (batch.hits() - expired, Dropped::default());
                    for remark in remarks {
                        if let Remark::Rejected { part: Part::Cell(index), reason, .. } = remark {
                            // The remarks may refer to a chunk of another reader that ends at the same
                            // position.
                            let count =
                                batch.cells.get(index).and_then(Cell::count).unwrap_or(0).min(applied);
                            applied -= count;
                            *rejected.of(reason) += count;
                        }
                    }
                    resolved.applied += applied;
                    resolved.expired += expired;
                    resolved.dropped += rejected;
                }
                Ok(ApplyOutcome::SequenceGap { found } | ApplyOutcome::Conflict { found }) => {
                    let returned = lane.move_to(found.sequence);
                    resolved.returned += if lane.far.is_none() { returned } else { 0 };
                    self.tally.give_up_labels();
                    commit = Commit::Moved;
                }
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        self.update_hits(|hits| hits.resolve(&resolved));
        if commit == Commit::Moved {
            self.rewind_to_lowest();
            return Ok(commit);
        }
        failed.map_or(Ok(commit), Err)
    }

    /// Resets the position on all shards to 0, to forget the source immediately.
    pub(super) async fn forget(mut self) -> Result<(), Error> {
        for lane in &mut self.lanes {
            for _ in 0..MAX_ATTEMPTS {
                if lane.counted == 0 {
                    break;
                }
                let mut batch = empty(lane.writer, lane.shard, lane.counted, 0, &self.tally.grid);
                batch.fence.kind = FenceKind::Source { life: Some(Duration::ZERO) };
                lane.counted = match lane.store.apply(&batch).await? {
                    ApplyOutcome::Applied(_) => 0,
                    ApplyOutcome::SequenceGap { found } | ApplyOutcome::Conflict { found } => found.sequence,
                };
            }
            if lane.counted > 0 {
                return Err(Error::new(ErrorKind::Unavailable));
            }
        }
        match &mut self.history {
            Some(history) => history.forget(&*self.store, self.writer).await,
            None => Ok(()),
        }
    }

    /// Checks whether the store is still at the position of this reader.
    ///
    /// A [`commit`](Self::commit) with records also checks this. You should call this periodically while the
    /// log is idle. Otherwise, if the store loses data, the lost records will be missing until the next
    /// record arrives.
    ///
    /// # Errors
    /// Fails when the store can't be read.
    ///
    /// # Cancel safety
    /// This method is cancel safe.
    pub async fn check(&mut self) -> Result<Commit, Error> {
        let positions = all_positions(&self.lanes, self.shards).await?;
        mark_read(&mut self.lanes, self.position);
        let mut commit = Commit::Done;
        for (lane, last) in self.lanes.iter_mut().zip(positions) {
            // The batch in flight may have been applied. We will find out from the reply to the batch.
            if !lane.is_due() && lane.counted != last {
                lane.move_to(last);
                self.tally.give_up_labels();
                commit = Commit::Moved;
            }
        }
        if commit == Commit::Moved {
            self.rewind_to_lowest();
        }
        if !self.lanes.iter().any(Lane::is_due) {
            self.renew_cutoff().await?;
        }
        self.tally.presence.share_if_due(&*self.store).await;
        Ok(commit)
    }

    /// Moves to the lowest position from which a shard needs records.
    fn rewind_to_lowest(&mut self) {
        self.position = self.lanes.iter().map(|lane| lane.read_to).min().unwrap_or_default();
        let mut state = self.status.lock();
        state.position = self.position;
        state.counted = state.counted.min(self.position);
    }

    /// Reads the positions of all lanes, and moves to the lowest.
    async fn locate(&mut self) -> Result<(), Error> {
        let positions = all_positions(&self.lanes, self.shards).await?;
        for (lane, last) in self.lanes.iter_mut().zip(positions) {
            lane.move_to(last);
        }
        self.renew_cutoff().await?;
        if let Some(start) = self.history.as_ref().and_then(History::start) {
            // There is nothing to add for earlier records.
            self.lanes[self.shards..].iter_mut().for_each(|lane| lane.read_to = lane.read_to.max(start));
        }
        self.position = self.lanes.iter().map(|lane| lane.read_to).min().unwrap_or_default();
        let mut state = self.status.lock();
        state.opened.get_or_insert(self.position);
        (state.position, state.counted) = (self.position, self.position);
        Ok(())
    }
}

/// Returns unacknowledged hits to the log.
impl Drop for Source {
    fn drop(&mut self) {
        let left = self.lanes[..self.shards].iter_mut().map(|lane| lane.move_to(0)).sum::<u64>();
        if left > 0 {
            self.tally.give_up_labels();
        }
        self.update_hits(|hits| hits.resolve(&SourceHits { returned: left, ..SourceHits::default() }));
    }
}
