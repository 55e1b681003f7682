use std::sync::{Mutex, MutexGuard};

use crate::log::unwind::emit;

/// A sign of a configuration that results in wrong numbers, but does not fail.
///
/// [`Health::hints`](super::Health::hints) lists the current hints. A new hint is logged as a warning. You
/// can also raise your own hints via [`Recorder::raise_hint`](crate::Recorder::raise_hint), just like our
/// layer does for requests.
///
/// ```
/// use counter_core::visits::Hint;
/// use counter_core::{Counters, MemoryStore};
///
/// let counters = Counters::builder(MemoryStore::new()).build()?;
/// let hint = Hint::new("test_traffic", "Every request came from a load test.", "Count it elsewhere.");
/// counters.recorder().raise_hint(hint);
/// assert_eq!(counters.stats().health().hints, [hint]);
/// assert!(counters.stats().health().is_well()); // nothing fails
///
/// counters.recorder().withdraw_hint(hint);
/// assert_eq!(counters.stats().health().hints, []);
/// # Ok::<(), counter_core::BuildError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Hint {
    /// Name like `no_matched_path`, to be used for alerts and to look it up in the documentation.
    pub name: &'static str,
    /// Description of the problem and the consequences, in full sentences.
    pub seen: &'static str,
    /// Instructions to fix the problem, in full sentences.
    pub remedy: &'static str,
}

impl Hint {
    /// The hint that a counter could not get a slot.
    pub const COUNTERS_FULL: Self = Self::new(
        "counters_full",
        "There are more counter names than this process allows, so hits on the remaining names count as (other).",
        "Use rules with fewer counter names, or increase `Builder::max_counters`.",
    );

    /// The hint that a source has not counted anything for a minute, although the log has new records.
    pub const SOURCE_STANDS_STILL: Self = Self::new(
        "source_stands_still",
        "A source has not counted anything for a minute, although its log has new records.",
        "Find out which source it is, and check that its reader is running and that the store accepts its chunks.",
    );
    /// The hint that records were removed from a log before they could be counted.
    pub const RECORDS_LOST: Self = Self::new(
        "records_lost",
        "Records were removed from a log before they could be counted, so they are missing.",
        "Retain logs for longer than any outage of their readers and the store.",
    );

    /// The hint that these counters use a different grid than the store.
    pub const GRID_DIFFERS: Self = Self::new(
        "grid_differs",
        "These counters use different precisions, offsets or retention than the store: they do not show older counts in other buckets, and may remove data that other instances need.",
        "Use the grid of the store, as shown in the log, or replace it via `Counters::change_grid`.",
    );
    /// The hint that the spool directory contains files of a different store.
    pub const SPOOL_OF_ANOTHER_STORE: Self = Self::new(
        "spool_of_another_store",
        "The spool directory contains files of processes that use a different store or namespace, so their hits are not counted here.",
        "Use a separate directory per store. Start a process of the other store with the files listed in the log, or delete them.",
    );
    /// The hint that the archive contains copies of a different store.
    pub const ARCHIVE_OF_ANOTHER_STORE: Self = Self::new(
        "archive_of_another_store",
        "The archive belongs to a different store or namespace, so it is neither read nor written.",
        "Use a separate archive per store.",
    );
    /// The hint that the file of a SQLite store has been removed, moved or replaced within the last hour.
    pub const STORE_REPLACED: Self = Self::new(
        "store_replaced",
        "The database file of the store was removed, moved or replaced while it was in use. Batches of the last minute were \
         sent to the new file. Older hits that it does not contain are `lost_by_server` in the ledger.",
        "Stop all processes that use the file before you move or restore it, or restore it with SQLite's `.restore`.",
    );

    /// The hint that a site of a [fleet](crate::fleet) can't be read.
    pub const SITE_UNREADABLE: Self = Self::new(
        "site_unreadable",
        "A site cannot be read, so counts are too low, and some values are unknown.",
        "Find the site and the reason in the log. Its counts will be included as soon as it can be read.",
    );

    /// The hint that the clock used for deletion by a store is more than 25 hours ahead of trusted time.
    pub const CLOCK_JUMPED: Self = Self::new(
        "clock_jumped",
        "The clock of the store is more than 25 hours ahead of the time it was last used: it jumped, or no process \
         was running for that long. History is only deleted as fast as time passes.",
        "Check the clock of the machine. If it is correct, no action is needed.",
    );

    /// The hint that buckets past retention are not in the archive yet.
    pub const ARCHIVE_BEHIND: Self = Self::new(
        "archive_behind",
        "Buckets past retention are waiting for the final copy to the archive, for at most twice the retention.",
        "Make sure that at least one process runs a copier, and that it can reach both stores.",
    );
    /// The hint that the archive can't be read.
    pub const ARCHIVE_UNREADABLE: Self = Self::new(
        "archive_unreadable",
        "The archive cannot be read, so buckets that have left the retention of the store are unknown.",
        "Find the reason in the log. The archive will be read and written again as soon as it replies.",
    );
    /// The hint that copying into the archive fails.
    pub const ARCHIVE_NOT_COPIED: Self = Self::new(
        "archive_not_copied",
        "Closed buckets cannot be copied into the archive. They stay in the store, for at most twice the retention.",
        "Find the reason in the log, e.g. a missing permission. The next pass that succeeds will copy them.",
    );
    /// The hint that parts of the near store can't be read, and are missing in the archive.
    pub const ARCHIVE_INCOMPLETE: Self = Self::new(
        "archive_incomplete",
        "Keys or entries of the near store cannot be read, so their data is missing in the archive.",
        "Repair or remove the entries listed in the log: keys with foreign data, or members that are not counters.",
    );
    /// The hint that the near store has lost data that is in the archive.
    pub const ARCHIVE_DIFFERS: Self = Self::new(
        "archive_differs",
        "The near store has lower counts in some buckets than the archive, although the archive was copied from it.",
        "Find out which data was lost, and repair it from the archive.",
    );

    /// The hint that the store has lost acknowledged batches within the last hour.
    pub const STORE_WENT_BACK: Self = Self::new(
        "store_went_back",
        "The store lost acknowledged batches, due to a failover, a restart without data, or a restored backup. \
         Batches of the last minute were sent again.",
        "Find out why the store lost data: older hits are missing (lost_by_server).",
    );
    /// The hint that the store has lost the fence of a process, but no counts.
    pub const FENCE_LOST: Self = Self::new(
        "fence_lost",
        "The store lost the record of which hits it has counted, but no counts, so hits that may already be counted are \
         dropped (in_doubt).",
        "Set `maxmemory-policy noeviction` in Redis, and do not delete keys or rows of fences.",
    );
    /// The hint that a different process has sent a copy of a spool.
    pub const SPOOL_COPIED: Self = Self::new(
        "spool_copied",
        "Another process sent a copy of a spool file, so hits that may already be counted are dropped here (in_doubt).",
        "Do not start a service with a copy of a spool directory while the original process may be running.",
    );
    /// The hint that the store is a replica, which rejects writes.
    pub const STORE_IS_REPLICA: Self = Self::new(
        "store_is_replica",
        "The store server is a read-only replica, so it rejects all writes, and hits remain in memory.",
        "Use the address of the master, or of Sentinel.",
    );

    /// The hint that the server of the store is older than Redis 6.2.
    pub const STORE_OUTDATED: Self = Self::new(
        "store_outdated",
        "The store server is older than Redis 6.2 and does not have all commands that batches need, so hits remain in memory.",
        "Use Redis 6.2 or later, or Valkey.",
    );
    /// The hint that the server of the store does not use the HyperLogLog encoding of Redis.
    pub const VISITORS_UNREADABLE: Self = Self::new(
        "visitors_unreadable",
        "The store server does not use the HyperLogLog encoding of Redis, so visitors cannot be read. Hits are not affected.",
        "Use Redis or Valkey as the store, or do not count visitors.",
    );
    /// The hint that the server of the store refuses commands that the cleaner or reads need.
    pub const COMMANDS_REFUSED: Self = Self::new(
        "commands_refused",
        "The store server refuses commands to remove old data, to read visitors or to count logs (EXISTS, HDEL, HSET or ZREM).",
        "Permit the commands listed in the log.",
    );
    /// The hint that the store refuses the visitor salts.
    pub const SALT_NOT_SHARED: Self = Self::new(
        "salt_not_shared",
        "The store refuses the visitor salt, so a person who reaches several processes counts as several visitors.",
        "Find the reason in the log, e.g. a missing permission for the key or table of the salts.",
    );

    /// Creates a hint.
    #[must_use]
    pub const fn new(name: &'static str, seen: &'static str, remedy: &'static str) -> Self {
        Self { name, seen, remedy }
    }
}

/// The current hints in the order in which they were raised, with a count: the same hint can be raised by
/// more than one layer.
#[derive(Debug, Default)]
pub(crate) struct Hints(Mutex<Vec<(Hint, u64)>>);

impl Hints {
    pub(crate) fn raise(&self, hint: Hint) {
        let is_new = {
            let mut raised = self.lock();
            let before = raised.iter_mut().find(|(other, _)| *other == hint);
            let is_new = before.is_none();
            match before {
                Some((_, times)) => *times += 1,
                None => raised.push((hint, 1)),
            }
            is_new
        };
        if is_new {
            let Hint { name, seen, remedy } = hint;
            emit(|| tracing::warn!(hint = name, "{seen} {remedy}"));
        }
    }

    pub(crate) fn withdraw(&self, hint: Hint) {
        let mut raised = self.lock();
        if let Some((_, times)) = raised.iter_mut().find(|(other, _)| *other == hint) {
            *times -= 1;
        }
        raised.retain(|(_, times)| *times > 0);
    }

    pub(crate) fn list(&self) -> Vec<Hint> {
        self.lock().iter().map(|(hint, _)| *hint).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<(Hint, u64)>> {
        self.0.lock().expect("the lock is never poisoned")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hint_raised_twice_holds_until_it_is_withdrawn_twice() {
        let (hints, other) = (Hints::default(), Hint::new("other", "", ""));
        for hint in [Hint::COUNTERS_FULL, other, Hint::COUNTERS_FULL] {
            hints.raise(hint);
        }
        assert_eq!(hints.list(), [Hint::COUNTERS_FULL, other]);
        hints.withdraw(Hint::COUNTERS_FULL);
        assert_eq!(hints.list(), [Hint::COUNTERS_FULL, other]);
        hints.withdraw(Hint::COUNTERS_FULL);
        hints.withdraw(Hint::COUNTERS_FULL);
        assert_eq!(hints.list(), [other]);
    }
}
