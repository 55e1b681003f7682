//! Archives: counts and visitors for years, which can be restored after a loss.
//!
//! By default, Redis keeps 120 buckets for each precision, i.e. hours for five days and days for four months.
//! With an [`Archive`](crate::archive::Archive), hours and days are copied into a database when they close.
//! Readers will see a single series across both stores.
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
//! // Run these in at least one process. If there are more, a lease selects the active one.
//! let (mut copier, mut auditor) =
//!     (archive.copier(counters.stats().grid()), archive.auditor(counters.stats().grid()));
//! tokio::spawn(async move { copier.run(std::future::pending()).await });
//! tokio::spawn(async move { auditor.run(std::future::pending()).await });
//! # Ok(())
//! # }
//! ```
//!
//! If a database is your only store, you do not need an archive. Just set the number of samples with
//! [`Builder::precisions`](crate::Builder::precisions).
//!
//! # Retention
//!
//! | | default | size of a sample |
//! |---|---|---|
//! | counts of hours | two years | 21 bytes in SQLite, 137 in PostgreSQL |
//! | counts of days | ten years | the same |
//! | visitors of hours | 92 days | 100 bytes for ten visitors, 12 KB for thousands |
//! | visitors of days | ten years | the same |
//!
//! Use [`Archive::keep`](crate::archive::Archive::keep) to change this. A bucket without hits does not need
//! any space.
//!
//! # When buckets are copied
//!
//! | time | counts | visitors, distributions |
//! |---|---|---|
//! | two minutes after the end of the bucket | yes | yes |
//! | with the next two buckets, to include late hits | yes | yes |
//! | for the last time, when the bucket leaves the near store | yes; the near store waits for this | yes; the near store only waits for four widths of the bucket |
//!
//! Between these copies, a late hit is only in the near store. Readers will still see it, because they use
//! the greater of the two counts. The near store waits for up to twice its retention. In the meantime, the
//! hint `archive_behind` is shown. If visitors or distributions change after the last copy, and no copier is active in the
//! four widths after the end of retention, the change will not be archived, but the hits will.
//!
//! If a hit can only be sent after its bucket has left the near store, e.g. because the store was unavailable for
//! longer than its retention, it counts in the wider buckets that are still retained, in both stores.
//!
//! Copying is idempotent, since the far store keeps the greater of two counts and the union of two sketches.
//! This is why a copier can be killed at any time, or run in more than one process. The progress is stored in
//! the far store, next to the copied data, so if you restore the far store from a backup, it will be filled
//! again as far back as the near store has data. A bucket is considered closed when it has ended by both the
//! copier clock and the far store clock. When a copier is stopped, it releases its lease, and another copier
//! can take over immediately. If it is killed, this takes up to 2 minutes.
//!
//! If something can't be read from the near store, e.g. because another program has overwritten the key, it
//! is skipped without blocking anything else, and the hint `archive_incomplete` is shown. If a list of
//! counters can't be read, the buckets of all counters with this precision are retained in the near store,
//! for up to twice its retention. When the list can be read again, retained buckets are copied immediately,
//! and other buckets will be copied when they leave the near store or by the next audit.
//!
//! # Old logs
//!
//! A log that is older than the near store keeps can be counted into the archive:
//! [`Sources::archive`](crate::source::Sources::archive), or `import --archive URL` of the example. Each record counts once
//! in each precision, either in the near store or in the far store, and lifetimes include all of them. This remains true if
//! the import is killed, repeated, or has been run without an archive before.
//!
//! For this purpose, a source notes in the near store when its records were counted, because this decides which buckets
//! the near store has kept. The near store is always written first. Hits are only added to a bucket of the far store once
//! its final copy is done, so a copier must be running. It does not matter if the site has counted in the same hours.
//!
//! # Audits
//!
//! An [`Auditor`](crate::archive::Auditor) compares counts, visitors and distributions of both stores, for
//! all buckets that should be the same. If the near store contains late hits, they will be copied. If the
//! near store contains less than the far store, it has lost data. This is logged and reported in the health,
//! as a hint, and via the metric `access_counter_archive_differing_values`.
//!
//! | correct store | effect of a repair |
//! |---|---|
//! | [`Side::Far`](crate::archive::Side::Far): Redis lost its data | adds missing values to the near store, under a fence, so that values are not added twice, and concurrent hits are preserved |
//! | [`Side::Near`](crate::archive::Side::Near): the archive is wrong | replaces the values in the archive, even by smaller values |
//!
//! Until the repair, reads use the counts of both stores, and the visitors of both stores for a single
//! series. But tables of many counters only read visitors from the near store. A repair restores all data
//! within the retention of the near store. It also restores lifetimes, using the maximum of both stores and
//! the sum of the days. If the position of a log was lost, this log will be read again: you should wait for
//! the readers to reach its end, or else the hits will be counted again.
//!
//! Buckets that were still open when the near store was lost are not in the archive, nor are hits that came
//! after the last copy.
//!
//! # When a store is unavailable
//!
//! | event | effect |
//! |---|---|
//! | the far store is unavailable | hits are counted normally; buckets within the retention of the near store are read as usual, older ones are [unreadable](crate::visits::Unreadable), lists of counters are incomplete, and the hint `archive_unreadable` is shown; only the first read waits, for up to 5 s, and later a read every 10 s, for up to 2 s; buckets wait to be copied |
//! | the far store refuses a read, e.g. because of a missing permission | these buckets are unreadable, and the hint `archive_unreadable` is shown for a minute |
//! | a pass of a copier fails | the next pass continues; until then, the hint `archive_not_copied` is shown |
//! | the near store is unavailable | hits wait, as without an archive; reads fail |
//! | a machine with one or both of the stores loses power | no acknowledged hits are lost if both stores sync each commit, like [`SqlStore`](crate::SqlStore) does for SQLite: the near store only removes buckets after the far store has committed them |
//! | a counter is forgotten | it is removed from both stores; data that was read before will not be written again |
//!
//! # An archive belongs to a store
//!
//! A far store can only be the archive of a single near store and namespace, because it records the
//! [id](crate::visits::StoreId) of this store. Any other near store is rejected. It will not be copied or
//! audited, reads are limited to the near store, older buckets are unreadable, and the hint `archive_of_another_store` is shown. You can
//! call [`Archive::check`](crate::archive::Archive::check) to detect this at startup. There are two cases in
//! which an archive accepts a new near store:
//!
//! - The new store has the same kind and namespace, and was created after the last copy, i.e. the old store
//!   lost all its data.
//! - A dump of the old store was restored into the new store, i.e. the site was moved.
