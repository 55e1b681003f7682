//! Counts of entities, such as the likes of a post or the followers of a user.
//!
//! # When to choose this
//!
//! | you want to know | choose |
//! |---|---|
//! | how often pages were visited, by the minute or the day | [`Counters`](crate::Counters): counts in time buckets, of a bounded number of names |
//! | how many likes post 42 has, and 43, and each of a million others | [`Entities`](crate::entity::Entities): one number for each field, of any number of entities |
//!
//! A count of an entity has no time: it is what it is now, it goes up and down, and it is kept for as long as the
//! database keeps it. The database has the truth, so counts can be joined and backed up with everything else; the
//! cache (Redis, or the process) answers most reads. Where the database is fast enough for every read,
//! `SELECT COUNT(*)` is simpler than all of this. Where a count may be lost with Redis, `HINCRBY` is simpler.
//!
//! The features `sqlite`, `mariadb` and `postgres` each bring [`sqlx`](https://docs.rs/sqlx) and its driver. The
//! feature `entity` alone is for a database of your own, through [`EntityDatabase`](crate::entity::EntityDatabase).
//! `sqlx` 0.8 and 0.9 both do; [Versions of `sqlx` and of SQLite](#versions-of-sqlx-and-of-sqlite) says how to choose.
//!
//! # How to use it
//!
//! ```
//! # #[cfg(feature = "sqlite")]
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use counter_core::entity::{Entities, EntityDatabase, EntityId, SqliteDatabase};
//! use counter_core::{MemoryStore, entity};
//!
//! entity! {
//!     /// What is counted of a user.
//!     pub enum User: "user" {
//!         Followers = "followers",
//!         Posts = "posts",
//!     }
//! }
//!
//! // In earnest `new`, with a pool of connections, of this or of `MariaDatabase` or `PostgresDatabase`; and a
//! // `RedisStore` for the cache.
//! let database = SqliteDatabase::in_memory().await?;
//! database.create_tables().await?; // makes the tables, if they are missing
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
//! The tables are `access_entity` and `access_entity_fence`. They are created by `CREATE TABLE IF NOT EXISTS`. The
//! migrations table of `sqlx` is left to the application, whose own migrations would refuse to run beside foreign
//! ones.
//!
//! In Redis the user needs `+hget +hset +exists +pexpire` in addition to the rights that the
//! [guide to Redis](crate::guide::redis) lists.
//!
//! Views are too frequent for a statement each. [`Entities::write_behind`](crate::entity::Entities::write_behind) adds them up in the
//! process, and a [flusher](crate::entity::EntityFlusher) that the application runs writes one row a second, however many
//! views there were. Views can be added by the handler of the page, or by the access counter along with its hits,
//! through `AccessCounterLayer::on_count` of `counter-layer`:
//!
//! ```
//! # use counter_core::entity::WriteBehind;
//! # use counter_core::entity;
//! # entity! { enum Post: "post" { Views = "views" } }
//! fn shown(views: &WriteBehind<Post>, post: u64) {
//!     // What finds no place is in the ledger under `refused`.
//!     let _ = views.add(post, Post::Views, 1);
//! }
//! ```
//!
//! # A row and its count
//!
//! A like is a row in a table of the application, and the number of likes is a count. If they were written one after
//! the other, they would differ for good when the process is killed in between, or when the client hangs up and the
//! handler's future is dropped at that await. So they are written in one transaction, and the cache is told after
//! the commit:
//!
//! ```
//! # #[cfg(feature = "sqlite")]
//! # mod example {
//! # use counter_core::entity::{Entities, SqliteDatabase};
//! # use counter_core::entity::sqlx;
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
//! Dropped anywhere, this leaves both the row and its count, or neither. What the cache was not told is removed from
//! it before this process reads from it again, and once more ten seconds later, since the database may still be at
//! the commit. With `sqlx` 0.8, `begin` survives being dropped and `begin_with` does not: it may return a connection
//! with an open transaction to the pool.
//!
//! # Versions of `sqlx` and of SQLite
//!
//! Cargo takes the newest `sqlx` that the compiler can build: 0.9 from Rust 1.94 on, and 0.8 before. The types of
//! [`entity::sqlx`](crate::entity::sqlx) are always those of the version in use. An application with a dependency of its own on
//! `sqlx` 0.8 gets two versions, whose pools are different types; this makes it one:
//!
//! ```sh
//! cargo update -p sqlx@0.9.0 --precise 0.8.6
//! ```
//!
//! Only one version of SQLite's library can be linked into a program. With `sqlx` 0.9 that may be any `libsqlite3-sys` from
//! 0.30 to 0.37, so `rusqlite` 0.32 to 0.39 and `diesel` 2.3 can be used beside it; with `sqlx` 0.8 it is 0.30, so
//! `rusqlite` 0.32. Where cargo reports that two packages link `sqlite3`, there are two ways out: the version of the
//! other crate that goes with one of these, or an [`EntityDatabase`](crate::entity::EntityDatabase) over that other crate, with the
//! feature `entity` in place of `sqlite`.
//!
//! # Consistency of the cache
//!
//! An increment first writes the database, by one statement that increases the row's version by one and returns the
//! row; then it tells the cache. A reader that finds nothing in the cache takes a lease, reads the database, and
//! stores what it read. Between these steps anything may happen:
//!
//! | order | what would be wrong | why it is not |
//! |---|---|---|
//! | leased, **written**, read, stored, **told** | the copy has the increment already, and telling the cache counts it twice | the cache is told the row and not the difference, and accepts larger versions only |
//! | leased, read, **written**, **told**, stored | the copy lacks the increment for hours | telling the cache ends the lease, so nothing is stored |
//! | leased, read, **written**, stored, **told** | the copy lacks the increment | telling the cache brings it up to date |
//! | leased, read, **written**, stored, evicted, **told** | a copy with one field only | an entity without a copy gets none by being told |
//! | leased, lease expired, **written**, **told**, stored | the copy lacks the increment | nothing is stored under a lease that has expired |
//! | **written** 1, **written** 2, **told** 2, **told** 1 | the older row stays | the larger version stays |
//!
//! The tests go through every order of one reader with two writers, of two readers with one writer, and with an
//! eviction, over each cache. As long as nothing fails, a read that begins after an increment was answered sees that
//! increment, in the same process and in any other. There is one exception: a read that joins a query which others
//! in its process are waiting for may miss what other processes wrote while that query was running.
//!
//! # When things go wrong
//!
//! | what happens | what is done |
//! |---|---|
//! | the client hangs up, and the handler is dropped | an increment may have counted; with its row in one transaction, both or neither. The entity is remembered as in the next line |
//! | the cache is away when it should be told | the increment has counted, and succeeds. The entity is remembered (10,000 at most), and its copy is removed before this process reads it from the cache again; for other processes the copy may be out of date until then |
//! | the process dies between the two writes | the copy is out of date until the next increment of the field, the next recount, or its expiry after 12 hours, up to a tenth less at random |
//! | the cache does not answer | after 200 milliseconds ([`cache_timeout`](crate::entity::EntitiesBuilder::cache_timeout)) the operation goes on without it, and for a second the others do not ask it |
//! | the cache is away when it is read | the database is read, once at a time for the same entities in each process |
//! | the database is away, or refuses | nothing is counted, and the error says so; cached entities can still be read |
//! | the database does not answer a write | [`Unconfirmed`](crate::entity::EntityErrorKind::Unconfirmed): it may have counted. It is not repeated, since that could count twice; if the server executes it even later, the copy is out of date as above |
//! | the database gives way: a deadlock, a lock that took too long | nothing was done; it is repeated, four times within half a second |
//! | a count would leave the range of an `i64` | [`OutOfRange`](crate::entity::EntityErrorKind::OutOfRange), and nothing is counted; in a batch the other rows are |
//! | a batch is not acknowledged | it is sent again unchanged. Its fence (writer, sequence) is a row of the same transaction, so it counts once |
//! | database, cache or log panic under a flusher or a recount | it is an error like others: the flusher reports it and goes on, and the batch counts once |
//! | the process is killed | the additions of the last second are lost, or those of the whole outage of the database |
//! | the database is restored from a backup | its versions are smaller than those of the copies, which are out of date until a recount or their expiry |
//!
//! # Recounting
//!
//! [`Entities::reconcile`](crate::entity::Entities::reconcile) asks a [`Recount`](crate::entity::Recount) for the truth, page by page,
//! corrects the counts that differ, and reports by how much. It is a future, to be run on demand or by a timer of the
//! application. One instance at a time recounts, and the others get
//! [`Elsewhere`](crate::entity::EntityErrorKind::Elsewhere). They also get it for a minute after an instance died while
//! recounting, so they have to try again later to be certain. If a lock ends too early and two instances recount at
//! once, versions keep them from harming each other. A read that is partial or fails stops the recount.
//!
//! # Metrics
//!
//! With the feature `metrics`:
//!
//! | metric | labels | what |
//! |---|---|---|
//! | `access_counter_operations_total` | `operation` (`entity_increment`, `entity_counts`, `entity_flush`, `entity_reconcile`), `outcome` (`ok`, or what went wrong) | how operations ended |
//! | `access_counter_operation_seconds` | `operation` | how long they took |
//! | `access_counter_entity_drift_total` | `kind`, `what` (`corrected`, `distance`, `unsettled`, `copies`) | what recounts found: see [`Drift`](crate::entity::Drift) |
