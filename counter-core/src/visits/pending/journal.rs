//! The rows that a spool has to write: the difference between its file and what waits in the process, for each shard.
//!
//! The file of a spool has rows by the sequence under which the store is, or will be, sent their content: the
//! batches that were cut, and after them what was added since, whose sequence is that of the batch that will
//! carry it. So the store's fence alone decides which rows count, whatever became of the process.

use std::collections::VecDeque;
use std::sync::Arc;

use super::Pending;
use crate::family::shard::Shard;
use crate::family::writer::WriterId;
use crate::visits::store::{Batch, Incarnation, Witness};

/// The journal of one shard. Everything in it changes under the lock of the backlog, together with
/// what it describes.
#[derive(Debug)]
pub(crate) struct Journal {
    writer: WriterId,
    incarnation: Incarnation,
    witness: Option<Witness>,
    /// The sequence of the batch that will carry what waits; `None` while that is being cut into batches.
    next: Option<u64>,
    /// The batches that the store may still have to be sent, by sequence.
    batches: VecDeque<Arc<Batch>>,
    /// The lowest sequence that is still needed.
    oldest: u64,
    /// The hits that were added to what waits and never taken to be written.
    added: Pending,
    /// The hits that were cut into batches, or were left to a whole entry, before they were taken to be written.
    cut: u64,
    /// The hits that were taken to be written, and are not known to be.
    taken: u64,
    /// The hits of several batches that the file has only as what waited before they were cut.
    waited: u64,
    /// The highest sequence of a batch in the file.
    written: u64,
    file: File,
    /// Set where the file lacks the witness, or rows of an old sequence are to be replaced.
    is_changed: bool,
}

/// State of the file, as far as it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum File {
    /// It lacks something: the next entry is a whole one.
    Stale,
    /// An entry was taken, and unless it is written, the next is a whole one.
    UnderWay,
    /// It has everything but what was added since.
    Current,
}

/// The rows to write for one shard.
#[derive(Debug)]
pub(crate) struct JournalEntry {
    pub(crate) shard: Shard,
    pub(crate) writer: WriterId,
    /// The process that wrote what waits.
    pub(crate) incarnation: Incarnation,
    pub(crate) witness: Option<Witness>,
    /// Set where these rows replace all others of the shard.
    pub(crate) is_whole: bool,
    /// The lowest sequence that is still needed.
    pub(crate) oldest: u64,
    pub(crate) batches: Vec<Arc<Batch>>,
    /// The sequence of what waits; what waited under a lower one is in batches now.
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
            waited: 0,
            written: 0,
            file: File::Stale,
            is_changed: false,
        }
    }

    pub(crate) const fn added(&mut self) -> &mut Pending {
        &mut self.added
    }

    /// Returns the hits that the file is not known to have.
    pub(crate) fn unwritten(&self) -> u64 {
        self.taken + self.cut + self.added.hits()
    }

    /// Notes that everything that waits was taken, to be cut into batches.
    pub(crate) fn take(&mut self) {
        self.cut += self.added.hits();
        self.added = Pending::default();
        self.next = None;
    }

    /// Notes the batches that were cut, and the sequence of the next one.
    pub(crate) fn cut(&mut self, batches: impl IntoIterator<Item = Arc<Batch>>, next: u64) {
        self.batches.extend(batches);
        self.next = Some(next);
        self.is_changed = true;
        self.note_what_waited();
    }

    /// Notes that the batches are about to be sent. One that is in no file is known by what waited, which has its sequence, but
    /// of several that were cut from it nothing tells any more what the store has: neither does an entry of before, which
    /// may still be under way while the disk fails, as that is not waited for.
    pub(crate) fn send(&mut self) {
        let waited = std::mem::take(&mut self.waited);
        if self.unwritten_batches().next().is_some() {
            self.taken += waited;
            self.file = File::Stale;
        }
    }

    fn unwritten_batches(&self) -> impl Iterator<Item = &Arc<Batch>> {
        self.batches.iter().filter(|batch| batch.fence.sequence > self.written)
    }

    fn note_what_waited(&mut self) {
        let several = self.unwritten_batches().nth(1).is_some();
        let hits = self.unwritten_batches().map(|batch| batch.hits()).sum::<u64>();
        self.waited = if several { hits.saturating_sub(self.taken + self.cut) } else { 0 };
    }

    /// Notes that a writer takes over, whose next batch has this sequence.
    pub(crate) fn begin(&mut self, writer: WriterId, incarnation: Incarnation, next: u64) {
        (self.writer, self.incarnation, self.witness) = (writer, incarnation, None);
        self.batches.clear();
        (self.oldest, self.written) = (0, 0);
        self.spoil();
        self.cut([], next);
    }

    pub(crate) fn witness(&mut self, witness: Option<Witness>) {
        self.is_changed |= self.witness != witness;
        self.witness = witness;
    }

    /// Forgets batches of lower sequences. Their rows are deleted with whatever is written next.
    pub(crate) fn release(&mut self, oldest: u64) {
        self.oldest = oldest;
        while self.batches.front().is_some_and(|batch| batch.fence.sequence < oldest) {
            self.batches.pop_front();
        }
    }

    /// Makes the next entry a whole one, whatever becomes of one that was taken. What was added is in that anyway, and would
    /// grow for as long as none is taken.
    pub(crate) fn spoil(&mut self) {
        self.cut += std::mem::take(&mut self.added).hits();
        self.file = File::Stale;
    }

    /// Notes that there is no file any more; `waiting` hits wait.
    pub(crate) fn lose(&mut self, waiting: u64) {
        self.spoil();
        self.cut = 0;
        self.taken = waiting + self.batches.iter().map(|batch| batch.hits()).sum::<u64>();
    }

    /// Takes what is to be written; until it is [`written`](Self::written), the file is not relied on.
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
        (self.file, self.is_changed) = (File::UnderWay, false);
        let (writer, incarnation) = (self.writer, self.incarnation);
        let (witness, oldest) = (self.witness.clone(), self.oldest);
        Some(JournalEntry { shard, writer, incarnation, witness, is_whole, oldest, batches, next, waiting })
    }

    /// Notes that an entry is in the file.
    pub(crate) fn written(&mut self, entry: &JournalEntry) {
        if entry.writer == self.writer && self.file == File::UnderWay {
            self.written = entry.batches.last().map_or(self.written, |batch| batch.fence.sequence);
            (self.taken, self.file) = (0, File::Current);
            self.note_what_waited();
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
    use crate::visits::store::{Cell, Fence, FenceKind};

    fn batch(shard: Shard, sequence: u64, name: &str) -> Arc<Batch> {
        let kind = FenceKind::Process { incarnation: Incarnation::default() };
        let writer = WriterId::of([7; 16]);
        let cell = Cell {
            counter: CounterName::new(name).expect("a name"),
            start: Timestamp::MIN,
            finest: Precision::try_from(1).expect("not 0"),
            count: 1,
        };
        let fence = Fence { writer, kind, sequence, after: sequence - 1 };
        Arc::new(Batch { cells: vec![cell], ..Batch::empty(shard, fence, &Arc::default()) })
    }

    #[test]
    fn what_was_cut_into_several_batches_while_it_was_written_as_waiting_is_not_told_as_written() {
        let shard = Shards::ONE.iter().next().expect("one");
        let (mut journal, mut pending, grid) = (Journal::new(), Pending::default(), Grid::default());
        journal.begin(WriterId::of([7; 16]), Incarnation::default(), 2);
        for counter in 0..2 {
            pending.add(counter, Timestamp::MIN, 1, &grid);
            journal.added().add(counter, Timestamp::MIN, 1, &grid);
        }
        let under_way = journal.entry(shard, &pending).expect("there is something to write");
        // The disk has failed before, so nothing waits for this entry. Once the store has an empty batch under its
        // sequence, what it has in the file counts no more.
        journal.take();
        journal.cut([batch(shard, 3, "a"), batch(shard, 4, "b")], 5);
        journal.send();
        journal.written(&under_way);
        assert_eq!(journal.unwritten(), 2);
        let next = journal.entry(shard, &Pending::default()).expect("they are to be written");
        assert!(next.is_whole && next.batches.len() == 2, "{next:?}");
        journal.written(&next);
        assert_eq!(journal.unwritten(), 0);
    }
}
