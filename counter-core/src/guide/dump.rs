//! Dumps: a backup of all counts in a file that can be restored into any store.
//!
//! Use a dump if a SQLite file has become too slow, to move from Redis to a database, or to change the
//! namespace or the number of shards. [`Stats::dump`](crate::Stats::dump) can read from any store, and
//! [`Counters::restore`](crate::Counters::restore) adds the contents to any other store: see the example in
//! the module [`dump`](crate::dump). For unique counters, use `UniqueDump` and `UniqueRestore`
//! ([below](#unique-counters)). The program `example-app` has the commands `dump` and `restore`, which
//! support both in the same file:
//!
//! ```text
//! $ example-app dump --store sqlite:access-counter.db counts.ndjson.gz
//! {"counters":1000,"samples":540000,"sketches":9239,"lifetimes":1000,"unreadable":0,"unique":{"counters":0,…},"lines":17241,"seconds":…}
//! $ example-app restore --store redis://127.0.0.1:6379 counts.ndjson.gz
//! {"counters":1000,"samples":540000,"sketches":9239,"lifetimes":1000,"already_restored":0,"expired":0,…,"seconds":…}
//! $ example-app restore --store redis://127.0.0.1:6379 counts.ndjson.gz
//! {"counters":1000,"samples":0,"sketches":0,"lifetimes":0,"already_restored":550239,"expired":0,…,"seconds":…}
//! ```
//!
//! # Moving a site without downtime
//!
//! Restored counts are added to existing counts, and registers of visitors are merged. This allows you to
//! count into the new store before you restore the dump of the old store:
//!
//! 1. Start new instances that use the new store.
//! 2. Stop the old instances, which flushes their hits to the old store.
//! 3. Dump the old store, and restore the dump into the new store.
//!
//! This does not lose or duplicate hits, but readers will not see the old counts until the restore has
//! finished. If there are only a few hits, it may be easier to stop the site for the dump and the restore.
//!
//! A dump is not a snapshot. If hits are counted during the dump, it may contain such a hit, or not, or only
//! in some of the precisions. This is good enough for a backup. For a move, you have to stop the old
//! instances first, because otherwise their last hits would be left in the old store.
//!
//! # Exactly-once restore
//!
//! A dump has a random id and numbered lines. For each shard, the store keeps the number of the last line
//! that was restored, next to the counts. Technically, a restore is a [source](crate::source) with the name
//! `dump:{id}`. If a restore is killed, or if the store becomes unavailable, just restart it from the first
//! line, even if more than one process might do so. When a line is missing, duplicated or damaged, the
//! restore stops before it adds anything from that line. The lines before it have been applied, and they will
//! be skipped when you restore an intact file. A line ends with a checksum that includes all lines before it,
//! so any modification will be detected, even within a damaged `.gz`.
//!
//! The position of a dump is kept forever, and needs about 200 bytes per shard. You can remove it with
//! [`Sources::forget`](crate::source::Sources::forget), but then the dump could be added again.
//!
//! # Protection against double counting
//!
//! A store has a random [id](crate::visits::StoreId), which is lost when the store loses its data. The first
//! line of a dump contains the ids of the store itself and of all stores whose counts have been restored or
//! archived into it. A restore is rejected at the start in the following cases:
//!
//! - The dump contains counts from the target store ([`OwnCounts`](crate::dump::RestoreError::OwnCounts)),
//!   i.e. it was created from this store, or from another store into which this store was restored. If the
//!   store has lost all its data, it has a new id and will accept the dump. If you only deleted the counts,
//!   delete the id as well: this is the key `document:store` of the namespace in Redis, or the row `store` of
//!   `access_documents` in SQL.
//! - The target store already contains counts from the same store, but from another dump
//!   ([`OtherDump`](crate::dump::RestoreError::OtherDump)). To use the later dump instead, restore it into an
//!   empty store or namespace.
//!
//! A dump from a version that did not write ids is restored without these checks.
//!
//! # Unique counters
//!
//! The lines of unique counters must come before the lines of visits, so that the last line of the file is
//! the end of the visits. This makes it possible to detect a file that is incomplete. The kind of a counter
//! is preserved: a set is restored with its items, a HyperLogLog with its registers, and an adaptive counter
//! with either of them.
//!
#![cfg_attr(
    feature = "unique",
    doc = r#"```
use counter_core::unique::dump::{UniqueDump, UniqueRestore};
use counter_core::unique::{Distinct, SetUniqueCounter, UniqueCounter};
use counter_core::{Counters, MemoryStore};

# #[tokio::main(flavor = "current_thread")]
# async fn main() -> Result<(), Box<dyn std::error::Error>> {
let old = MemoryStore::new();
SetUniqueCounter::new(old.clone(), "voters".parse()?).include("ann").await?;
let visits = Counters::builder(old.clone()).build()?;

let mut file = Vec::new();
let (mut unique, mut visits) = (UniqueDump::new(old), visits.stats().dump());
while let Some(line) = unique.next().await? {
    file.push(line);
}
while let Some(line) = visits.next().await? {
    file.push(line);
}

let new = MemoryStore::new();
let counters = Counters::builder(new.clone()).build()?;
let (mut unique, mut visits) = (UniqueRestore::new(new.clone()), counters.restore());
for line in &file {
    match UniqueRestore::is_line(line.as_bytes()) {
        true => unique.line(line.as_bytes()).await?,
        false => visits.line(line.as_bytes()).await?,
    }
}
assert_eq!((unique.finish()?.counters, visits.finish().await?.counters), (1, 0));
let voters = SetUniqueCounter::new(new, "voters".parse()?);
assert_eq!(voters.count().await?, Distinct::Exact(1));
# Ok(())
# }
```"#
)]
//! The restored counters are merged with existing counters, i.e. items are added to a set, and registers are
//! raised. This is idempotent, so a fence is not needed, and it is safe to restore two dumps of the same
//! store. If an item was excluded or a counter was forgotten after the dump, it will be restored.
//!
//! The threshold of an adaptive counter is not stored. If the counter was exact in the dump, it will stay
//! exact up to 10,000 items until the next call from your application, which uses the configured threshold.
//! If your application has set an expiry on a key, this is not part of the dump.
//!
//! On Redis, the keys of unique counters are found with `SCAN` on all servers, once per shard on that server.
//! A call scans 1,000 keys of any type, or reads about a thousand items. If the user has limited permissions,
//! `+scan` and `+type` must be added. Items that are added or removed during the dump may or may not be
//! included. If the connection is lost or a server is replaced, the current list or set is read from the
//! start. In this case, some lines are duplicated, but they will count once.
//!
//! # Who can read a dump
//!
//! Anyone with access to the file can read the contents, because base64 is not encryption. You should protect
//! this file like the store.
//!
//! - For **visits**, it contains counter names, numbers, and registers of visitors, but not the salts that
//!   were used to hash them. Thus it can't be used to test whether an address was counted.
//! - For **sets**, and for adaptive counters that are still exact, it contains **all items unchanged**. If
//!   you used a [`VisitorKey`](crate::visitor::VisitorKey), the item is a hash of 16 bytes, which is useless
//!   without the key, and the key is not part of the dump. But if you added an address, an account or a
//!   cookie directly, it can be read from the dump, just like from the store.
//! - For **HyperLogLogs**, it contains registers. These can't be converted to items, but if someone already
//!   knows an item, they can test whether it might have been counted. With a `VisitorKey`, this is not
//!   possible without the key.
//!
//! Items are never included in errors or log messages.
//!
//! # Grids
//!
//! A dump contains the precisions of the process that creates it, for the time that is
//! [available](crate::Stats::reach) in the store. A restore uses the grid of its process: buckets that are
//! older than the retention are `expired` in [`Restored`](crate::dump::Restored), while buckets with another
//! precision or offset are `unknown`. Since coarse buckets are not computed from finer samples, both
//! processes should use the same grid, e.g. via [`Builder::grid_of_store`](crate::Builder::grid_of_store).
//! Lifetimes are always restored, even if all samples of a counter have expired.
//!
//! An archive is dumped as a single store, including all years. A restore into an archive only adds to the
//! near store, with the retention of that store. To restore the years, restore the same dump into the far
//! store directly, with the precisions and the retention of the archive.
//!
//! # What a dump does not contain
//!
//! - **Salts**, which are secrets: with the salts, the dump could be used to test addresses. The new store
//!   creates new salts. Therefore, a visitor of both stores counts as two in the buckets that were open
//!   during the move. If you use the [stable salt](crate::Recorder::stable_salt), this also applies to unions
//!   of buckets before and after the move. If your application has a [key](crate::visitor::VisitorKey) for
//!   visitors, they will stay the same.
//! - **Fences** of processes, because an instance is a new writer in the new store.
//! - **Positions of sources**: logs, topics and producers would start at 0 in the new store, and count all
//!   records again. To prevent this, set their positions before they are read:
//!   [`Source::advance_to`](crate::source::Source::advance_to) and [`close`](crate::source::Source::close).
//! - **Windows**, which expire, and **entities**, because their database is authoritative.
//! - A [spool](crate::Builder::spool) that is not empty. Wait until it has been sent.
//!
//! # Format
//!
//! A dump is a text file. A line is a JSON object with a number and an entry. Times are Unix seconds, and a
//! precision is a string, e.g. `60` or `86400@82800`. The lines of a precision are consecutive.
//!
//! ```text
//! {"line":1,"entry":{"dump":{"format":"access-counter","version":3,"id":"…","time":1585908965,"counts":[{"precision":"60","samples":120}],"visitors":[…],"stores":["…"]}}}
//! {"line":2,"entry":{"samples":{"precision":"60","counter":"/about","counts":[[1585908900,3],[1585908960,12]]}}}
//! {"line":3,"entry":{"visitors":{"precision":"3600","counter":"/about","start":1585908000,"registers":"SFlMTA…"}}}
//! {"line":4,"entry":{"lifetime":{"counter":"/about","count":15}}}
//! {"line":5,"entry":{"end":{"counters":1,"samples":2,"sketches":1,"lifetimes":1,"unreadable":0}}}
//! ```
//!
//! If distributions are enabled, the first line contains their precisions under `distributions` and has
//! version 4. The file then includes lines with up to 60 [bins](crate::visits::Bin) of a bucket:
//!
//! ```text
//! {"line":4,"entry":{"bins":{"precision":"3600","counter":"/about","start":1585908000,"bins":[["t-17",3],["c200",3]]}}}
//! ```
//!
//! The lines of unique counters are numbered separately, and the field is `unique` instead of `line`. A line
//! contains up to 500 items, encoded in base64. A larger set has more lines:
//!
//! ```text
//! {"unique":1,"entry":{"dump":{"format":"access-counter","version":2,"time":1585908965}}}
//! {"unique":2,"entry":{"registers":{"kind":"hll","counter":"readers","registers":"SFlMTA…"}}}
//! {"unique":3,"entry":{"items":{"kind":"set","counter":"voters","items":["YW5u","Ym9i"]}}}
//! {"unique":4,"entry":{"end":{"counters":2,"items":2,"sketches":1,"unreadable":0}}}
//! ```
//!
//! The kind is `set`, `hll` or `adaptive`. The latter has either items or registers. If the store does not
//! have unique counters, these lines are omitted.
//!
//! A line ends with `,"sum":"…"}`, which is not shown above. This checksum is the MurmurHash64A, using the
//! same seed as Redis, of 16 bytes: the checksum of the previous line (0 for the first), followed by the hash
//! of the line without its checksum, both as little-endian integers. Dumps from earlier versions do not have
//! checksums, and are restored without this check.
//!
//! Registers are the value of a HyperLogLog key in Redis, encoded in base64. If a key could not be read,
//! there is an `unreadable` entry with the key and the reason, so that you can see what is missing. If the
//! last line is missing, the file was truncated, and the restore reports this at the end.
