//! A spool on the disk: what a process has counted survives it.
//!
//! Hits are folded in the process and sent once a second, so a process that is killed takes those of its last second
//! with it, and with the store away all that wait. With a directory for a spool, they are in a file as well:
//!
//! ```no_run
//! # use counter_core::{Counters, MemoryStore};
//! # let store = MemoryStore::new();
//! let counters = Counters::builder(store).spool("/var/lib/my-service/spool").build()?;
//! # Ok::<(), counter_core::BuildError>(())
//! ```
//!
//! # What survives what
//!
//! | what ends | without a spool | with one |
//! |---|---|---|
//! | the process, by `kill -9`, a panic that aborts, or for lack of memory | the hits of the last second are lost | those of the last 100 ms |
//! | the process, during an outage of the store | everything that waits is lost | the hits of the last 100 ms |
//! | the process, at the end of a shutdown that the store did not answer | what [`Unflushed`](crate::ErrorKind::Unflushed) says is lost | nothing |
//! | the process, and the store lost its newest writes in a failover | what it lost of the last minute | nothing that was written |
//! | the machine | as the process | the hits of the last seconds, which the system had not written to the disk; the file is sound |
//! | the disk | nothing | nothing, while the process lives |
//!
//! Nothing is counted twice in any of them, and requests are never held up: recording does no I/O, as ever.
//!
//! Visits are in the spool: counts, the registers of their visitors, and the bins of their distributions. [Sources](crate::source) are not, since their log
//! is their spool, nor are the counters that ask the store on every call.
//!
//! # How it works
//!
//! Every 100 ms, what was added is written, and before a batch is sent, it takes the place of what waited. Each row has
//! the sequence under which it is sent, or was. So the fence in the store decides what counts: the next process asks
//! the store for the last sequence of the one that ended, sends what comes after it, in order and under the same
//! numbers, and removes the file. If it is killed as well, the next one goes on.
//!
//! The fence also has an [incarnation](crate::visits::Incarnation): who cut the batch. If a copy of the directory is sent
//! while its process lives, the store has other hits under the same sequence. The second one notices this, leaves out what may
//! be counted ([`in_doubt`](crate::visits::Dropped::in_doubt)), and raises the hint `spool_copied`.
//!
//! What it takes over is [`recovered`](crate::visits::Hits::recovered) in the ledger, which is a part of `recorded`. If the
//! store has lost the fence of the ended process, but may have its counts, which eviction can cause, what cannot be
//! decided is [`in_doubt`](crate::visits::Dropped::in_doubt) and not sent.
//!
//! # The directory
//!
//! - Several processes may share it; each has a file of its own, `access-counter-….spool`, and a lock that the system
//!   ends with the process. What another one left is found at the start, and every 10 s. Anything else in the directory
//!   is left alone. All of the processes need the same store, and the same number of shards.
//! - A file names the kind of its store, the namespace, and the [ids](crate::visits::StoreId) of the stores that answered
//!   its process, with the time of the last contact. A process over another store leaves the file alone, and reports that
//!   in its log and by the hint `spool_of_another_store`. A store that was created after the last contact is taken for the
//!   one that lost all of its data, and is sent the file: so two stores of one kind and namespace, such as those of a test
//!   and of production, need two directories. A file without an id, of a process whose store never answered, is sent to
//!   any store of its kind and namespace.
//! - A copy of a file is left alone, with a warning: the process that wrote the original counts its hits. Move a directory
//!   instead of copying it, or copy it only after its processes have stopped in order, which leaves no files. If the original
//!   is gone for good, set `file` in the table `spool` of the copy to an empty text with `sqlite3`.
//! - It has to be on a local disk that survives the process: a volume in a container, not the container's own layer,
//!   and no network file system.
//! - [`build`](crate::Builder::build) makes it, and fails when no file can be made in it.
//! - Files have the names of counters and registers of visitors, as the store has: no addresses, user agents or ids.
//!
//! # How large it becomes
//!
//! A file has about what waits in the process. That is bounded, since counts whose fine buckets nothing keeps any more
//! are folded into coarser ones: after an outage of any length, a few hundred cells for each counter, of some 5 to
//! 10 bytes. There are also the batches of the last minute. The limit is
//! [`spool_limit`](crate::Builder::spool_limit), 1 GiB by default.
//!
//! # When the disk fails
//!
//! | what happens | what is done | what is seen |
//! |---|---|---|
//! | the disk is full, or the limit is reached | hits are sent as ever, and written once there is room | [`failing_for`](crate::visits::SpoolHealth::failing_for), [`unwritten`](crate::visits::SpoolHealth::unwritten) and `last_error` in [`Health::spool`](crate::Health::spool), the metric `access_counter_spool_failing_seconds`, a line on the dashboard, a warning in the log |
//! | the disk hangs | a write that takes longer than 5 s counts as failed, and sending goes on without it; no other is begun before the disk has answered that one, and a shutdown exceeds its timeout by one such write at most | the same |
//! | the directory is removed, or its disk is unmounted | the same, until it is there again; a new file is made in it | the same |
//! | a file that was left is damaged | it is renamed to `.damaged`, and nothing of it counts | an error in the log, with its hits if it can still tell |
//! | its write-ahead log (`-wal`) is damaged | both files are copied to `.damaged-log` and `.damaged-log-wal`, and what was written before the damage is counted | an error in the log, with the number of hits that are lost at most |
//! | a file is of a newer version, or for another number of shards | it is left for a process that can read it | a warning in the log, once |
//! | a file is for another store or namespace | it is left for a process of that store | a warning in the log, once, and the hint `spool_of_another_store` |
//! | a file that was left cannot be read, or its disk hangs | the others are sent, and it is tried again every 10 s; a step that takes 5 s counts as failed, and longer for a large file | `leftovers` in `Health::spool`, a warning in the log, once |
//! | the disk fails just when more than one batch is cut, and the process is killed after the store has some of them | the next process cannot tell the rest of those hits from them: it sends none of them, so they are lost and not doubled | they are among the `unwritten` from before the first is sent, and the next process says how many waited, in a warning in the log |
//!
//! A file with a single row that is not what was written counts nothing: what else the disk has changed, nobody knows. So
//! it is renamed as a whole, and kept for a person to look at.
//!
//! # When the machine fails
//!
//! A write every 100 ms that waited for the disk would cost it 10 syncs a second, so only a file that is rewritten as a whole or
//! removed is synced. All else follows within seconds, as the system
//! writes it; if the power fails before, those hits are lost, and none is doubled.
//!
//! Stores of this crate show whether they have lost data or only a fence. For a store of one's own that cannot
//! ([`witness`](crate::visits::Write::witness) returns `None`), the time since the file was last written decides, by the clock of
//! the machine: it should not be set back by days.
