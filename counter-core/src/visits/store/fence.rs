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

/// The state of a store, to distinguish a lost fence from lost data.
///
/// It is possible to just lose the fence, e.g. when it is evicted, deleted by hand, or removed after the
/// writer has been idle for a long time. The counts of its batches are still stored in this case, so we would
/// count them twice if we sent the batches again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Witness {
    /// A random mark that is stored with the first data, and lost if the data is lost.
    pub data: Option<String>,
    /// A random mark that is stored with the list of writers. It will be lost if the list is lost, or if
    /// writers are removed from the list.
    pub writers: Option<String>,
    /// True if this writer is in the list of writers.
    pub listed: bool,
    /// True if the server may have evicted keys, so that a missing mark doesn't prove anything.
    pub evicts: bool,
}

impl Witness {
    /// Returns whether both witnesses show the same data, and the same state of the writer.
    #[must_use]
    pub fn has_same_state(&self, other: &Self) -> bool {
        (&self.data, &self.writers, self.listed) == (&other.data, &other.writers, other.listed)
    }

    /// Returns whether the data of the writer has been lost as well, given the witness from when its fence
    /// was created. If in doubt, we assume that the data still exists.
    pub(crate) fn proves_loss_since(&self, before: &Self) -> bool {
        // All data has been lost, e.g. by a restart with no file, by FLUSHALL, or by a failover to an empty
        // replica. If the writer is listed, this server had the fence, and we don't know its earlier witness.
        let other_data = before.data.is_some() && self.data != before.data && !self.listed && !self.evicts;
        // The newest data has been lost, because the store was reset to a state from before this writer.
        let earlier = self.writers.is_some() && self.writers == before.writers && !self.listed;
        other_data || earlier
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

    fn witness(data: &str, writers: &str, listed: bool) -> Witness {
        let mark = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        Witness { data: mark(data), writers: mark(writers), listed, evicts: false }
    }

    #[test]
    fn data_loss_is_only_assumed_if_a_mark_proves_it() {
        let before = witness("d", "w", true);
        for (now, lost, what) in [
            (witness("", "", false), true, "FLUSHALL"),
            (witness("other", "other", false), true, "FLUSHALL, then a batch from another writer"),
            (witness("d", "w", false), true, "a failover to before this writer"),
            (witness("d", "w", true), false, "the fence was evicted or deleted"),
            (witness("other", "other", true), false, "the same, on another server"),
            (witness("d", "", false), false, "writers were forgotten"),
            (witness("d", "other", false), false, "the list of writers was evicted"),
            (Witness { evicts: true, ..witness("", "", false) }, false, "idle keys were evicted"),
        ] {
            assert_eq!(now.proves_loss_since(&before), lost, "{what}");
        }
        assert!(
            !witness("d", "", false).proves_loss_since(&witness("", "", true)),
            "marks could not be read"
        );
    }
}
