use std::collections::BTreeMap;
use std::time::Duration;

use counter_core::source::Commit;
use counter_core::{Error, ErrorKind};
use futures_util::future::join_all;
use tokio::time::{Instant, sleep, timeout};

use crate::outage::{MAX_RETRY_DELAY, MIN_RETRY_DELAY};
use crate::partition::Partition;

/// The assigned partitions, by number.
#[derive(Debug, Default)]
pub(crate) struct Partitions(BTreeMap<i32, Partition>);

/// The result of [`Partitions::commit`].
#[derive(Debug, Default)]
pub(crate) struct Commits {
    /// Partitions with a different position in the store, together with our position.
    pub(crate) moved: Vec<(i32, u64)>,
    /// Error of an unacknowledged commit.
    pub(crate) failed: Option<Error>,
}

impl Partitions {
    pub(crate) fn insert(&mut self, number: i32, partition: Partition) {
        self.0.insert(number, partition);
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    /// Marks all partitions as fetched from their positions, and returns the positions.
    pub(crate) fn seek(&mut self, now: Instant) -> impl Iterator<Item = (i32, u64)> {
        for partition in self.0.values_mut() {
            partition.rewind.seek(partition.source.position(), now);
        }
        self.positions()
    }

    pub(crate) fn get_mut(&mut self, number: i32) -> Option<&mut Partition> {
        self.0.get_mut(&number)
    }

    /// Returns the positions to continue at.
    pub(crate) fn positions(&self) -> impl Iterator<Item = (i32, u64)> {
        self.0.iter().map(|(&number, partition)| (number, partition.source.position()))
    }

    /// Returns the non-zero positions of fully counted partitions.
    pub(crate) fn counted(&self) -> impl Iterator<Item = (i32, u64)> {
        let counted = self.0.iter().filter(|(_, partition)| !partition.is_dirty);
        let positions = counted.map(|(&number, partition)| (number, partition.source.position()));
        positions.filter(|(_, position)| *position > 0)
    }

    pub(crate) fn are_read(&self) -> bool {
        self.0.values().all(|partition| partition.is_at_end)
    }

    pub(crate) fn are_counted(&self) -> bool {
        self.0.values().all(|partition| !partition.is_dirty)
    }

    pub(crate) fn set_ends(&mut self, ends: BTreeMap<i32, u64>) {
        for (number, end) in ends {
            if let Some(partition) = self.0.get_mut(&number) {
                partition.source.set_end(end);
            }
        }
    }

    /// Commits the batches of all partitions concurrently. With `checks`, this also compares the positions of
    /// idle partitions with the store.
    pub(crate) async fn commit(&mut self, checks: bool) -> Commits {
        let selected = self.0.iter_mut().filter(|(_, partition)| partition.is_dirty || checks);
        let commits = selected.map(async |(&number, partition)| {
            let read = partition.source.position();
            let commit = if partition.is_dirty {
                partition.source.commit().await
            } else {
                partition.source.check().await
            };
            // Records can't be read during a commit.
            partition.is_dirty &= commit.is_err();
            (number, read, commit)
        });
        let mut result = Commits::default();
        for (number, read, commit) in join_all(commits).await {
            match commit {
                Ok(Commit::Done) => {}
                Ok(Commit::Moved) => result.moved.push((number, read)),
                Err(error) => result.failed = Some(error),
            }
        }
        result
    }

    /// Commits all read records, retrying until the timeout.
    pub(crate) async fn close(&mut self, limit: Duration) -> Result<(), Error> {
        let mut failed = None;
        let closing = async {
            for partition in self.0.values_mut() {
                let mut delay = MIN_RETRY_DELAY;
                // On a position mismatch, a different reader has taken over, so we are done.
                while let Err(error) = partition.source.close().await {
                    failed = Some(error);
                    sleep(delay).await;
                    delay = (delay * 2).min(MAX_RETRY_DELAY);
                }
                failed = None;
            }
        };
        if timeout(limit, closing).await.is_ok() {
            self.0.values_mut().for_each(|partition| partition.is_dirty = false);
            return Ok(());
        }
        let hits = self.0.values().map(|partition| partition.source.ledger().hits.pending).sum();
        Err(failed.unwrap_or_else(|| Error::new(ErrorKind::Unflushed { hits })))
    }
}
