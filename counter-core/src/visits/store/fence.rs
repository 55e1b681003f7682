//! Fences: sequence numbers stored with the counts, so that a batch will be applied exactly once.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::family::writer::WriterId;

/// The position of a batch in the sequence of a writer and shard.
///
/// A writer must never change the contents of a batch once it has a sequence and incarnation, regardless of
/// which server it is sent to. A server that lost this batch, or never received it, will receive it
/// unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fence {
    /// The writer sending the batch.
    pub writer: WriterId,
    /// The kind of writer, which defines the meaning of both numbers below.
    pub kind: FenceKind,
    /// The number to store when the batch is applied.
    pub sequence: u64,
    /// The number that must be stored before this batch.
    pub after: u64,
}

/// The kinds of writers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FenceKind {
    /// A process, which numbers its batches from 1 for every shard.
    ///
    /// The stored number must be at least `after`. If it is smaller, the store has lost batches which were
    /// already acknowledged. A batch with an `after` of 0 is empty, and creates the fence. Unless its number
    /// is 1, it will only be applied if the store does not have a fence for this writer. Thus, a batch with
    /// counts will never be applied when the fence is missing. If the stored number is greater than the
    /// number of the batch, the batch was already applied, unless another incarnation used the number.
    Process {
        /// The incarnation that created this batch.
        incarnation: Incarnation,
    },
    /// A [source](crate::source) with positions up to 2^53 as its numbers.
    ///
    /// The batch contains the records between `after` and `sequence`. The stored position must be equal to
    /// `after`, because different readers can split the same records at different positions. When a source is
    /// forgotten, the position goes back to 0.
    Source {
        /// Retention of the position after this batch, by the store clock, in whole seconds. Afterwards, the
        /// cleaner will remove it, resetting it to 0. If this is `None`, the position does not expire.
        life: Option<Duration>,
    },
}

/// A random number to distinguish batches created by a process from batches created by another process, which
/// has recovered hits from the [spool](crate::guide::spool) of the former.
///
/// Both might use the same sequence for different contents, e.g. when a copy of the spool is sent while the
/// process is still running. In this case, the store will return
/// [`ApplyOutcome::Conflict`](crate::visits::store::ApplyOutcome::Conflict), instead of mistaking the second batch
/// for the first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Incarnation(u64);

/// The fence stored for a writer. The default is used for a missing fence.
///
/// It can be stored as text, either as `sequence:incarnation:since`, or just the sequence in the case of a
/// source.
///
/// ```
/// use counter_core::visits::store::StoredFence;
///
/// let fence: StoredFence = "12:00000000000000ff:9".parse()?;
/// assert_eq!((fence.sequence, fence.since), (12, 9));
/// assert_eq!(fence.to_string(), "12:00000000000000ff:9");
/// # Ok::<(), std::num::ParseIntError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoredFence {
    /// The last sequence of a process, or the position of a source. 0 if missing.
    pub sequence: u64,
    /// The incarnation that sent the batch with this sequence. For a source, this is the default.
    pub incarnation: Incarnation,
    /// The last sequence of the previous incarnation.
    pub since: u64,
}

impl Incarnation {
    /// Creates a random incarnation, to distinguish new batches from those of any other process.
    ///
    /// # Panics
    /// Panics if the operating system can't provide random bytes.
    #[must_use]
    pub fn random() -> Self {
        let mut bytes = [0; 8];
        getrandom::fill(&mut bytes).expect("the operating system should provide random bytes");
        Self(u64::from_le_bytes(bytes))
    }

    /// Returns the number, e.g. to store it in a column.
    #[must_use]
    pub const fn to_bits(self) -> u64 {
        self.0
    }

    /// Creates an incarnation from its [number](Self::to_bits).
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

    /// Returns the incarnation of a process, or the default for a source.
    #[must_use]
    pub const fn incarnation(&self) -> Incarnation {
        match self.kind {
            FenceKind::Process { incarnation } => incarnation,
            FenceKind::Source { .. } => Incarnation(0),
        }
    }

    /// Returns the fence to store when this batch is applied, given the fence which was stored before.
    #[must_use]
    pub fn applied_to(&self, found: StoredFence) -> StoredFence {
        let incarnation = self.incarnation();
        let since = if found.incarnation == incarnation { found.since } else { found.sequence };
        StoredFence { sequence: self.sequence, incarnation, since }
    }
}

impl StoredFence {
    /// Returns `true` if another process has created this fence, which was missing. It must have a copy of the spool of the
    /// process with the incarnation `own`.
    pub(crate) fn is_created_by_another(&self, own: Incarnation) -> bool {
        // Fences without an incarnation are from older versions.
        self.sequence > 0 && self.since == 0 && ![own, Incarnation(0)].contains(&self.incarnation)
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
    fn a_stored_fence_keeps_the_start_of_an_incarnation() {
        let mut found = StoredFence::default();
        for (sequence, incarnation, since) in [(1, MINE, 0), (2, MINE, 0), (3, OTHER, 2), (4, OTHER, 2)] {
            let fence = Fence { kind: FenceKind::Process { incarnation }, ..fence(sequence - 1, sequence) };
            found = fence.applied_to(found);
            assert_eq!(found, StoredFence { sequence, incarnation, since });
            assert_eq!(found.to_string().parse(), Ok(found));
        }
    }
}
