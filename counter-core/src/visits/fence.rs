//! The fence: the number that a store keeps beside the counts, so that it applies each batch once.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::family::writer::WriterId;

/// The place of a batch in the sequence of its writer and shard.
///
/// A writer never changes the contents of a batch under the same number, incarnation included, whatever servers it is
/// sent to: a server that lost the batch, or never had it, gets the same one again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fence {
    /// The writer that sends the batch.
    pub writer: WriterId,
    /// The meaning of the numbers that follow.
    pub kind: FenceKind,
    /// The number that the store keeps once the batch is applied.
    pub sequence: u64,
    /// The number that the store must have kept before this batch.
    pub after: u64,
}

/// The two kinds of writers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FenceKind {
    /// A process, which numbers its batches: 1 for the first to a shard, and one more for each that follows.
    ///
    /// `after` is the least number that the store must have: if it has less, it lost batches that it had
    /// acknowledged. A batch with an `after` of 0 is empty and creates the fence, and unless its number is 1, it is applied
    /// only where the store has no fence of this writer. So no batch with counts is ever applied where its fence is missing. A batch whose
    /// number the store has passed was applied before, unless another incarnation took the number.
    Process {
        /// The process that cut this batch.
        incarnation: Incarnation,
    },
    /// A [source](crate::source), whose numbers are positions, at most 2^53.
    ///
    /// The batch holds what lies between `after` and `sequence`, and the store must be at `after` exactly:
    /// several readers may cut the same records at different positions. A source that is forgotten goes back to 0.
    Source {
        /// The time for which the store keeps the position after this batch, by its own clock, in whole seconds;
        /// `None` keeps it for ever. The cleaner removes it then, and the store is at 0 again.
        life: Option<Duration>,
    },
}

/// A random number that distinguishes who cut the batches of a writer: the process itself, or another one from
/// the hits that the process left in its [spool](crate::guide::spool).
///
/// Both may use the same sequence for different contents, for example if a copy of the spool is sent while the
/// process lives. The store refuses the second one with [`ApplyOutcome::Conflict`](crate::visits::ApplyOutcome::Conflict) instead of taking it for the first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Incarnation(u64);

/// The fence that a store keeps for a writer; the default is a missing one.
///
/// Its text, for stores that keep it as such, is `sequence:incarnation:since`, or the sequence alone for a source.
///
/// ```
/// use counter_core::visits::StoredFence;
///
/// let fence: StoredFence = "12:00000000000000ff:9".parse()?;
/// assert_eq!((fence.sequence, fence.since), (12, 9));
/// assert_eq!(fence.to_string(), "12:00000000000000ff:9");
/// # Ok::<(), std::num::ParseIntError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoredFence {
    /// The last sequence of a process, or the position of a source; 0 if there is none.
    pub sequence: u64,
    /// The incarnation that sent it; the default for a source.
    pub incarnation: Incarnation,
    /// The last sequence of the incarnation before this one.
    pub since: u64,
}

impl Incarnation {
    /// Creates a random one.
    ///
    /// # Panics
    /// Panics when the operating system has no randomness to give.
    #[must_use]
    pub fn random() -> Self {
        let mut bytes = [0; 8];
        getrandom::fill(&mut bytes).expect("the operating system gives random bytes");
        Self(u64::from_le_bytes(bytes))
    }

    /// Returns the number, for a store that keeps fences as columns.
    #[must_use]
    pub const fn to_bits(self) -> u64 {
        self.0
    }

    /// Creates the incarnation of this [number](Self::to_bits).
    #[must_use]
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }
}

impl Fence {
    /// Returns whether the writer is a source.
    #[must_use]
    pub const fn is_source(&self) -> bool {
        matches!(self.kind, FenceKind::Source { .. })
    }

    /// Returns whether the batch creates the fence of a process.
    #[must_use]
    pub const fn is_opening(&self) -> bool {
        matches!(self.kind, FenceKind::Process { .. }) && self.after == 0
    }

    /// Returns the incarnation of a process; the default for a source.
    #[must_use]
    pub const fn incarnation(&self) -> Incarnation {
        match self.kind {
            FenceKind::Process { incarnation } => incarnation,
            FenceKind::Source { .. } => Incarnation(0),
        }
    }

    /// Returns the fence that a store keeps after this batch, if it kept `found` before.
    #[must_use]
    pub fn applied_to(&self, found: StoredFence) -> StoredFence {
        let incarnation = self.incarnation();
        let since = if found.incarnation == incarnation { found.since } else { found.sequence };
        StoredFence { sequence: self.sequence, incarnation, since }
    }
}

impl fmt::Display for Incarnation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl fmt::Display for StoredFence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.incarnation {
            Incarnation(0) => write!(f, "{}", self.sequence),
            incarnation => write!(f, "{}:{incarnation}:{}", self.sequence, self.since),
        }
    }
}

impl FromStr for StoredFence {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut parts = text.splitn(3, ':');
        let mut next = || parts.next().unwrap_or("0");
        let sequence = next().parse()?;
        let incarnation = Incarnation(u64::from_str_radix(next(), 16)?);
        Ok(Self { sequence, incarnation, since: next().parse()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINE: Incarnation = Incarnation(1);
    const OTHER: Incarnation = Incarnation(2);

    fn fence(after: u64, sequence: u64) -> Fence {
        let (writer, kind) = (WriterId::of([7; 16]), FenceKind::Process { incarnation: MINE });
        Fence { writer, kind, sequence, after }
    }

    #[test]
    fn a_stored_fence_remembers_where_its_incarnation_began() {
        let mut found = StoredFence::default();
        for (sequence, incarnation, since) in [(1, MINE, 0), (2, MINE, 0), (3, OTHER, 2), (4, OTHER, 2)] {
            let fence = Fence { kind: FenceKind::Process { incarnation }, ..fence(sequence - 1, sequence) };
            found = fence.applied_to(found);
            assert_eq!(found, StoredFence { sequence, incarnation, since });
            assert_eq!(found.to_string().parse(), Ok(found));
        }
    }
}
