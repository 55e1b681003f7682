//! Rows to be written to a spool, i.e. the difference between the file and the pending hits, by shard.
//!
//! The rows in the file have the sequence that the store gets with the same data: either the sequence of a
//! batch, or, for hits that have been added since, the sequence of the batch that will contain these hits.
//! This way, we only need the fence in the store to find out which rows still count, even after a crash.

use std::collections::VecDeque;
use std::sync::Arc;

use super::Pending;
use crate::family::shard::Shard;
use crate::family::writer::WriterId;
use crate::visits::store::{Batch, Incarnation, Witness};

/// The journal of a shard. This is only changed under the backlog lock, along with the data that it
/// describes.
#[derive(Debug)]
pub(crate) struct Journal {
    writer: WriterId,
    incarnation: Incarnation,
    witness: Option<Witness>,
    /// Sequence of the batch that will contain the pending hits; `None` while they are being cut into
    /// batches.
    next: Option<u64>,
    /// Batches that may have to be sent, by sequence.
    batches: VecDeque<Arc<Batch>>,
    /// Lowest sequence of a batch that may have to be sent; the file does not need older batches.
    oldest: u64,
    /// Hits added to the pending hits, but not yet taken to be written.
    added: Pending,
    /// Number of hits that were cut into batches, or left to a full entry, and not yet taken to be written.
    cut: u64,
    /// Number of hits that were taken to be written, but are not known to be in the file.
    taken: u64,
    /// Number of hits that were cut into more than one batch, and that the file only contains as pending hits
    /// from before the cut.
    pending_only: u64,
    /// Highest sequence of a batch in the file.
    written: u64,
    file: File,
    /// Set if the witness is missing in the file, or if rows with an old sequence need to be replaced.
    is_changed: bool,
}

/// The known state of the rows of a shard in the spool file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum File {
    /// The file is incomplete, so the next entry must be a full one.
    Stale,
    /// An entry has been taken. If writing it fails, the next entry must be a full one.
    InFlight,
    /// The file has everything except for recently added hits.
    Current,
}

/// The rows of a shard to be written to the spool file.
#[derive(Debug)]
pub(crate) struct JournalEntry {
    pub(crate) shard: Shard,
    pub(crate) writer: WriterId,
    /// Incarnation of the process that recorded the pending hits.
    pub(crate) incarnation: Incarnation,
    pub(crate) witness: Option<Witness>,
    /// True if this entry replaces all rows of the shard.
    pub(crate) is_whole: bool,
    /// The lowest sequence of a batch that may have to be sent; the file does not need older batches.
    pub(crate) oldest: u64,
    pub(crate) batches: Vec<Arc<Batch>>,
    /// Sequence of the pending hits. Pending hits with a lower sequence have been cut into batches.
    pub(crate) next: u64,
    pub(crate) waiting: Pending,
}

impl Journal {
    pub(crate) fn new() -> Self {
        Self {
            writer: WriterId::random(),
            incarnation: Incarnation::default(),
            witness: None,
            next: None,
            batches: VecDeque::new(),
            oldest: 0,
            added: Pending::default(),
            cut: 0,
            taken: 0,
            pending_only: 0,
            written: 0,
            file: File::Stale,
            is_changed: false,
        }
    }

    pub(crate) const fn added(&mut self) -> &mut Pending {
        &mut self.added
    }

    /// Returns the number of hits that may be missing in the file.
    pub(crate) fn unwritten(&self) -> u64 {
        self.taken + self.cut + self.added.hits()
    }

    /// Records that all pending hits have been taken, to be cut into batches.
    pub(crate) fn take(&mut self) {
        self.cut += self.added.hits();
        self.added = Pending::default();
        self.next = None;
    }

    /// Records new batches, and the sequence of the next batch.
    pub(crate) fn cut(&mut self, batches: impl IntoIterator<Item = Arc<Batch>>, next: u64) {
        self.batches.extend(batches);
        self.next = Some(next);
        self.is_changed = true;
        self.update_pending_only();
    }

    /// Records that the batches are about to be sent. A single batch that is not in the file can still be
    /// recognized via the pending hits, which have the same sequence. If there is more than one, however, we
    /// could not tell which hits the store has. This also applies to a previous entry that is still being
    /// written: if the disk is failing, we do not wait for this.
    pub(crate) fn send(&mut self) {
        let pending_only = std::mem::take(&mut self.pending_only);
        if self.unwritten_batches().next().is_some() {
            self.taken += pending_only;
            self.file = File::Stale;
        }
    }

    fn unwritten_batches(&self) -> impl Iterator<Item = &Arc<Batch>> {
        self.batches.iter().filter(|batch| batch.fence.sequence > self.written)
    }

    fn update_pending_only(&mut self) {
        let several = self.unwritten_batches().nth(1).is_some();
        let hits = self.unwritten_batches().map(|batch| batch.hits()).sum::<u64>();
        self.pending_only = if several { hits.saturating_sub(self.taken + self.cut) } else { 0 };
    }

    /// Records that a new writer takes over, starting with this sequence.
    pub(crate) fn begin(&mut self, writer: WriterId, incarnation: Incarnation, next: u64) {
        (self.writer, self.incarnation, self.witness) = (writer, incarnation, None);
        self.batches.clear();
        (self.oldest, self.written) = (0, 0);
        self.invalidate();
        self.cut([], next);
    }

    pub(crate) fn witness(&mut self, witness: Option<Witness>) {
        self.is_changed |= self.witness != witness;
        self.witness = witness;
    }

    /// Drops batches below this sequence. Their rows will be deleted with the next entry.
    pub(crate) fn release(&mut self, oldest: u64) {
        self.oldest = oldest;
        while self.batches.front().is_some_and(|batch| batch.fence.sequence < oldest) {
            self.batches.pop_front();
        }
    }

    /// Forces the next entry to be a full one, even if a taken entry is written in the meantime. A full entry
    /// also contains the added hits, so we drop these here. Otherwise, they would grow until an entry is
    /// taken.
    pub(crate) fn invalidate(&mut self) {
        self.cut += std::mem::take(&mut self.added).hits();
        self.file = File::Stale;
    }

    /// Records that the file no longer exists; `waiting` is the number of pending hits.
    pub(crate) fn lose(&mut self, waiting: u64) {
        self.invalidate();
        self.cut = 0;
        self.taken = waiting + self.batches.iter().map(|batch| batch.hits()).sum::<u64>();
    }

    /// Takes an entry to write. We can't rely on the file until this entry has been
    /// [`written`](Self::written).
    pub(crate) fn entry(&mut self, shard: Shard, pending: &Pending) -> Option<JournalEntry> {
        let next = self.next?;
        let is_whole = self.file != File::Current;
        if !is_whole && !self.is_changed && self.added.len() == 0 {
            return None;
        }
        self.taken += std::mem::take(&mut self.cut) + self.added.hits();
        let added = std::mem::take(&mut self.added);
        let waiting = if is_whole { pending.clone() } else { added };
        let is_new = |batch: &&Arc<Batch>| is_whole || batch.fence.sequence > self.written;
        let batches = self.batches.iter().filter(is_new).cloned().collect();
        (self.file, self.is_changed) = (File::InFlight, false);
        let (writer, incarnation) = (self.writer, self.incarnation);
        let (witness, oldest) = (self.witness.clone(), self.oldest);
        Some(JournalEntry { shard, writer, incarnation, witness, is_whole, oldest, batches, next, waiting })
    }

    /// Records that an entry is in the file.
    pub(crate) fn written(&mut self, entry: &JournalEntry) {
        if entry.writer == self.writer && self.file == File::InFlight {
            self.written = entry.batches.last().map_or(self.written, |batch| batch.fence.sequence);
            (self.taken, self.file) = (0, File::Current);
            self.update_pending_only();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::family::name::CounterName;
    use crate::family::shard::Shards;
    use crate::time::Grid;
    use crate::time::{Precision, Timestamp};
    use crate::visits::store::{Cell, Fence, FenceKind, Value};

    fn batch(shard: Shard, sequence: u64, name: &str) -> Arc<Batch> {
        let kind = FenceKind::Process { incarnation: Incarnation::default() };
        let writer = WriterId::of([7; 16]);
        let cell = Cell {
            counter: CounterName::new(name).expect("a name"),
            start: Timestamp::MIN,
            finest: Precision::try_from(1).expect("not 0"),
            value: Value::Count(1),
        };
        let fence = Fence { writer, kind, sequence, after: sequence - 1 };
        Arc::new(Batch { cells: vec![cell], ..Batch::empty(shard, fence, &Arc::default()) })
    }

    #[test]
    fn batches_cut_during_a_pending_write_are_not_reported_as_written() {
        let shard = Shards::ONE.iter().next().expect("one");
        let (mut journal, mut pending, grid) = (Journal::new(), Pending::default(), Grid::default());
        journal.begin(WriterId::of([7; 16]), Incarnation::default(), 2);
        for counter in 0..2 {
            pending.add(counter, Timestamp::MIN, 1, &grid);
            journal.added().add(counter, Timestamp::MIN, 1, &grid);
        }
        let in_flight = journal.entry(shard, &pending).expect("an entry to write");
        // The disk is already failing, so sending does not wait for this entry. If the store then receives an
        // empty batch with the same sequence, the rows in the file no longer count.
        journal.take();
        journal.cut([batch(shard, 3, "a"), batch(shard, 4, "b")], 5);
        journal.send();
        journal.written(&in_flight);
        assert_eq!(journal.unwritten(), 2);
        let next = journal.entry(shard, &Pending::default()).expect("a full entry");
        assert!(next.is_whole && next.batches.len() == 2, "{next:?}");
        journal.written(&next);
        assert_eq!(journal.unwritten(), 0);
    }
}
