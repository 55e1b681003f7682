//! Counting for entities, such as the likes of a post or the followers of a user.
//!
//! # When to use entity counters
//!
//! | you want to know | choose |
//! |---|---|
//! | how often pages were visited, per minute or day | [`Counters`](crate::Counters): counts in time buckets, for a limited number of names |
//! | how many likes a post has, for millions of posts | [`Entities`](crate::entity::Entities): a number per field, for any number of entities |
//!
//! The count of an entity does not have time buckets: it is just the current value, which may go up or down,
//! and is kept for as long as the row exists. Since the database is authoritative, counts can be joined and
//! backed up like your other data, while most reads are served from a cache (in Redis or in the process). If
//! your database is fast enough to handle all reads, `SELECT COUNT(*)` will be simpler. If you can accept
//! that counts are lost with Redis, `HINCRBY` will be simpler.
//!
//! The features `sqlite`, `mariadb` and `postgres` enable [`sqlx`](https://docs.rs/sqlx) with the
//! corresponding driver. To use your own database via [`EntityDatabase`](crate::entity::EntityDatabase), only
//! enable the feature `entity`. Both `sqlx` 0.8 and 0.9 are supported: see [Versions of `sqlx` and of
//! SQLite](#versions-of-sqlx-and-of-sqlite).
//!
//! # Getting started
//!
//! ```
//! # #[cfg(feature = "sqlite")]
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use counter_core::entity::{Entities, EntityDatabase, EntityId};
//! use counter_core::unstable::SqliteDatabase;
//! use counter_core::{MemoryStore, entity};
//!
//! entity! {
//!     /// Counts of a user.
//!     pub enum User: "user" {
//!         Followers = "followers",
//!         Posts = "posts",
//!     }
//! }
//!
//! // In production, use `SqliteDatabase::new` (or `MariaDatabase`, `PostgresDatabase`) with a connection
//! // pool, and a `RedisStore` as the cache.
//! let database = SqliteDatabase::in_memory().await?;
//! database.create_tables().await?; // creates missing tables
//! let users = Entities::<User, _>::new(database, MemoryStore::new());
//!
//! users.increment(7, User::Followers, 1).await?;
//! users.increment("anna".parse::<EntityId>()?, User::Posts, 1).await?;
//! let page = users.counts(&[7.into(), 8.into()]).await?;
//! assert_eq!((page[0].of(User::Followers), page[1].of(User::Followers)), (1, 0));
//! # Ok(())
//! # }
//! # #[cfg(not(feature = "sqlite"))]
//! # fn main() {}
//! ```
//!
//! The tables `access_entity` and `access_entity_fence` are created with `CREATE TABLE IF NOT EXISTS`. The
//! migrations table of `sqlx` is not used, because the migrations of your application would fail if it
//! contained foreign entries.
//!
//! In Redis, the user needs `+hget +hset +exists +pexpire` in addition to the permissions in the [Redis
//! guide](crate::guide::redis).
//!
//! Views are too frequent to execute a statement for every view. Instead, you can use
//! [`Entities::write_behind`](crate::entity::Entities::write_behind) to add them up in the process. Your
//! application runs a [flusher](crate::entity::EntityFlusher), which writes a single row per second for an
//! entity. Views can be added by the handler of the page, or by the access counter when it counts a hit, via
//! `AccessCounterLayer::on_count` from `counter-layer`:
//!
//! ```
//! # use counter_core::entity::WriteBehind;
//! # use counter_core::entity;
//! # entity! { enum Post: "post" { Views = "views" } }
//! fn on_view(views: &WriteBehind<Post>, post: u64) {
//!     // Rejected additions are `rejected` in the ledger.
//!     let _ = views.add(post, Post::Views, 1);
//! }
//! ```
//!
//! # Counting rows
//!
//! A like is a row in a table of your application, and the number of likes is a count. If these were written
//! separately, they would become inconsistent when the process is killed in between, or when the client
//! disconnects and the future of the handler is dropped at an await point. To avoid this, write both in the
//! same transaction, and update the cache after the commit:
//!
//! ```
//! # #[cfg(feature = "sqlite")]
//! # mod example {
//! # use counter_core::entity::Entities;
//! # use counter_core::unstable::SqliteDatabase;
//! # use counter_core::unstable::sqlx;
//! # use counter_core::{MemoryStore, entity};
//! # entity! { pub enum Post: "post" { Likes = "likes" } }
//! # type Error = Box<dyn std::error::Error>;
//! async fn like(
//!     posts: &Entities<Post, SqliteDatabase>,
//!     post: u64,
//!     member: i64,
//! ) -> Result<(), Error> {
//!     let mut change = posts.database().pool().begin().await?;
//!     let insert = "INSERT INTO likes (post, member) VALUES (?, ?) ON CONFLICT DO NOTHING";
//!     let insert = sqlx::query(insert).bind(post.to_string()).bind(member);
//!     if insert.execute(&mut *change).await?.rows_affected() == 1 {
//!         let count = posts.increment_in(&mut change, post, Post::Likes, 1).await?;
//!         change.commit().await?;
//!         count.committed().await;
//!     }
//!     Ok(())
//! }
//! # }
//! ```
//!
//! This future can be dropped at any point: either the row and the count are both written, or neither of
//! them. If the cache could not be updated, the cached copy will be removed before this process reads it
//! again. It will also be removed ten seconds later, because the database might still be executing the
//! commit. With `sqlx` 0.8, you should use `begin` instead of `begin_with`. If the latter is dropped, it may
//! return a connection with an open transaction to the pool.
//!
//! # Versions of `sqlx` and of SQLite
//!
//! Cargo chooses the newest `sqlx` that your compiler supports: 0.9 since Rust 1.94, otherwise 0.8. The types
//! in [`unstable::sqlx`](crate::unstable::sqlx) are always from this version. If your application already depends
//! on `sqlx` 0.8, you might get two versions with incompatible pools. To use a single version:
//!
//! ```sh
//! cargo update -p sqlx@0.9.0 --precise 0.8.6
//! ```
//!
//! Only a single version of the SQLite library can be linked into a program. With `sqlx` 0.9, this can be
//! `libsqlite3-sys` 0.30 to 0.37, which is compatible with `rusqlite` 0.32 to 0.39 and `diesel` 2.3. With
//! `sqlx` 0.8, it must be 0.30, i.e. `rusqlite` 0.32. If cargo reports that more than one package links to
//! `sqlite3`, you can either change the other crate to a compatible version, or use the feature `entity`
//! instead of `sqlite` and implement [`EntityDatabase`](crate::entity::EntityDatabase) on top of the other
//! crate.
//!
//! # Cache consistency
//!
//! An increment first writes to the database, with a statement that increases the version of the row and
//! returns the row. Then it updates the cache. If a reader does not find a copy in the cache, it acquires a
//! lease, reads from the database, and stores the result in the cache. These steps can be interleaved in any
//! order:
//!
//! | order | potential error | why it does not happen |
//! |---|---|---|
//! | leased, **written**, read, stored, **cache updated** | the copy already includes the increment, so the update would count it twice | an update contains the row instead of the difference, and only larger versions are accepted |
//! | leased, read, **written**, **cache updated**, stored | the increment is missing in the copy for hours | an update ends the lease, so the copy is not stored |
//! | leased, read, **written**, stored, **cache updated** | the increment is missing in the copy | the update adds it |
//! | leased, read, **written**, stored, evicted, **cache updated** | the copy contains just a single field | an update does not create a copy |
//! | leased, lease expired, **written**, **cache updated**, stored | the increment is missing in the copy | a copy is not stored if the lease has expired |
//! | **written** 1, **written** 2, **cache updated** 2, **cache updated** 1 | the older row remains | the larger version remains |
//!
//! The tests check all orders of a reader with two writers, of two readers with a writer, and with an
//! eviction, for all caches. As long as nothing fails, a read that starts after an increment has returned
//! will include this increment, even in another process. The only exception is a read that joins a pending
//! query of the same process. It may miss a write from another process that happened while the query was
//! running.
//!
//! # When things go wrong
//!
//! | failure | reaction |
//! |---|---|
//! | the client disconnects, and the handler is dropped | the increment may have been counted; in a transaction with its row, either both were written or neither. The entity is recorded as in the next line |
//! | the cache is unavailable when it should be updated | the increment is counted and returns successfully. The entity is recorded (up to 10,000), and the copy is removed before this process reads it again; other processes may read a stale copy until then |
//! | the process dies between the two writes | the copy is stale until the next increment of the field, the next recount, or the expiry after 12 hours, randomly reduced by up to a tenth |
//! | the cache does not reply | the operation continues without the cache after 200 ms ([`cache_timeout`](crate::entity::EntitiesBuilder::cache_timeout)), and other operations skip the cache for a second |
//! | the cache is unavailable for a read | the database is read, with one query at a time for the same entities in a process |
//! | the database is unavailable or rejects the statement | the increment is not counted and returns an error; cached entities can still be read |
//! | the database does not reply to a write | [`Unconfirmed`](crate::entity::EntityErrorKind::Unconfirmed): may have been counted. It is not retried because it might count twice; if the server executes it later, the copy is stale as above |
//! | the database aborts due to a deadlock or a slow lock | not counted; it is retried four times within half a second |
//! | a count would exceed the range of `i64` | [`OutOfRange`](crate::entity::EntityErrorKind::OutOfRange), and not counted; other rows of the batch are counted |
//! | a batch is not acknowledged | it is sent again unchanged. The fence (writer, sequence) is a row in the same transaction, so the batch counts once |
//! | a database, cache or log panics in a flusher or a recount | it is handled like an error: the flusher reports it and continues, and the batch counts once |
//! | the process is killed | the pending additions are lost, i.e. of about a second, or of the whole outage of the database |
//! | the database is restored from a backup | the versions are smaller than in the cache, so the copies are stale until a recount or their expiry |
//!
//! # Recounting
//!
//! [`Entities::reconcile`](crate::entity::Entities::reconcile) reads the correct counts from a
//! [`Recount`](crate::entity::Recount), page by page, corrects any differences, and returns their size. You
//! can run this future on demand or with a timer in your application. Only a single instance can recount at a
//! time; any other instance gets the error
//! [`AlreadyRunning`](crate::entity::EntityErrorKind::AlreadyRunning). This also happens for a minute after
//! an instance has died during a recount, so you should retry later. If a lock expires too early and two
//! instances recount concurrently, this is safe, because of the versions. A read that is incomplete or fails
//! will stop the recount.
//!
//! # Metrics
//!
//! With the feature `metrics`:
//!
//! | metric | labels | value |
//! |---|---|---|
//! | `access_counter_operations_total` | `operation` (`entity_increment`, `entity_counts`, `entity_flush`, `entity_reconcile`), `outcome` (`ok`, or the kind of error) | operations by outcome |
//! | `access_counter_operation_seconds` | `operation` | duration of operations |
//! | `access_counter_entity_drift_total` | `kind`, `what` (`corrected`, `distance`, `unsettled`, `copies`) | differences found by recounts: see [`Drift`](crate::entity::Drift) |
