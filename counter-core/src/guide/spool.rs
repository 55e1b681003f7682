//! Spools: pending hits are also stored on disk, so that they survive the process.
//!
//! A process folds hits and sends them once a second. If it is killed, the hits of about a second will be
//! lost, or all pending hits if the store is unavailable. To prevent this, you can configure a directory for
//! a spool:
//!
//! ```no_run
//! # use counter_core::{Counters, MemoryStore};
//! # let store = MemoryStore::new();
//! let counters = Counters::builder(store).spool("/var/lib/my-service/spool").build()?;
//! # Ok::<(), counter_core::BuildError>(())
//! ```
//!
//! # Durability
//!
//! | failure | lost without a spool | lost with a spool |
//! |---|---|---|
//! | the process is killed, e.g. by `kill -9`, an abort after a panic, or lack of memory | hits of the last second | hits of the last 100 ms |
//! | the process is killed during an outage of the store | all pending hits | hits of the last 100 ms |
//! | the process shuts down, but the store does not reply | the hits reported by [`Unflushed`](crate::ErrorKind::Unflushed) | none |
//! | the process is killed, and the store lost recent writes in a failover | lost writes of the last minute | no hits that were written to the spool |
//! | the machine fails | the same as for the process | hits that the system had not yet written to disk, usually those of the last 30 s; the file is consistent |
//! | the disk fails | none | none, while the process is running |
//!
//! Hits are never duplicated in any of these cases. Requests are not delayed, since recording does not do any
//! I/O.
//!
//! The spool contains visits, i.e. counts, registers of visitors, and bins of distributions. It does not
//! include [sources](crate::source), because they can be read again from their log, or counters that call the
//! store directly.
//!
//! # How it works
//!
//! New hits are written to the file every 100 ms. When a batch is created from pending hits, it replaces
//! these hits in the file before it is sent. A row contains the sequence under which it was sent or will be
//! sent, so the fence in the store determines which rows have been counted. When a process ends, the next
//! process reads the last sequence of the old process from the store, sends the remaining rows in order and
//! with the same sequences, and removes the file. If this process is killed too, the next one will continue.
//!
//! The fence also contains the [incarnation](crate::visits::store::Incarnation), which identifies the process that
//! created the batch. If the directory is copied while its process is running, the store will receive
//! different hits for the same sequence. The second process detects this, skips hits that might already be
//! counted ([`in_doubt`](crate::visits::Dropped::in_doubt)), and the hint `spool_copied` is shown.
//!
//! In the ledger, hits from an old file are [`recovered`](crate::visits::Hits::recovered), and included in
//! `recorded`. If the store has lost the fence of the old process but might still have its counts (e.g. after
//! an eviction), then hits that might already be counted are [`in_doubt`](crate::visits::Dropped::in_doubt)
//! and will not be sent, and the hint `fence_lost` is shown.
//!
//! # The directory
//!
//! - The directory can be shared between processes. A process has its own file, `access-counter-….spool`,
//!   with a lock that is released by the system when the process ends. A process looks for files of ended
//!   processes at startup, and then every 10 s. Other files in the directory are ignored. All processes must
//!   use the same store and the same number of shards.
//! - A file records the kind of store, the namespace, the [ids](crate::visits::StoreId) of the stores that
//!   its process was connected to, and the time of the last contact. If a process uses another store, it will
//!   not touch the file, but report this in the log and with the hint `spool_of_another_store`. If the store
//!   was created after the last contact, the old store is assumed to have lost all its data, and the file is
//!   sent to the new store. This means that you need to use separate directories for stores of the same kind
//!   and namespace, e.g. for test and production. A file without an id, from a process that never reached its
//!   store, is sent to any store with the right kind and namespace.
//! - A copy of a file is ignored with a warning, because its hits will be counted by the process that wrote
//!   the original. You should move a directory instead of copying it, or only copy it after a clean shutdown
//!   of the processes, which does not leave any files. If the original is lost for good, use `sqlite3` to set
//!   `file` in the table `spool` of the copy to an empty string.
//! - The directory must be on a local disk that survives the process. In a container, use a volume instead of
//!   the container layer. Do not use a network file system.
//! - [`build`](crate::Builder::build) creates the directory, and fails if it can't create a file there.
//! - Like the store, files contain counter names and registers of visitors, but not addresses, user agents or
//!   ids.
//!
//! # Size
//!
//! The size of a file corresponds to the pending hits in the process. This is limited, because counts of
//! expired fine buckets are folded into coarser buckets: even after a very long outage, there are at most a
//! few hundred cells per counter, at 5 to 10 bytes. In addition, the file contains the batches of the last
//! minute. The limit is [`spool_limit`](crate::Builder::spool_limit), 1 GiB by default.
//!
//! # When the disk fails
//!
//! | failure | reaction | symptoms |
//! |---|---|---|
//! | the disk is full, or the limit is reached | hits are sent as usual, and will be written when there is free space | [`failing_for`](crate::visits::SpoolHealth::failing_for), [`unwritten`](crate::visits::SpoolHealth::unwritten) and `last_error` in [`Health::spool`](crate::Health::spool), the metric `access_counter_spool_failing_seconds`, a line on the dashboard, a warning in the log |
//! | the disk hangs | if a write takes more than 5 s, it fails, and batches are sent without it; no other write is started until the disk has finished this one; a shutdown may exceed its timeout by up to one such write | the same |
//! | the directory is removed, or its disk is unmounted | the same, until it is available again; then a new file is created | the same |
//! | an old file is damaged | it is renamed to `.damaged`, and its hits are not counted | an error in the log, with the number of hits if it can still be determined |
//! | its write-ahead log (`-wal`) is damaged, or the power failed before a part of the log was written | both files are copied to `.damaged-log` and `.damaged-log-wal`, and hits written before the damage are counted | an error in the log, with the maximum number of lost hits |
//! | a file has a newer version, or another number of shards | it is left for a process that can read it | a single warning in the log |
//! | a file belongs to another store or namespace | it is left for a process of that store | a single warning in the log, and the hint `spool_of_another_store` |
//! | an old file can't be read, or its disk hangs | other files are sent, and this file is tried again every 10 s; a step fails after 5 s, or later for a large file | `leftovers` in `Health::spool`, a single warning in the log |
//! | the disk fails while more than one batch is being created, and the process is killed after it sent some of them | the next process can't tell which of these hits were sent, so it sends none: they are lost, but not counted twice | they are part of `unwritten` before the first batch is sent; the next process logs a warning with the number of pending hits |
//!
//! If just a single row of a file is damaged, then no hits of this file are counted, because the disk might
//! have changed other rows as well. The file is renamed, so that you can inspect it.
//!
//! # When the machine fails
//!
//! If the process waited for the disk with every write, there would be 10 syncs per second. For this reason,
//! a file is only synced when it is rewritten or removed, and when another process takes it over. Other
//! writes reach the disk when the system flushes them, which takes about 30 s by default on Linux
//! (`vm.dirty_expire_centisecs`). If the power fails before that, these hits will be lost, but not
//! duplicated. The system may write a later part of the log before an earlier part. This looks like a damaged
//! log, and is reported as such.
//!
//! The stores of this crate can detect whether they have lost data or just a fence. If your own store can't
//! do this, i.e. if [`witness`](crate::visits::store::Write::witness) returns `None`, then the time since the last
//! write to the file is used to decide. This depends on the clock of the machine, which should not be set
//! back by days.
