//! Counting in a SQL database: which one, which grid and interval, what survives what, and the schema.
//!
//! [`SqlStore`](crate::SqlStore) keeps visits, unique counters and windows in SQLite, PostgreSQL or MariaDB, with the features
//! `sqlite`, `postgres` and `mariadb`. It keeps every promise of the other stores; what differs is what a flush costs, and what survives.
//!
//! # Which store
//!
//! | there is | choose |
//! |---|---|
//! | one machine, and no server to run | SQLite in a file |
//! | a PostgreSQL or MariaDB of the application, and up to some thousand active counters | that one, perhaps with an interval of 5 to 10 s |
//! | many instances, many visitors, limits on every request | Redis: see the guide to it |
//! | counts for years | a SQL database, whose samples take disk and not memory |
//!
//! # How to begin
//!
//! Tables are made by an explicit call. A program that does not call it fails to connect where they are missing, or are of
//! another version.
//!
//! ```
//! use counter_core::{Counters, SqlStore};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let address = "sqlite::memory:"; // or sqlite:counts.db, postgres://127.0.0.1/site, mariadb://127.0.0.1/site
//! let store = SqlStore::builder().create_tables().connect(address).await?;
//! let mut counters = Counters::builder(store).build()?;
//! let recorder = counters.recorder();
//! recorder.record(recorder.counter("/"), None);
//! counters.flush().await?;
//! assert_eq!(counters.stats().lifetimes(&["/".parse()?]).await?, [1]);
//! # Ok(())
//! # }
//! ```
//!
//! A database holds the counts of one site: there are no namespaces. Give each site a file, a database or a schema of its own.
//!
//! # What survives what
//!
//! A batch is one transaction. The fence of its writer is a row that is read and advanced in it, so fence and counts are
//! never apart: not after a kill, not in a backup, and not on a replica.
//!
//! | what happens | what it does to counts |
//! |---|---|
//! | the reply to a commit is lost, or the connection breaks | nothing: the batch is sent again, and the fence tells that it was applied |
//! | the process is killed | hits since its last flush are lost, as with every store; what was acknowledged is there |
//! | the server is killed, or loses power | what was acknowledged is there, if the server syncs its log at each commit, which is its default |
//! | the machine with the file of SQLite loses power | what was acknowledged is there: each commit is synced |
//! | the database is restored from a backup, or a replica that is behind takes over | each process sends the batches of the last minute again; a [source](crate::source) is read again from the position in the backup |
//! | the file of SQLite is removed, moved or replaced while processes use it | they detect it before the next call, connect to the file at the path, and send the batches of the last minute that it lacks; older ones are `lost_by_server`. Health has the hint `store_replaced` for an hour |
//! | the file of SQLite is gone | hits wait in memory and calls fail; after 5 s the file is created again if the store creates tables. While its directory is gone, they wait for it |
//! | a newer version upgrades the tables under a process that runs | its batches are refused with an error that names both versions, and its hits wait in memory |
//! | a deadlock, a lock that takes long, `SQLITE_BUSY` | nothing: the transaction is tried again for 5 s, and then by the flusher |
//! | the disk is full | hits wait in memory, folded; the error and the log say that the disk of the database is full |
//! | a process stops in the middle of a transaction (`SIGSTOP`) | others wait for 10 s at most, and then the server ends it; with SQLite, until it goes on or is killed |
//! | rows are removed by hand | counts that are gone are gone; do not remove the fence of a running process: the store takes it for lost data, and the batches of its last minute count twice |
//!
//! Every statement is bounded by 5 s, and so is every call with everything that is tried again; a batch may take a minute.
//!
//! The clock of the database decides what is too far ahead (25 hours). It also decides what has left retention and when
//! the fence of a process is forgotten (after seven days of silence) or a source (when its life is over, if it has one),
//! but only as far as the clock is trusted. The trusted time is stored in `access_meta` and advances with the clock, at
//! most four times as fast as the monotonic time of the processes. If the clock jumps ahead by months, history stays:
//! only data that were written after the trusted time expire by the clock. If the clock was right, because no process
//! ran for months, the history of the time before is removed within a third of that time. Health has the hint
//! `clock_jumped` while the clock is more than 25 hours ahead. The same holds for PostgreSQL and MariaDB, and rows are
//! deleted there only if the clocks of the server and of the process that cleans agree that they have expired. The
//! store in memory follows the same rule.
//!
//! # SQLite
//!
//! - The file is in WAL mode, with `synchronous=FULL`: a commit is one sync of the log, once for each flush. With `NORMAL`
//!   a loss of power would take the flushes since the last checkpoint along, though it would double none.
//! - One connection writes, the others read beside it, and none waits for another.
//! - Several processes may share the file on a local disk; each transaction begins by taking the place of the writer and
//!   waits for it up to 4 s. On a network drive SQLite cannot lock: use a server there.
//! - Copy a file that is in use by `VACUUM INTO` or the backup command of SQLite, not by `cp`.
//! - Restore a backup while all processes are stopped, after you removed the files with the suffixes `-wal` and `-shm`,
//!   or by the restore command of SQLite. Processes that run also accept a file that is moved over theirs by `mv`, but
//!   never copy one over it by `cp`: SQLite cannot detect that.
//! - A flush of 1,000 active counters at the default grid takes 17 ms of the process and writes 0.4 MB; a sample takes 17 to
//!   19 bytes, and the dashboard's table of 2,000 counters is read in 21 ms.
//! - The file does not shrink after cleaning; its free pages are used again.
//!
//! # PostgreSQL and MariaDB
//!
//! - Counters of a batch are locked in the order of their names, so flushes of several processes follow one another where
//!   they count the same. A flush of 1,000 counters takes 30 ms of PostgreSQL's processor and 56 of MariaDB's, so more than some
//!   ten processes with the same counters need a longer interval.
//! - Rows of the current buckets change at every flush. PostgreSQL's autovacuum keeps up with the defaults; let it run
//!   often on `access_sample` and `access_counter`.
//! - A pooler in front of PostgreSQL has to keep sessions (`pool_mode = session`), since statements are prepared.
//! - Names are compared byte by byte, whatever the collation of the database.
//! - A PostgreSQL database of another encoding than UTF8 is refused, and so is a MariaDB that replicates by statements:
//!   what `READ COMMITTED` changes can only be replicated by rows, which `binlog_format` says as `MIXED` or `ROW`.
//! - Another schema of PostgreSQL is chosen by `?options[search_path]=counts` in the address.
//!
//! # Which grid and interval
//!
//! A flush writes a row for each precision and active counter, and one more for the second second that it nearly always
//! covers. What does that work is the number of active counters in an interval, not the number of hits.
//!
//! | where | grid | interval |
//! |---|---|---|
//! | SQLite on a server's disk, up to 1,000 active counters | the default one | 1 s |
//! | SQLite on an SD card or a small virtual machine | from 60 s on: [`Builder::precisions`](crate::Builder::precisions) | 10 to 60 s |
//! | PostgreSQL or MariaDB beside the application's own data | from 60 s on | 5 to 10 s |
//! | a database for years | 3600 and 86400 s, with as many samples as there are to be | 60 s |
//!
//! Hits that wait for an interval are lost when the process is killed: a longer interval costs that. Without buckets of 1 and 5
//! seconds nothing is lost of a chart but its live view, and half of the rows are not written.
//!
//! Visitors are read, merged and written by the process. Their rows take up to 3 KB while they are sparse, and 12 KB beyond
//! some 2,000 visitors of a bucket; with thousands of visitors of each of many counters, a longer interval helps most.
//!
//! # The schema
//!
//! The version is a row of `access_meta`. A program works with the version that it knows and with no other, which each
//! transaction checks;
//! [`create_tables`](crate::stores::SqlBuilder::create_tables) makes the tables and brings older ones to its version. If you
//! migrate by other means, run this text yourself.
//!
//! `width` is a precision in seconds; where its buckets begin at an offset, 2^32 times that is added. `bucket` is the start
//! in Unix seconds. The hits of a counter by day:
//!
//! ```sql
//! SELECT bucket, hits FROM access_sample JOIN access_counter ON id = counter
//! WHERE name = '/articles/{id}' AND width = 86400 ORDER BY bucket;
//! ```
//!
//! Registers of visitors are stored as Redis stores them: `SET` them in a Redis, and `PFCOUNT` counts the same.
#![cfg_attr(feature = "sqlite", doc = "\n## SQLite\n\n```sql")]
#![cfg_attr(feature = "sqlite", doc = include_str!("../sql/sqlite/1.sql"))]
#![cfg_attr(feature = "sqlite", doc = "```")]
#![cfg_attr(feature = "postgres", doc = "\n## PostgreSQL\n\n```sql")]
#![cfg_attr(feature = "postgres", doc = include_str!("../sql/postgres/1.sql"))]
#![cfg_attr(feature = "postgres", doc = "```")]
#![cfg_attr(feature = "mariadb", doc = "\n## MariaDB\n\n```sql")]
#![cfg_attr(feature = "mariadb", doc = include_str!("../sql/mariadb/1.sql"))]
#![cfg_attr(feature = "mariadb", doc = "```")]
