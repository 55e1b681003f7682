use std::sync::{Mutex, MutexGuard};

use crate::log::unwind::tell;

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
        "There are more names of counters than this process may have, and hits under the rest count as (other).",
        "Let rules name fewer counters, or raise `Builder::max_counters`.",
    );

    /// The hint that a source has not counted anything for a minute, although the log has new records.
    pub const SOURCE_STANDS_STILL: Self = Self::new(
        "source_stands_still",
        "Nothing of a source was counted for a minute, although its log goes on.",
        "See which source it is, and whether its reader runs and the store takes its chunks.",
    );
    /// The hint that records were removed from a log before they could be counted.
    pub const RECORDS_LOST: Self = Self::new(
        "records_lost",
        "A log no longer had the records that were to be counted next, and these are missing.",
        "Keep logs for longer than their readers and the store may be away.",
    );

    /// The hint that these counters use a different grid than the store.
    pub const GRID_DIFFERS: Self = Self::new(
        "grid_differs",
        "These counters have other precisions, offsets or retention than the store keeps: they show no older counts of other buckets, and may remove what others keep.",
        "Use the grid of the store, which the log names, or replace it with `Counters::change_grid`.",
    );
    /// The hint that the spool directory contains files of a different store.
    pub const SPOOL_OF_ANOTHER_STORE: Self = Self::new(
        "spool_of_another_store",
        "The directory of the spool has files of processes that counted into another store or namespace, and their hits are not counted here.",
        "Give each store a directory of its own, and start a process of the other store with the files that the log names, or delete them.",
    );
    /// The hint that the archive contains copies of a different store.
    pub const ARCHIVE_OF_ANOTHER_STORE: Self = Self::new(
        "archive_of_another_store",
        "The archive belongs to another store or namespace: it is neither read nor written.",
        "Give each store an archive of its own.",
    );
    /// The hint that the file of a SQLite store has been removed, moved or replaced within the last hour.
    pub const STORE_REPLACED: Self = Self::new(
        "store_replaced",
        "The database file of the store was removed, moved or replaced while it was in use. Batches of the last minute were \
         sent to the new file; what it lacks beyond them is `lost_by_server` in the ledger.",
        "Stop all processes that use the file before you move or restore it, or restore it by SQLite's `.restore`.",
    );

    /// The hint that the clock used for deletion by a store is more than 25 hours ahead of trusted time.
    pub const CLOCK_JUMPED: Self = Self::new(
        "clock_jumped",
        "The clock of the store is more than 25 hours ahead of the time since it was last used: it jumped, or no process \
         ran for that long. History is deleted only as fast as time passes.",
        "Check the clock of the machine. If it is right, nothing has to be done.",
    );

    /// The hint that buckets past retention are not in the archive yet.
    pub const ARCHIVE_BEHIND: Self = Self::new(
        "archive_behind",
        "Buckets that left retention wait for their last copy into the archive, for twice their retention at most.",
        "See that a copier runs, in one process at least, and that both stores are there for it.",
    );
    /// The hint that parts of the near store can't be read, and are missing in the archive.
    pub const ARCHIVE_INCOMPLETE: Self = Self::new(
        "archive_incomplete",
        "Keys or entries of the near store cannot be read, and what they should hold is not in the archive.",
        "Repair or remove what the log names: a key that holds something else, or a member that is no counter.",
    );
    /// The hint that the near store has lost data that is in the archive.
    pub const ARCHIVE_DIFFERS: Self = Self::new(
        "archive_differs",
        "The near store has less of some buckets than the archive, which was copied from it.",
        "See what it lost, and repair it from the archive.",
    );

    /// The hint that the store has lost acknowledged batches within the last hour.
    pub const STORE_WENT_BACK: Self = Self::new(
        "store_went_back",
        "The store lost batches that it had acknowledged, by a failover, a restart without its data, or a restored backup. \
         Those of the last minute were sent again.",
        "Find out what happened to the store: what it lost from before that minute is missing (lost_by_server).",
    );
    /// The hint that a different process has sent a copy of this process's spool.
    pub const SPOOL_COPIED: Self = Self::new(
        "spool_copied",
        "Another process sent a copy of the spool of this one, so hits that waited are left out here (in_doubt).",
        "Do not start a service on a copy of a spool directory while the process that writes it may be alive.",
    );
    /// The hint that the store is a replica, which rejects writes.
    pub const STORE_IS_REPLICA: Self = Self::new(
        "store_is_replica",
        "The server of the store is a read-only replica, so it refuses every write, and hits wait in memory.",
        "Let the address lead to the master, or to Sentinel, which knows the master.",
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
            tell(|| tracing::warn!(hint = name, "{seen} {remedy}"));
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
        self.0.lock().expect("nothing panics under this lock")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hint_that_two_raised_holds_until_both_withdraw_it() {
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
