use std::time::Duration;

use tokio::time::Instant;

use crate::family::writer::WriterId;
use crate::visits::store::{Fence, FenceKind, IDLE_WRITER_TTL, Incarnation, Witness};

/// The writer of a shard: the identity, the sequence of the batches, and the known state of the servers.
///
/// An address can lead to different servers over time, e.g. to an empty server, an old replica, a restored
/// backup, or back to the original. Only the witnesses are specific to a server.
#[derive(Debug)]
pub(super) struct Writer {
    pub(super) id: WriterId,
    pub(super) incarnation: Incarnation,
    /// Latest sequence assigned to a batch.
    pub(super) sequence: u64,
    /// Highest acknowledged sequence, and the time of the latest acknowledgement.
    acknowledged: Option<(u64, Instant)>,
    /// Server witnesses read since the fence was created, ordered from oldest to newest; at most
    /// [`MAX_WITNESSES`].
    witnesses: Vec<Witness>,
    /// True if we need to read a witness, because there is a new fence since the previous read.
    is_unwitnessed: bool,
}

/// Maximum number of servers to recognize by witness.
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

    /// Returns the sequence of the next batch with counts. Sequence 1 is always an empty batch.
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

    /// Returns the time since the latest acknowledgement.
    pub(super) fn idle_time(&self) -> Option<Duration> {
        self.acknowledged.map(|(_, at)| at.elapsed())
    }

    pub(super) const fn is_unwitnessed(&self) -> bool {
        self.is_unwitnessed
    }

    /// Records the witness that was read for a new fence. If the witness doesn't list the writer, it comes
    /// from another server, so we need to read it again before sending the next batch.
    pub(super) fn witness(&mut self, witness: Option<Witness>) {
        self.is_unwitnessed = witness.as_ref().is_some_and(|witness| !witness.listed);
        let Some(witness) = witness.filter(|witness| witness.data.is_some()) else { return };
        self.witnesses.retain(|known| known.data != witness.data);
        if self.witnesses.len() == MAX_WITNESSES {
            self.witnesses.remove(0);
        }
        self.witnesses.push(witness);
    }

    /// Decides whether a server without the fence also lost the counts, given the current witness.
    pub(super) fn is_data_lost(&self, now: Option<&Witness>) -> bool {
        let before = |now: &Witness| {
            let known = self.witnesses.iter().find(|known| known.data == now.data);
            known.or(self.witnesses.last())
        };
        match now.and_then(|now| Some((before(now)?, now))) {
            Some((before, now)) => now.proves_loss_since(before),
            None => self.idle_time().is_none_or(|idle_time| idle_time < IDLE_WRITER_TTL),
        }
    }

    /// Decides whether a server still has the counts, although another process has created the fence anew, given the current
    /// witness. The list of writers proves nothing then.
    pub(super) fn is_data_kept(&self, now: Option<&Witness>) -> bool {
        now.is_some_and(|now| now.evicts || self.witnesses.iter().any(|known| known.data == now.data))
    }

    /// Returns the age at which a batch without a reply may have been applied, if the store then lost only the
    /// fence.
    pub(super) fn min_doubtful_age(now: Option<&Witness>) -> Duration {
        // If the writer is still listed, or if keys were evicted, the fence may have been lost at any time.
        // Otherwise, the store removed the writer because it was idle for long: recent attempts found no
        // fence, and could not be applied.
        let is_loss_time_unknown = now.is_some_and(|now| now.listed || now.evicts);
        if is_loss_time_unknown { Duration::ZERO } else { IDLE_WRITER_TTL }
    }
}
