use std::time::Duration;

use super::hint::Hint;

/// The state of the connection to the store, and of the data to be sent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Health {
    /// Hits that the store has not acknowledged.
    pub pending: u64,
    /// Unacknowledged counts and sketches in memory. Until they are merged, the counts of different threads
    /// in the same bucket are counted separately.
    pub pending_cells: usize,
    /// Approximate memory for recently acknowledged batches that may have to be sent again, in bytes. This is
    /// at most 16 MiB per shard.
    pub retained_bytes: usize,
    /// Connections made to servers. After the first connection to a server, this counts reconnects.
    pub connections: u64,
    /// Time since the store acknowledged a batch; `None` before the first batch.
    pub since_acknowledged: Option<Duration>,
    /// Time for which all attempts to flush have failed. This is `None` if the last attempt succeeded, or if
    /// the store acknowledged some of the batches, e.g. because the link is too slow for all of them. If there is
    /// nothing to send, the flusher reads from the store every 5 s to find out. The same applies to hits of
    /// exited processes in a [spool](crate::guide::spool).
    pub failing_for: Option<Duration>,
    /// Error of the latest attempt; `None` when it succeeded.
    pub last_error: Option<String>,
    /// Time for which hits have been pending without an attempt to send them; `None` if hits are being sent,
    /// or if there are none. This is set after five flush intervals, but at least a second, if the future of
    /// the flusher is not polled or has completed.
    pub stalled_for: Option<Duration>,
    /// Seconds by which the clock of this process is ahead of the store clock, as of the latest batch. This
    /// is negative if it is behind, and `None` if it is not known.
    pub clock_skew: Option<i64>,
    /// State of the [spool](crate::guide::spool) if it is enabled.
    pub spool: Option<SpoolHealth>,
    /// State of the archive if the store is part of an archive.
    pub archive: Option<ArchiveHealth>,
    /// Signs of a configuration that results in wrong numbers, but does not fail.
    pub hints: Vec<Hint>,
}

/// The state of a spool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SpoolHealth {
    /// Hits that might neither be on disk nor in the store: these are lost if the process is killed. If the
    /// spool is healthy, they are from the last 100 ms.
    pub unwritten: u64,
    /// Size of this process's file on disk, in bytes.
    pub bytes: u64,
    /// Files of exited processes with hits to be sent, as of the latest directory scan.
    pub leftovers: usize,
    /// Time since the last write; `None` before the first write.
    pub since_written: Option<Duration>,
    /// Time for which all writes have failed; `None` when the latest write succeeded.
    pub failing_for: Option<Duration>,
    /// Error of the latest failed write.
    pub last_error: Option<String>,
}

/// The state of an archive, as most recently observed by this process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ArchiveHealth {
    /// Buckets past retention that still need to be copied, for the precision with the most.
    pub waiting_buckets: u32,
    /// Keys and entries of the near store that could not be read, when this process copied buckets of that
    /// precision. These are missing in the archive.
    pub unreadable: u64,
    /// Values that are lower in the near store than in the far store, as of the latest audit by this process.
    /// This is 0 if the audit repaired one of the stores, and `None` before the first audit.
    pub differing: Option<u64>,
    /// True if the archive belongs to a different store. It is then neither read nor written.
    pub is_foreign: bool,
}

impl Health {
    /// Maximum clock skew of a healthy process, in seconds. If you use a time server, the clocks of your
    /// machines will differ by less.
    pub const CLOCK_SKEW_BOUND: u64 = 5;

    /// Returns whether batches are being sent and accepted by the store.
    #[must_use]
    pub const fn is_well(&self) -> bool {
        self.failing_for.is_none() && self.stalled_for.is_none()
    }

    /// Returns `true` if something needs your attention, even though batches may be accepted: there is a
    /// hint, the [clock skew](Self::excessive_clock_skew) is excessive, or the spool can't be written.
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
        !self.hints.is_empty() || self.excessive_clock_skew().is_some() || is_spool_failing
    }

    /// Returns the clock skew if it exceeds [the bound](Self::CLOCK_SKEW_BOUND), i.e. if this process counts
    /// in different buckets than other instances.
    #[must_use]
    pub fn excessive_clock_skew(&self) -> Option<i64> {
        self.clock_skew.filter(|skew| skew.unsigned_abs() > Self::CLOCK_SKEW_BOUND)
    }
}
