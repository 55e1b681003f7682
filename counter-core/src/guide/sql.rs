//! Counting in a SQL database: which database, grid and interval to choose, durability, and the schema.
//!
//! [`SqlStore`](crate::SqlStore) stores visits, unique counters and windows in SQLite, PostgreSQL or MariaDB.
//! Enable one of the features `sqlite`, `postgres` or `mariadb` to use it. The guarantees are the same as for
//! any other store, but the cost of a flush and the durability may be different.
//!
//! # Which store
//!
//! | setup | choose |
//! |---|---|
//! | a single machine, without a server to maintain | a SQLite file |
//! | your application already uses PostgreSQL or MariaDB, and there are up to some thousand active counters | that database, if necessary with an interval of 5 to 10 s |
//! | many instances, many visitors, or limits on every request | Redis: see the Redis guide |
//! | counts for years | a SQL database, because samples need disk space instead of memory |
//!
//! # Getting started
//!
//! The tables must be created explicitly. If you don't call `create_tables`, connecting will fail when the
//! tables are missing or have another version.
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
//! A database can only hold the counts of a single site, because namespaces are not supported here. For more
//! sites, use separate files, databases or schemas.
//!
//! # Durability
//!
//! A batch is applied in a transaction. The fence of the writer is a row that is checked and advanced in the
//! same transaction. This means that fence and counts are always consistent, even after a kill, in a backup
//! or on a replica.
//!
//! | event | effect on counts |
//! |---|---|
//! | the reply to a commit is lost, or the connection breaks | none: the batch is sent again, and the fence shows whether it was already applied |
//! | the process is killed | hits since the last flush are lost, as with any store; acknowledged hits are stored |
//! | the server is killed or loses power | none for acknowledged hits if the server syncs its log at each commit, which is the default |
//! | a MariaDB server is killed | none for acknowledged hits. A read may include hits that the server then loses, because InnoDB shows a commit just before it writes the log; they are sent again |
//! | a machine with a SQLite file loses power | none for acknowledged hits: each commit is synced |
//! | the database is restored from a backup, or a stale replica takes over | processes send the batches of the last minute again; a [source](crate::source) is read again from the position in the backup |
//! | the SQLite file is removed, moved or replaced while processes are using it | this is detected before the next call. The processes open the file at the configured path and send the missing batches of the last minute; older batches are `lost_by_server`. The hint `store_replaced` is shown for an hour |
//! | the SQLite file is missing | hits wait in memory and calls fail. After 5 s, the file is created if the store creates tables, but not while the directory is missing |
//! | a newer version upgrades the tables while a process is running | batches are rejected with an error that contains both versions; hits wait in memory |
//! | a deadlock, a slow lock, `SQLITE_BUSY` | none: the transaction is retried for 5 s, and then by the flusher |
//! | the disk is full | hits are folded in memory; the error and the log report that the database disk is full |
//! | a process is stopped during a transaction (`SIGSTOP`) | other processes wait for up to 10 s, then the server aborts the transaction; with SQLite, they wait until the process continues or is killed |
//! | rows are deleted manually | these counts are lost. Never delete the fence of a running process: the store will assume a loss of data, and count the batches of the last minute again |
//!
//! A statement may take up to 5 s, and so may a call, including all retries. A batch may take up to a minute.
//!
//! The clock of the database decides if a hit is too far in the future (25 hours). It is also used to decide
//! when samples have left retention, when to forget the fence of an idle process (after seven days), and when
//! to forget a source (at the end of its lifetime, if there is one). For these decisions, the store does not
//! rely on the clock itself, but on a trusted time, which is stored in `access_meta` and follows the clock at
//! up to four times the speed of the monotonic time of the processes. Thus if the clock jumps ahead by
//! months, the history will not be deleted: only data written after the trusted time can expire by the clock.
//! If the clock was right, because no process was running for months, the old history will be removed within
//! a third of that time. The hint `clock_jumped` is shown while the clock is more than 25 hours ahead. In
//! PostgreSQL and MariaDB, rows are only deleted if both the clock of the server and the clock of the
//! cleaning process agree that they have expired. The memory store uses a trusted time as well.
//!
//! # SQLite
//!
//! - The file uses WAL mode with `synchronous=FULL`, so that a commit syncs the log, once per flush. With
//!   `NORMAL`, a power failure could lose all flushes since the last checkpoint, but hits would not be
//!   duplicated.
//! - Writes use a single connection, and reads use separate connections. They do not block each other.
//! - If the file is on a local disk, it can be shared between processes. A transaction starts by acquiring
//!   the write lock, and will wait up to 4 s. SQLite can't lock files on network drives: use a server
//!   instead.
//! - To copy a file that is being used, use `VACUUM INTO` or the SQLite backup command, but not `cp`.
//! - To restore a backup, stop all processes and remove the files with the suffixes `-wal` and `-shm`, or use
//!   the SQLite restore command. You can also replace the file with `mv` while processes are running. Never
//!   use `cp` for this, because SQLite can't detect it.
//! - A flush of 1,000 active counters with the default grid needs 17 ms of CPU time and writes 0.4 MB. A
//!   sample needs 17 to 19 bytes. The overview page of 2,000 counters for thirty days needs 95 ms.
//! - The file does not shrink after cleaning, but free pages will be reused.
//!
//! # PostgreSQL and MariaDB
//!
//! - The counters of a batch are locked in the order of their names, so concurrent flushes of the same
//!   counters have to wait for each other. A flush of 1,000 counters needs 30 ms of CPU time in PostgreSQL,
//!   or 56 ms in MariaDB. If there are more than about ten processes with the same counters, you should use a
//!   longer interval.
//! - A flush updates the rows of the current buckets. PostgreSQL's autovacuum can handle this with the
//!   default settings; it should run often on `access_sample` and `access_counter`.
//! - A connection pooler for PostgreSQL must keep sessions (`pool_mode = session`), because prepared
//!   statements are used.
//! - Names are compared as bytes, even if the database has another collation.
//! - A PostgreSQL database must use the encoding UTF8. MariaDB must not use statement-based replication,
//!   because changes with `READ COMMITTED` can only be replicated as rows: set `binlog_format` to `MIXED` or
//!   `ROW`.
//! - To use another PostgreSQL schema, add `?options[search_path]=counts` to the address.
//!
//! # Which grid and interval
//!
//! For an active counter, a flush writes a row for each precision, and usually an additional row, because it
//! nearly always covers two seconds. The work depends on the number of active counters per interval, but not
//! on the number of hits.
//!
//! | setup | grid | interval |
//! |---|---|---|
//! | SQLite on a server disk, up to 1,000 active counters | default | 1 s |
//! | SQLite on an SD card or in a small virtual machine | from 60 s: [`Builder::precisions`](crate::Builder::precisions) | 10 to 60 s |
//! | PostgreSQL or MariaDB, shared with the application | from 60 s | 5 to 10 s |
//! | a database for years | 3600 and 86400 s, with the desired number of samples | 60 s |
//!
//! If a process is killed, the hits of the current interval will be lost, so a longer interval can lose more
//! hits. Without buckets of 1 and 5 seconds, only half of the rows have to be written, and the charts just
//! lose their live view.
//!
//! Visitors are read, merged and written by the process. A row needs up to 3 KB while it is sparse, and 12 KB
//! for more than about 2,000 visitors in a bucket. If you have many counters with thousands of visitors,
//! increase the interval first.
//!
//! # The schema
//!
//! The version is stored in `access_meta` and is checked by every transaction, because a program only works
//! with its version of the schema. Use [`create_tables`](crate::stores::SqlBuilder::create_tables) to create
//! the tables or to upgrade existing tables. If you have another tool for migrations, execute the following
//! SQL with it.
//!
//! The first version is 6. If the versions differ, the message says whether the tables or the program is
//! older. Update all programs before you upgrade the tables, because an older program then stops writing.
//! Programs before the first release used versions 1 to 5. Their tables can't be upgraded: dump them with
//! that program, and restore the dump into an empty database.
//!
//! `width` is a precision in seconds. If the buckets start at an offset, 2^32 times this offset is added.
//! `bucket` is the bucket start in Unix seconds. For example, this query returns the hits of a counter by
//! day:
//!
//! ```sql
//! SELECT bucket, hits FROM access_sample JOIN access_counter ON id = counter
//! WHERE name = '/articles/{id}' AND width = 86400 ORDER BY bucket;
//! ```
//!
//! The registers of visitors have the same format as in Redis. You can `SET` them in Redis, and `PFCOUNT`
//! returns the same count.
#![cfg_attr(feature = "sqlite", doc = "\n## SQLite\n\n```sql")]
#![cfg_attr(feature = "sqlite", doc = include_str!("../sql/sqlite/6.sql"))]
#![cfg_attr(feature = "sqlite", doc = "```")]
#![cfg_attr(feature = "postgres", doc = "\n## PostgreSQL\n\n```sql")]
#![cfg_attr(feature = "postgres", doc = include_str!("../sql/postgres/6.sql"))]
#![cfg_attr(feature = "postgres", doc = "```")]
#![cfg_attr(feature = "mariadb", doc = "\n## MariaDB\n\n```sql")]
#![cfg_attr(feature = "mariadb", doc = include_str!("../sql/mariadb/6.sql"))]
#![cfg_attr(feature = "mariadb", doc = "```")]
