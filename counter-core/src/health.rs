use std::time::Duration;

/// How the way to the store is doing.
#[derive(Clone, Debug, PartialEq, Eq)]
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
}
