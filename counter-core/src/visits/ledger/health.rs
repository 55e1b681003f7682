use std::time::Duration;

use super::hint::Hint;

/// The state of the connection to the store, and what is waiting for it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Health {
    /// Hits that the store has not acknowledged.
    pub pending: u64,
    /// Counts and sketches in memory that the store has not acknowledged. What threads have counted in the same bucket may be
    /// among them several times until it is merged.
    pub pending_cells: usize,
    /// Memory taken by batches that were acknowledged a short while ago and are kept in case they have to be
    /// sent again: approximate, in bytes, 16 MiB for each shard at most.
    pub retained_bytes: usize,
    /// Connections made to servers: each one after the first to a server replaces one that broke.
    pub connections: u64,
    /// Time since the store acknowledged a batch; `None` before the first.
    pub since_acknowledged: Option<Duration>,
    /// Time for which every attempt to flush has failed; `None` when the last one succeeded, or when the store
    /// acknowledged some of its batches, as over a link that is too slow for all of them.
    pub failing_for: Option<Duration>,
    /// Text of the error that the last attempt failed with; `None` when it succeeded.
    pub last_error: Option<String>,
    /// Time for which hits have been waiting and nothing has begun to send them; `None` while they are sent,
    /// or nothing waits. It is set after five intervals of the flusher, at least a second: the flusher's
    /// future is not polled, or has ended.
    pub stalled_for: Option<Duration>,
    /// Seconds by which the clock of this process was ahead of the store's at the last batch; negative where
    /// it was behind, `None` where that is not known.
    pub clock_skew: Option<i64>,
    /// State of the [spool](crate::guide::spool); `None` without one.
    pub spool: Option<SpoolHealth>,
    /// State of the archive that the store is a part of; `None` without one.
    pub archive: Option<ArchiveHealth>,
    /// Signs that something is set up so that numbers are wrong, although nothing fails.
    pub hints: Vec<Hint>,
}

/// The state of a spool, and what it does not have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SpoolHealth {
    /// Hits that neither the disk nor the store is known to have: a process that is killed loses them. While
    /// the spool is well, they are those of the last 100 ms.
    pub unwritten: u64,
    /// Size of this process's file on the disk, in bytes.
    pub bytes: u64,
    /// Files of ended processes whose hits are still to be sent, as of the last look at the directory.
    pub leftovers: usize,
    /// Time since something was written; `None` before the first time.
    pub since_written: Option<Duration>,
    /// Time for which every attempt to write has failed; `None` when the last one succeeded.
    pub failing_for: Option<Duration>,
    /// Text of the error that the last attempt to write failed with.
    pub last_error: Option<String>,
}

/// The state of an archive, as this process saw it last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ArchiveHealth {
    /// Buckets of a precision that left retention and wait for their last copy: the most of any precision.
    pub waiting_buckets: u32,
    /// Keys and entries of the near store that could not be read when this process last copied buckets of their precision:
    /// they are not in the archive.
    pub unreadable: u64,
    /// Values that the near store has less of than the far one, as of this process's last audit; 0 if that repaired one of
    /// them, and `None` before the first.
    pub differing: Option<u64>,
    /// True if the archive belongs to another store, and is neither read nor written.
    pub is_foreign: bool,
}

impl Health {
    /// The clock skew in seconds that is still well; machines that are set by a time server differ by less.
    pub const CLOCK_SKEW_BOUND: u64 = 5;

    /// Returns whether batches are being sent, and the store accepts them.
    #[must_use]
    pub const fn is_well(&self) -> bool {
        self.failing_for.is_none() && self.stalled_for.is_none()
    }

    /// Returns whether something needs attention, although batches may be accepted: a hint holds, the clock is
    /// [off](Self::clock_off), or the spool cannot be written.
    ///
    /// ```
    /// use counter_core::Health;
    ///
    /// let mut health = Health::default();
    /// assert!(!health.is_degraded());
    /// health.clock_skew = Some(30 * 3600);
    /// assert!(health.is_well() && health.is_degraded());
    /// ```
    #[must_use]
    pub fn is_degraded(&self) -> bool {
        let is_spool_failing = self.spool.as_ref().is_some_and(|spool| spool.failing_for.is_some());
        !self.hints.is_empty() || self.clock_off().is_some() || is_spool_failing
    }

    /// Returns the clock skew if it exceeds [the bound](Self::CLOCK_SKEW_BOUND): this process then counts in
    /// other buckets than other instances do.
    #[must_use]
    pub fn clock_off(&self) -> Option<i64> {
        self.clock_skew.filter(|skew| skew.unsigned_abs() > Self::CLOCK_SKEW_BOUND)
    }
}
