use std::time::Duration;

use tokio::time::Instant;

use crate::family::writer::WriterId;
use crate::visits::store::REMEMBERED;
use crate::visits::{Fence, FenceKind, Incarnation, Witness};

/// The owner of a sequence of batches, with its knowledge about the servers.
///
/// An address may lead to several servers in turn: an empty one, an old replica, a restored backup, and the first one again.
/// Only the witnesses belong to one server.
#[derive(Debug)]
pub(super) struct Writer {
    pub(super) id: WriterId,
    pub(super) incarnation: Incarnation,
    /// The last sequence that was assigned to a batch.
    pub(super) sequence: u64,
    /// The highest acknowledged sequence, and the time of the last acknowledgement.
    acknowledged: Option<(u64, Instant)>,
    /// The witnesses of the servers after the fence was created, the latest last; at most [`MAX_WITNESSES`].
    witnesses: Vec<Witness>,
    /// True if the fence was created since a witness was last taken.
    is_unwitnessed: bool,
}

/// The maximum number of servers that a writer recognizes by their witness. A server that has the fence needs none.
const MAX_WITNESSES: usize = 8;

impl Writer {
    pub(super) fn new() -> Self {
        Self {
            id: WriterId::random(),
            incarnation: Incarnation::random(),
            sequence: 0,
            acknowledged: None,
            witnesses: Vec::new(),
            is_unwitnessed: true,
        }
    }

    /// Returns the sequence of the next batch with counts; the very first batch is empty.
    pub(super) const fn upcoming(&self) -> u64 {
        if self.sequence == 0 { 2 } else { self.sequence + 1 }
    }

    pub(super) fn next(&mut self) -> Fence {
        let after = self.sequence;
        self.sequence += 1;
        self.fence(after, self.sequence)
    }

    pub(super) const fn fence(&self, after: u64, sequence: u64) -> Fence {
        let kind = FenceKind::Process { incarnation: self.incarnation };
        Fence { writer: self.id, kind, sequence, after }
    }

    /// Returns the highest acknowledged sequence.
    pub(super) fn acknowledged(&self) -> u64 {
        self.acknowledged.map_or(0, |(sequence, _)| sequence)
    }

    pub(super) fn acknowledge(&mut self, fence: Fence, now: Instant) {
        self.acknowledged = Some((self.acknowledged().max(fence.sequence), now));
        self.is_unwitnessed |= fence.is_opening();
    }

    /// Returns the time since the last acknowledgement.
    pub(super) fn silence(&self) -> Option<Duration> {
        self.acknowledged.map(|(_, at)| at.elapsed())
    }

    pub(super) const fn is_unwitnessed(&self) -> bool {
        self.is_unwitnessed
    }

    /// Notes the witness after the fence was created. A witness that does not list the writer comes from another server, so it
    /// is taken again before the next batch.
    pub(super) fn witness(&mut self, witness: Option<Witness>) {
        self.is_unwitnessed = witness.as_ref().is_some_and(|witness| !witness.listed);
        let Some(witness) = witness.filter(|witness| witness.data.is_some()) else { return };
        self.witnesses.retain(|known| known.data != witness.data);
        if self.witnesses.len() == MAX_WITNESSES {
            self.witnesses.remove(0);
        }
        self.witnesses.push(witness);
    }

    /// Returns whether a server without the fence also lacks the counts, given its current witness.
    pub(super) fn data_are_lost(&self, now: Option<&Witness>) -> bool {
        let before = |now: &Witness| {
            let known = self.witnesses.iter().find(|known| known.data == now.data);
            known.or(self.witnesses.last())
        };
        match now.and_then(|now| Some((before(now)?, now))) {
            Some((before, now)) => now.shows_loss_since(before),
            None => self.silence().is_none_or(|silence| silence < REMEMBERED),
        }
    }
}
