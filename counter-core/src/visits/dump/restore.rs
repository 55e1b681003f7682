use std::sync::Arc;

use futures_util::future::{BoxFuture, join_all};

use super::lane::{Lane, Section};
use super::line::{Dumped, Record, parse};
use crate::error::Error;
use crate::family::line::{MAX_LINE_BYTES, Position, Sealed};
use crate::family::name::CounterName;
use crate::family::restore_error::RestoreError;
use crate::family::shard::{Shard, Shards};
use crate::family::store_id::StoreId;
use crate::family::writer::WriterId;
use crate::time::{Grid, Kind, Precision, Retention, Sample, Timestamp};
use crate::visits::ledger::DropReason;
use crate::visits::source::{SourceName, empty, positions};
use crate::visits::store::identity::StoreRecord;
use crate::visits::store::{
    Adds, ApplyOutcome, Batch, Cell, Part, Remark, Store, StoreInfo, Value, identity,
};

/// A restore in progress: see [the module](crate::dump).
///
/// Pass the lines of the dump to [`line`](Self::line), in order, and then call [`finish`](Self::finish).
/// Restored counters don't count towards [`max_counters`](crate::Builder::max_counters), and restored hits
/// are not included in the ledger of this process.
#[derive(Debug)]
pub struct Restore {
    store: Arc<dyn Store>,
    shards: Shards,
    batch_samples: usize,
    grid: Arc<Grid>,
    writer: WriterId,
    lanes: Vec<Lane>,
    position: Position,
    dumped: Option<Dumped>,
    /// The totals of the lines read so far, to be compared with the final line.
    read: Dumped,
    restored: Restored,
}

/// The outcome of a restore. The samples, sketches, distribution parts and lifetimes of a dump are each
/// included in exactly one of these numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Restored {
    /// Counters in the dump, as reported by the final line; 0 until that line is read.
    pub counters: u64,
    /// Counts added to buckets.
    pub samples: u64,
    /// Sketches merged into buckets.
    pub sketches: u64,
    /// Distribution parts added to buckets.
    pub distributions: u64,
    /// Counts added to lifetimes.
    pub lifetimes: u64,
    /// Entries already added by an earlier restore of this dump.
    pub already_restored: u64,
    /// Entries for buckets past the retention of this store.
    pub expired: u64,
    /// Entries for precisions that this store does not use.
    pub unknown: u64,
    /// The precisions of the dump that this store does not use, without duplicates, up to 16.
    pub unknown_precisions: Vec<Precision>,
    /// Entries rejected by the store because the bucket is more than 25 hours ahead of the store clock.
    pub ahead: u64,
    /// Entries rejected by the store for another reason, such as an overflow.
    pub rejected: u64,
    /// Entries that are missing because they could not be read when creating the dump.
    pub unreadable: u64,
}

/// Maximum number of unknown precisions to report.
const MAX_UNKNOWN_PRECISIONS: usize = 16;

impl Restore {
    /// The maximum length of a line without the line ending, in bytes: 64 KiB.
    pub const MAX_LINE: usize = MAX_LINE_BYTES;

    pub(crate) fn new(store: Arc<dyn Store>, grid: Arc<Grid>) -> Self {
        let StoreInfo { shards, batch_samples, .. } = store.info();
        Self {
            store,
            shards,
            batch_samples,
            grid,
            writer: WriterId::of([0; 16]),
            lanes: Vec::new(),
            position: Position::START,
            dumped: None,
            read: Dumped::default(),
            restored: Restored::default(),
        }
    }

    /// Reads the next line, with or without a line ending, and sends full batches. Empty lines are ignored.
    ///
    /// Line numbers and checksums are used to detect missing, repeated and damaged lines, as well as lines
    /// from another dump. A line can have up to [`MAX_LINE`](Self::MAX_LINE) bytes.
    ///
    /// # Errors
    /// Fails if the line is malformed or if the store does not acknowledge a batch. In either case, the line
    /// is not accepted: call this again with the same or a corrected line.
    ///
    /// # Cancel safety
    /// If you drop the future, the line is not accepted; call this again with the same line.
    pub async fn line(&mut self, line: &[u8]) -> Result<(), RestoreError> {
        self.take(line.trim_ascii()).await
    }

    /// Sends the remaining batches, marks the dump as complete in the store, and returns the outcome.
    ///
    /// # Errors
    /// Fails if the final line of the dump is missing or if the store does not acknowledge a batch. You can
    /// pass the missing lines or retry later.
    ///
    /// # Cancel safety
    /// If you drop the future, some batches may have been sent. You can call this again.
    pub async fn finish(&mut self) -> Result<Restored, RestoreError> {
        self.end().await
    }

    /// Returns the outcome of the lines sent so far.
    #[must_use]
    pub const fn restored(&self) -> &Restored {
        &self.restored
    }

    /// Returns the number of accepted lines.
    #[must_use]
    pub const fn lines(&self) -> u64 {
        self.position.line()
    }

    fn take<'a>(&'a mut self, text: &'a [u8]) -> BoxFuture<'a, Result<(), RestoreError>> {
        Box::pin(async move {
            if text.is_empty() {
                return Ok(());
            }
            let due = self.position.due();
            let malformed = |expected: String| RestoreError::Malformed { line: due, expected };
            if self.dumped.is_some() {
                return Err(malformed("the end of the dump".to_owned()));
            }
            let sealed = Sealed::of(text);
            let (number, record) = parse(&sealed.text).map_err(malformed)?;
            let next = self.position.after(&sealed, number, |due| format!("the number {due}"));
            let next = next.map_err(malformed)?;
            match record {
                Record::Begin { id, stores } if due == 1 => self.begin(&id, &stores).await?,
                Record::Begin { .. } => return Err(malformed("no other dump".to_owned())),
                _ if due == 1 => return Err(malformed("the first line of a dump".to_owned())),
                Record::Samples { precision, counter, samples } => {
                    let samples =
                        samples.into_iter().map(|Sample { start, count }| (start, Value::Count(count)));
                    self.take_values(due, precision, counter, Kind::Counts, samples.collect()).await?;
                }
                Record::Visitors { bucket, counter, sketch } => {
                    let values = vec![(bucket.start, Value::Visitors(sketch))];
                    self.take_values(due, bucket.precision, counter, Kind::Visitors, values).await?;
                }
                Record::Bins { bucket, counter, bins } => {
                    let values = vec![(bucket.start, Value::Distribution(bins))];
                    self.take_values(due, bucket.precision, counter, Kind::Distributions, values).await?;
                }
                Record::Lifetime { counter, count } => {
                    let shard = self.shards.of(&counter);
                    if self.is_due(shard, 1, Section::Lifetimes).await? {
                        let (finest, value) = (self.grid.counts.precision(0), Value::Count(count));
                        let cell = Cell { counter, start: Timestamp::MIN, finest, value };
                        self.lanes[shard.index()].push(due, Section::Lifetimes, cell);
                    }
                    self.read.lifetimes += 1;
                }
                Record::Unreadable => {}
                Record::End(dumped) => self.take_end(dumped).map_err(malformed)?,
            }
            self.position = next;
            Ok(())
        })
    }

    /// Takes values of a counter in buckets with these starts.
    async fn take_values(
        &mut self,
        line: u64,
        precision: Precision,
        counter: CounterName,
        kind: Kind,
        values: Vec<(Timestamp, Value)>,
    ) -> Result<(), RestoreError> {
        let (entries, now) = (values.len() as u64, Timestamp::now());
        if let Some((shard, retention)) = self.find(&counter, entries, precision, kind).await? {
            let lane = &mut self.lanes[shard.index()];
            for (start, value) in values {
                if retention.expiry(start) > now {
                    let cell = Cell { counter: counter.clone(), start, finest: retention.precision, value };
                    lane.push(line, Section::Values(kind, retention), cell);
                } else {
                    self.restored.expired += 1;
                }
            }
        }
        *match kind {
            Kind::Counts => &mut self.read.samples,
            Kind::Visitors => &mut self.read.sketches,
            Kind::Distributions => &mut self.read.distributions,
        } += entries;
        Ok(())
    }

    /// Compares the totals in the final line with those of the previous lines. The error describes the
    /// expected content.
    fn take_end(&mut self, dumped: Dumped) -> Result<(), String> {
        let Dumped { samples, sketches, distributions, lifetimes, .. } = self.read;
        let Dumped { counters, unreadable, .. } = dumped;
        if (Dumped { counters, unreadable, ..self.read }) != dumped {
            return Err(format!(
                "the sums of the lines before: {samples} samples, {sketches} sketches, {distributions} parts of \
                 distributions and {lifetimes} lifetimes"
            ));
        }
        (self.restored.counters, self.restored.unreadable) = (counters, unreadable);
        self.dumped = Some(dumped);
        Ok(())
    }

    /// Starts to restore a dump: checks the stores of the dump, and reads the position of all shards.
    async fn begin(&mut self, id: &str, stores: &[StoreId]) -> Result<(), RestoreError> {
        self.check_stores(id, stores).await?;
        let name = SourceName::new(&format!("dump:{id}")).expect("a hexadecimal id is a valid name");
        self.writer = name.writer();
        let positions =
            positions(&*self.store, self.writer, &self.grid).await.map_err(RestoreError::Store)?;
        let lane = |(shard, counted)| Lane::new(shard, counted);
        self.lanes = self.shards.iter().zip(positions).map(lane).collect();
        Ok(())
    }

    /// Rejects a dump if the store already has the counts; otherwise records the stores of the dump.
    async fn check_stores(&self, dump: &str, stores: &[StoreId]) -> Result<(), RestoreError> {
        let mut rejected = None;
        let note = |record: &mut StoreRecord, _| {
            // This needs to be checked first, because another dump would not help.
            let own = stores.iter().any(|id| record.counted(*id)).then_some(None);
            let others = || stores.iter().find_map(|id| record.other_dump(*id, dump)).map(Some);
            rejected = own.or_else(others).map(|earlier| (record.id, earlier));
            if rejected.is_none() {
                stores.iter().for_each(|id| record.restore(*id, dump));
                record.keep_grid(&self.grid);
            }
        };
        identity::update(&*self.store, note).await.map_err(RestoreError::Store)?;
        match rejected {
            None => Ok(()),
            Some((store, None)) => Err(RestoreError::OwnCounts { store }),
            Some((_, Some(earlier))) => Err(RestoreError::OtherDump { earlier }),
        }
    }

    /// Returns the shard and the retention for new entries, or `None` if they don't need to be added. If the
    /// batch is full, this sends it first.
    async fn find(
        &mut self,
        counter: &CounterName,
        entries: u64,
        precision: Precision,
        kind: Kind,
    ) -> Result<Option<(Shard, Retention)>, RestoreError> {
        let Some(retention) = self.grid.precisions(kind).and_then(|set| set.retention(precision)) else {
            let named = &mut self.restored.unknown_precisions;
            if named.len() < MAX_UNKNOWN_PRECISIONS && !named.contains(&precision) {
                named.push(precision);
            }
            self.restored.unknown += entries;
            return Ok(None);
        };
        let shard = self.shards.of(counter);
        Ok(self.is_due(shard, entries, Section::Values(kind, retention)).await?.then_some((shard, retention)))
    }

    /// Returns `true` if the next line is missing on the shard. If the batch is full, this sends it first.
    async fn is_due(&mut self, shard: Shard, entries: u64, section: Section) -> Result<bool, RestoreError> {
        if self.position.line() < self.lanes[shard.index()].counted {
            self.restored.already_restored += entries;
            return Ok(false);
        }
        if !self.lanes[shard.index()].accepts(section, self.batch_samples) {
            self.send().await?;
        }
        // A concurrent restore may have added the line.
        let is_due = self.position.line() >= self.lanes[shard.index()].counted;
        self.restored.already_restored += if is_due { 0 } else { entries };
        Ok(is_due)
    }

    /// Sends the accepted lines to all shards concurrently.
    async fn send(&mut self) -> Result<(), RestoreError> {
        loop {
            self.lanes.iter_mut().for_each(|lane| lane.cut(self.writer, &self.grid));
            let outgoing: Vec<_> = self.lanes.iter().filter_map(|lane| lane.outgoing.as_ref()).collect();
            if outgoing.is_empty() {
                return Ok(());
            }
            let outcomes = join_all(outgoing.iter().map(|outgoing| self.store.apply(&outgoing.batch))).await;
            self.acknowledge(outcomes)?;
        }
    }

    /// Handles the replies to the batches in flight, in shard order.
    fn acknowledge(&mut self, outcomes: Vec<Result<ApplyOutcome, Error>>) -> Result<(), RestoreError> {
        let mut result = Ok(());
        let sent = self.lanes.iter_mut().filter(|lane| lane.outgoing.is_some());
        for (lane, outcome) in sent.zip(outcomes) {
            match outcome {
                Ok(ApplyOutcome::Applied(remarks)) => {
                    if let Some(batch) = lane.acknowledge() {
                        self.restored.note(&batch, &remarks);
                    }
                }
                Ok(ApplyOutcome::SequenceGap { found } | ApplyOutcome::Conflict { found })
                    if found.sequence < lane.counted =>
                {
                    result = Err(RestoreError::DataLost);
                }
                Ok(ApplyOutcome::SequenceGap { found } | ApplyOutcome::Conflict { found }) => {
                    self.restored.already_restored += lane.skip_to(found.sequence);
                }
                Err(error) => result = result.and(Err(RestoreError::Store(error))),
            }
        }
        result
    }

    fn end(&mut self) -> BoxFuture<'_, Result<Restored, RestoreError>> {
        Box::pin(async {
            self.send().await?;
            if self.dumped.is_none() {
                return Err(RestoreError::Truncated { line: self.position.line() });
            }
            // This also advances shards that don't have entries in the remaining lines, and replaces long
            // remarks.
            let line = self.position.line();
            let behind = self.lanes.iter_mut().filter(|lane| lane.counted < line);
            let ends: Vec<_> = behind
                .map(|lane| (empty(self.writer, lane.shard, lane.counted, line, &self.grid), lane))
                .collect();
            let outcomes = join_all(ends.iter().map(|(batch, _)| self.store.apply(batch))).await;
            for ((_, lane), outcome) in ends.into_iter().zip(outcomes) {
                match outcome.map_err(RestoreError::Store)? {
                    ApplyOutcome::SequenceGap { found } | ApplyOutcome::Conflict { found }
                        if found.sequence < lane.counted =>
                    {
                        return Err(RestoreError::DataLost);
                    }
                    ApplyOutcome::SequenceGap { found } | ApplyOutcome::Conflict { found } => {
                        lane.counted = found.sequence;
                    }
                    ApplyOutcome::Applied(_) => lane.counted = line,
                }
            }
            Ok(self.restored.clone())
        })
    }
}

impl Restored {
    fn note(&mut self, batch: &Batch, remarks: &[Remark]) {
        // A rejected list entry does not count as a rejected sample.
        let is_refused = |remark: &&Remark| match remark {
            Remark::Rejected { part: Part::Index, .. } => batch.adds == Adds::Lifetimes,
            Remark::Rejected { .. } => true,
            Remark::NewLifetime { .. } => false,
        };
        let is_ahead =
            |remark: &&Remark| matches!(remark, Remark::Rejected { reason: DropReason::Ahead, .. });
        let parts = batch.cells.len();
        let rejected = remarks.iter().filter(is_refused).count().min(parts) as u64;
        let ahead = (remarks.iter().filter(is_ahead).count() as u64).min(rejected);
        self.ahead += ahead;
        self.rejected += rejected - ahead;
        // All values of a batch are of a kind.
        let added = match batch.cells.first().map(|cell| cell.value.kind()) {
            _ if batch.adds == Adds::Lifetimes => &mut self.lifetimes,
            Some(Kind::Visitors) => &mut self.sketches,
            Some(Kind::Distributions) => &mut self.distributions,
            Some(Kind::Counts) | None => &mut self.samples,
        };
        *added += parts as u64 - rejected;
    }
}
