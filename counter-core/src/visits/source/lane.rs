use std::sync::Arc;
use std::time::Duration;

use crate::Timestamp;
use crate::shard::Shard;
use crate::sketch::Register;
use crate::time::Grid;
use crate::visits::pending::Pending;
use crate::visits::store::SAMPLES;
use crate::visits::tally::Tally;
use crate::visits::{Batch, Fence, FenceKind};
use crate::writer::WriterId;

/// The way of one source to one shard: the records that the shard has not counted, folded.
#[derive(Debug)]
pub(super) struct Lane {
    pub(super) shard: Shard,
    /// The position up to which the shard has counted, as far as is known.
    pub(super) counted: u64,
    /// The position below which records were offered before; they are counted or in the batch under way.
    pub(super) read_to: u64,
    pending: Pending,
    /// The number of registers that rose.
    raised: usize,
    /// True if some of the records were of this shard, which may all be expired.
    touched: bool,
    /// A batch that was sent and is not acknowledged; it never changes.
    pub(super) outgoing: Option<Batch>,
}

/// Bounds on what one batch may hold, so that it keeps Redis busy for about 5 ms at most.
const CELLS: usize = 128;
const RAISED: usize = 1500;

impl Lane {
    pub(super) fn new(shard: Shard) -> Self {
        let pending = Pending::default();
        Self { shard, counted: 0, read_to: 0, pending, raised: 0, touched: false, outgoing: None }
    }

    pub(super) fn add(
        &mut self,
        counter: u32,
        at: Timestamp,
        count: u64,
        register: Option<Register>,
        grid: &Grid,
    ) {
        self.touched = true;
        self.pending.add(counter, at, count, grid);
        if let Some(register) = register {
            self.raised += usize::from(self.pending.raise(counter, at, register, grid));
        }
    }

    /// Returns whether the lane holds as much as one batch should.
    pub(super) fn is_full(&self) -> bool {
        self.pending.len() >= CELLS || self.raised >= RAISED
    }

    /// Returns whether there is something to send.
    pub(super) const fn is_due(&self) -> bool {
        self.touched || self.outgoing.is_some()
    }

    /// Makes a batch of everything up to `position`, if none is under way; returns the hits that no precision
    /// keeps any more.
    pub(super) fn cut(
        &mut self,
        source: WriterId,
        life: Option<Duration>,
        position: u64,
        tally: &Tally,
    ) -> u64 {
        if self.outgoing.is_some() || self.counted >= position {
            return 0;
        }
        let expired = self.pending.coarsen(Timestamp::now(), &tally.grid);
        let mut batch = empty(source, self.shard, self.counted, position, &tally.grid);
        batch.fence.kind = FenceKind::Source { life };
        for chunk in self.pending.take(&tally.names(), &tally.grid, SAMPLES) {
            batch.cells.extend(chunk.cells);
            batch.sketches.extend(chunk.sketches);
        }
        batch.cells.sort_unstable_by_key(|cell| (cell.start, cell.finest));
        (self.raised, self.touched, self.outgoing) = (0, false, Some(batch));
        expired
    }

    /// Drops what is not acknowledged, since the shard is at another position; returns its hits.
    pub(super) fn move_to(&mut self, position: u64) -> u64 {
        let hits = self.outgoing.take().map_or(0, |batch| batch.hits()) + self.pending.hits();
        *self = Self { counted: position, read_to: position, ..Self::new(self.shard) };
        hits
    }
}

/// Returns a batch without counts.
pub(super) fn empty(source: WriterId, shard: Shard, after: u64, sequence: u64, grid: &Arc<Grid>) -> Batch {
    let fence = Fence { writer: source, kind: FenceKind::Source { life: None }, sequence, after };
    Batch { shard, fence, cells: Vec::new(), sketches: Vec::new(), grid: Arc::clone(grid) }
}
