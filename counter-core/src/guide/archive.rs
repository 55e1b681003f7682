//! An archive: counts and visitors for years, and what brings them back after a loss.
//!
//! A Redis keeps 120 buckets of each precision by default: five days of hours, four months of days. With an
//! [`Archive`](crate::archive::Archive), the hours and days are copied into a database as they close, and everything
//! that reads sees one series over both.
//!
//! ```no_run
//! use counter_core::archive::Archive;
//! use counter_core::stores::Namespace;
//! use counter_core::{Counters, RedisStore, SqlStore, Timestamp};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let near = RedisStore::connect("redis://127.0.0.1", Namespace::default()).await?;
//! let far = SqlStore::builder().create_tables().connect("postgres://127.0.0.1/archive").await?;
//! let archive = Archive::new(near, far);
//! let counters = Counters::builder(archive.clone()).build()?;
//!
//! // In one process at least; in several, one of them does the work.
//! let (mut copier, mut auditor) =
//!     (archive.copier(counters.stats().grid()), archive.auditor(counters.stats().grid()));
//! tokio::spawn(async move { copier.run(std::future::pending()).await });
//! tokio::spawn(async move { auditor.run(std::future::pending()).await });
//! # Ok(())
//! # }
//! ```
//!
//! A site whose only store is a database needs no archive: it keeps as many samples as
//! [`Builder::precisions`](crate::Builder::precisions) says.
//!
//! # What is kept
//!
//! | | by default | a sample takes |
//! |---|---|---|
//! | counts of hours | two years | 21 bytes in SQLite, 137 in PostgreSQL |
//! | counts of days | ten years | the same |
//! | visitors of hours | 92 days | 100 bytes for ten visitors, 12 KB for thousands |
//! | visitors of days | ten years | the same |
//!
//! [`Archive::keep`](crate::archive::Archive::keep) sets other ones. A bucket without hits takes nothing.
//!
//! # When a bucket is copied
//!
//! | | counts | visitors |
//! |---|---|---|
//! | two minutes after its end | yes | yes |
//! | with the next two buckets, for hits that came late | yes | yes |
//! | as it leaves the near store, for the last time | yes; the near store waits for it | yes, but not later than their keys expire |
//!
//! In between, a late hit is in the near store alone, and readers see it: they take the greater of the two counts. The near
//! store waits for twice its retention at most, and the hint `archive_behind` says so. Visitors who are counted in a bucket
//! after its last copy and before their key expires, which is within its last two widths, are not archived; hits are.
//!
//! Copying is idempotent: the far store keeps the greater of two counts and the union of two sketches. A copier that is
//! killed, or two that work at once, change nothing of that. How far it went is kept with what was copied, so a far store
//! that is restored from a backup is filled again as far back as the near one reaches. Whether a bucket is closed is
//! decided by the earlier of two clocks, the copier's and the far store's. A copier that is told to stop gives its lease
//! back, so that another one goes on at once; after one that was killed, that takes up to 2 minutes.
//!
//! What cannot be read in the near store, such as a key that another program overwrote, is left out and holds up nothing
//! else; the hint `archive_incomplete` says so. If it is a list of counters, the buckets of all counters of its precision
//! wait in the near store, for twice its retention at most. When the list can be read again, those that had to wait are
//! copied at once, and the others as they leave or with the next audit.
//!
//! # Audits
//!
//! An [`Auditor`](crate::archive::Auditor) compares counts, visitors and distributions of both stores, bucket by bucket,
//! where both should have the same. What
//! came late into the near store is copied by the way. If the near store has less than was copied from it, it has lost
//! something: that is logged, in the health, a hint and the metric `access_counter_archive_differing_values`.
//!
//! | which side is right | what a repair does |
//! |---|---|
//! | [`Side::Far`](crate::archive::Side::Far): a Redis lost its data | adds what is missing to the near store, under a fence, so that nothing is added twice and hits that come meanwhile stay |
//! | [`Side::Near`](crate::archive::Side::Near): the archive is wrong | replaces what the archive has, even by less |
//!
//! Until then, counts of both stores are read, and visitors of single series; tables of many counters ask the near store
//! alone for the visitors that it should have. A repair brings back what is within the near store's retention, and lifetimes: a
//! lifetime becomes the greatest of what the two stores have and of the sum of its days. A log whose position was lost with the data is read again:
//! let its readers come to its end first, or its hits count once more.
//!
//! What was open when the near store was lost is in no archive, nor is what came after the last copy.
//!
//! # When a store is away
//!
//! | | what happens |
//! |---|---|
//! | the far store is away | hits count as ever; what the near store has is read, if need be after 5 s; what only the archive may have is an error; buckets wait |
//! | the near store is away | hits wait, as without an archive; nothing is read |
//! | a counter is forgotten | in both; what was read of it before is not written again |
//!
//! # One archive for each store
//!
//! One far store is the archive of one near store and namespace, and keeps the [id](crate::visits::StoreId) of that store.
//! Another one is refused: it is neither copied nor audited, its readers see the near store alone, and the hint
//! `archive_of_another_store` says so. [`Archive::check`](crate::archive::Archive::check) refuses it at the start. Two near
//! stores may follow each other:
//!
//! - a store of the same kind and namespace that was created after the last copy: the earlier one lost all of its data;
//! - any store into which a dump of the earlier one was restored: the site was moved.
