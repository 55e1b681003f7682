use std::time::Duration;

/// How the way to the store is doing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Health {
    /// Hits that the store has not acknowledged.
    pub pending: u64,
    /// Counts and sketches in memory that the store has not acknowledged.
    pub pending_cells: usize,
    /// Memory taken by batches that were acknowledged a short while ago, in case they have to be sent
    /// again: about so many bytes, 16 MiB for each shard at most.
    pub retained_bytes: usize,
    /// How many connections to servers were made: each after the first to a server is one that broke.
    pub connections: u64,
    /// Time since the store acknowledged a batch; `None` before the first.
    pub since_acknowledged: Option<Duration>,
    /// Since when every attempt to flush has failed; `None` when the last one did not.
    pub failing_for: Option<Duration>,
    /// What the last attempt failed with, in words.
    pub last_error: Option<String>,
    /// For how long nobody has begun to send what waits; `None` while somebody does, or nothing waits. After
    /// five intervals of the flusher, a second at least: its future is not polled, or has ended.
    pub stalled_for: Option<Duration>,
    /// Seconds by which the clock of this process was ahead of the store's at the last batch; negative
    /// where it was behind, `None` where that is not known.
    pub clock_skew: Option<i64>,
}

impl Health {
    /// The clocks of machines that are set by a time server differ by less than so many seconds.
    pub const CLOCK_SKEW_BOUND: u64 = 5;

    /// Returns whether batches are sent, and taken by the store.
    #[must_use]
    pub const fn is_well(&self) -> bool {
        self.failing_for.is_none() && self.stalled_for.is_none()
    }

    /// The skew of the clock where it is beyond [its bound](Self::CLOCK_SKEW_BOUND): buckets of this process
    /// are others than those of other instances.
    #[must_use]
    pub fn clock_off(&self) -> Option<i64> {
        self.clock_skew.filter(|skew| skew.unsigned_abs() > Self::CLOCK_SKEW_BOUND)
    }
}
